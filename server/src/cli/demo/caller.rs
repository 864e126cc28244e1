//! A caller of the demo: charges an intent under its key. Also as a process of its own,
//! which says when it has charged and then stays, to be killed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reprise_client::{Client, Effect, Ran, Sending, Verdict};
use tokio::sync::oneshot;

use super::provider::Provider;
use super::{DEADLINE, Intent};
use crate::cli::args;
use crate::cli::exit::{Error, Exit};
use crate::cli::output::print;

/// How long a charge takes, so that there is a time when it is under way.
const CHARGE_TAKES: Duration = Duration::from_millis(100);
/// The word by which the process says that it has charged.
pub(super) const CHARGED: &str = "charged";

/// Charges `intent` unless that was done before. `wait`: how long to wait for others.
pub(super) async fn charge(
    client: &Client,
    intent: &Intent,
    provider: &Provider,
    wait: Duration,
) -> Result<Ran, Error> {
    let reserve = intent.reserve().wait(wait);
    let ran = client.run_marked(&reserve, Sending::default(), |effect: Effect| async move {
        tokio::time::sleep(CHARGE_TAKES).await;
        let charge = provider.charge(&intent.order, intent.cents, &effect.effect_key)?;
        Ok::<_, io::Error>(Verdict::Done(charge.result()))
    });
    Ok(ran.await?)
}

/// The caller that is killed, started by the demo itself.
#[derive(Args, Debug)]
pub(crate) struct CallerFlags {
    #[arg(long)]
    server: String,
    #[arg(long, value_parser = args::word)]
    tenant: String,
    #[arg(long)]
    order: String,
    #[arg(long)]
    cents: u64,
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long, value_parser = args::lease)]
    lease: Duration,
}

/// Charges, says so, and reports nothing until standard input ends: when the demo does.
pub(crate) async fn call(flags: &CallerFlags) -> Result<Exit, Error> {
    let client = Client::builder(&flags.server).deadline(DEADLINE).build()?;
    let provider = Provider::new(flags.ledger.clone());
    let intent = Intent {
        tenant: flags.tenant.clone(),
        order: flags.order.clone(),
        cents: flags.cents,
    };
    let (order, cents) = (&intent.order, intent.cents);
    let reserve = intent.reserve().lease(flags.lease);
    let ran = client.run_marked(&reserve, Sending::default(), |effect: Effect| async move {
        provider.charge(order, cents, &effect.effect_key)?;
        print(format!("{CHARGED}\n").as_bytes()).map_err(io::Error::other)?;
        end_of_stdin().await;
        Err::<Verdict, _>(io::Error::other(
            "the demo ended before it killed this process",
        ))
    });
    let ran = ran.await?;
    Err(Error::Other(format!(
        "nothing was charged: {:?}",
        ran.ending
    )))
}

/// Reads in a thread that the runtime does not wait for.
async fn end_of_stdin() {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        // An error ends the input as well.
        let _read = io::copy(&mut io::stdin(), &mut io::sink());
        ended.send(())
    });
    // A thread that is gone has read to the end.
    let _ended = end.await;
}
