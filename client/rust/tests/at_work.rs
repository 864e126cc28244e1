//! A worker in a task of its own, and what it told.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reprise_client::proto::*;
use reprise_client::{BoxError, Case, Client, Error, Event, Resolution, Why, Worker};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::scripted::*;

pub struct AtWork {
    pub told: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    task: JoinHandle<Result<bool, Error>>,
}

pub fn worker(client: &Client) -> Worker {
    client
        .worker("t1")
        .operation("charge")
        .actor("w1")
        .lease(LEASE)
}

pub fn begin<F, Fut, E>(worker: Worker, find_out: F) -> AtWork
where
    F: Fn(Case) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Resolution, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let stop = CancellationToken::new();
    let (log, until) = (Arc::clone(&told), stop.clone());
    let worker = worker.events(move |event| log.lock().unwrap().push(words(event)));
    let task = tokio::spawn(async move { worker.run(find_out, until.cancelled()).await });
    AtWork { told, stop, task }
}

impl AtWork {
    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// Lets the worker go on until it has told `words`.
    pub async fn until(&self, words: &str) {
        let heard = async {
            while !self.told().iter().any(|told| told.starts_with(words)) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(3600);
        if timeout(limit, heard).await.is_err() {
            panic!("never told {words}: {:?}", self.told());
        }
    }

    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops it and waits until it has. Whether all was finished.
    pub async fn stopped(self) -> Result<bool, Error> {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

fn words(event: &Event<'_>) -> String {
    match event {
        Event::Claimed { count } => format!("claimed {count}"),
        Event::NotClaimed { .. } => "not claimed".to_owned(),
        Event::Resolved { record, .. } => format!("resolved {}", record.key),
        Event::StillUnknown { record, why, .. } => {
            let why = match why {
                Why::Said => "said".to_owned(),
                Why::Failed(words) => format!("failed: {words}"),
                Why::MayNotDeny => "may not deny".to_owned(),
                Why::Held => "held".to_owned(),
                other => format!("{other:?}"),
            };
            format!("unknown {}, {why}", record.key)
        }
        Event::ClaimOver { record, over } => {
            format!("over {}, {}", record.key, over.state.as_str_name())
        }
        Event::CarriedOut { record, ran } => match ran {
            Ok(ran) => format!("carried out {}: {:?}", record.key, ran.ending),
            Err(error) => format!("carried out {}: {error}", record.key),
        },
        Event::NotResolved { record, error } => format!("not resolved {}: {error}", record.key),
        Event::Released { record } => format!("released {}", record.key),
        other => format!("{other:?}"),
    }
}

pub fn resolutions(script: &Script) -> Vec<ResolveRequest> {
    let asked = script.asked().into_iter();
    let resolutions = asked.filter_map(|asked| match asked {
        Asked::Resolve(request) => Some(request),
        _ => None,
    });
    resolutions.collect()
}

/// The leases asked for by renewals of claims, as `(claim, lease)`.
pub fn renewals(script: &Script) -> Vec<(String, Option<prost_types::Duration>)> {
    let asked = script.asked().into_iter();
    let renewals = asked.filter_map(|asked| match asked {
        Asked::Renew(RenewRequest {
            holder: Some(renew_request::Holder::Claim(claim)),
            lease,
            ..
        }) => Some((String::from_utf8(claim.to_vec()).unwrap(), lease)),
        _ => None,
    });
    renewals.collect()
}

pub fn count(script: &Script, name: &str) -> usize {
    script.names().iter().filter(|it| **it == name).count()
}

/// When the record of the only still unknown resolution is looked at again.
pub fn check_after(request: &ResolveRequest) -> Duration {
    match &request.outcome {
        Some(resolve_request::Outcome::StillUnknown(it)) => {
            it.check_after.unwrap().try_into().unwrap()
        }
        other => panic!("{other:?}"),
    }
}
