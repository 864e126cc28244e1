//! Finds out what happened to pending records, and sends what lies in an outbox.
//!
//! `cargo run -p reprise-client --example worker -- [ENDPOINT [KEY]]`
//!
//! A charge had no answer: the worker asks the provider and resolves it. A mail was only
//! filed, with the request to send: the worker takes it over and sends it. Any number of
//! workers may run side by side.

use std::time::Duration;

use reprise_client::proto::{GetPolicyRequest, Policy, PutPolicyRequest, State};
use reprise_client::{
    Case, Client, Effect, Ending, Event, Finding, Identity, Reserve, Resolution, Uncertainty,
    Verdict, content, record_name,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

const TENANT: &str = "example-worker";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let endpoint = args.next().unwrap_or("http://127.0.0.1:7077".into());
    let key = args.next().unwrap_or("order-1001".into());

    let client = Client::builder(endpoint).build()?;
    settle_at_once(&client, "mail").await?;
    let mut open = 0;
    open += u32::from(file(&client, "charge", &key, "no answer in time").await?);
    open += u32::from(file(&client, "mail", &key, "in the outbox").await?);

    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = client
        .worker(TENANT)
        .actor("worker example")
        .poll(Duration::from_millis(100), Duration::from_secs(1))
        .back_off(Duration::from_secs(1), Duration::from_secs(3600))
        .events(move |event| {
            let (record, settled) = match event {
                Event::Resolved { record, resolved } => {
                    (record, resolved.record.state() == State::Completed)
                }
                Event::CarriedOut { record, ran } => {
                    (record, ran.as_ref().is_ok_and(|ran| ran.result().is_some()))
                }
                _ => return,
            };
            if settled {
                println!("worked on: {} {}", record.operation, record.key);
                // Nobody listens any more when the worker stops.
                let _heard = tell.send(());
            }
        });
    let all_done = async {
        for _ in 0..open {
            told.recv().await;
        }
    };
    let shutdown = async {
        if timeout(Duration::from_secs(60), all_done).await.is_err() {
            println!("gave up waiting");
        }
    };
    // A service would end it at a signal: `tokio::signal::ctrl_c()`.
    worker.run(find_out, shutdown).await?;

    for operation in ["charge", "mail"] {
        file(&client, operation, &key, "asked again").await?;
    }
    client.close(Duration::from_secs(10)).await;
    Ok(())
}

/// Asks the provider about a charge. A mail that is still in the outbox was not sent by
/// anybody: it is taken over.
async fn find_out(case: Case) -> anyhow::Result<Resolution> {
    if case.record.operation == "mail" {
        return Ok(Finding::take_over(send).because("in the outbox"));
    }
    // An error says nothing about the charge: the record is looked at again later.
    let charge = provider::find(&case.effect_key).await?;
    Ok(match charge {
        Some(id) => {
            let receipt = content("201", format!(r#"{{"id":"{id}"}}"#));
            Finding::Applied(receipt).because(format!("the provider lists {id}"))
        }
        // Mere absence counts only once no request can be under way any more, which
        // `case.may_deny` says; the worker keeps that rule.
        None => Finding::NotApplied.because("the provider knows no such charge"),
    })
}

/// Sends the mail, with the request that was filed.
async fn send(effect: Effect) -> anyhow::Result<Verdict> {
    match provider::send(&effect.effect_key, &effect.instruction).await {
        Ok(receipt) => Ok(Verdict::Done(content("202", receipt))),
        // Nobody repeats the intent but the outbox: pending, it is taken up again.
        Err(error) => Ok(Verdict::Unknown(Uncertainty {
            reason: error.to_string(),
            check_after: Some(Duration::from_secs(30)),
            ..Uncertainty::default()
        })),
    }
}

/// Leaves a record for the worker. Answers whether it is pending now.
async fn file(client: &Client, operation: &str, key: &str, why: &str) -> anyhow::Result<bool> {
    let reserve = Reserve::new(
        record_name(TENANT, operation, "customer-7", key),
        Identity::json(r#"{"order": 1001}"#),
    )
    // A record is claimed when its holder's lease is over.
    .lease(Duration::from_secs(1))
    .instruction("To: customer-7\n\nThank you!");
    for _ in 0..10 {
        let ran = client
            .run(&reserve, |_| async {
                Ok::<_, anyhow::Error>(Verdict::Unknown(Uncertainty {
                    reason: why.to_owned(),
                    check_after: Some(Duration::ZERO),
                    ..Uncertainty::default()
                }))
            })
            .await?;
        match ran.ending {
            Ending::Completed(result) => {
                println!("{operation}: {:?}", result.body);
                return Ok(false);
            }
            Ending::Unknown | Ending::Pending(_) | Ending::Processing(_) => return Ok(true),
            // With so short a lease a slow answer comes too late; the key is free.
            Ending::TooLate => println!("{operation}: the grant came too late, again"),
            other => anyhow::bail!("{operation}: {other:?}"),
        }
    }
    anyhow::bail!("{operation}: each grant came too late")
}

/// What was only filed has no request under way: nothing needs to settle.
async fn settle_at_once(client: &Client, operation: &str) -> anyhow::Result<()> {
    let asked = GetPolicyRequest {
        tenant: TENANT.to_owned(),
        operation: operation.to_owned(),
    };
    let stored = client.get_policy(asked).await?.policy.unwrap_or_default();
    let none = prost_types::Duration::default();
    if stored.settle_after == Some(none) {
        return Ok(());
    }
    let policy = Policy {
        tenant: TENANT.to_owned(),
        operation: operation.to_owned(),
        settle_after: Some(none),
        etag: stored.etag,
        ..Policy::default()
    };
    client
        .put_policy(PutPolicyRequest {
            policy: Some(policy),
            actor: "worker example".to_owned(),
            reason: "an outbox: nothing is under way before a worker sends".to_owned(),
        })
        .await?;
    Ok(())
}

/// Stands for the provider's own client.
mod provider {
    pub(crate) async fn find(idempotency_key: &str) -> anyhow::Result<Option<String>> {
        Ok(Some(format!("ch_{idempotency_key}")))
    }

    pub(crate) async fn send(idempotency_key: &str, mail: &[u8]) -> anyhow::Result<String> {
        Ok(format!("{} bytes under {idempotency_key}", mail.len()))
    }
}
