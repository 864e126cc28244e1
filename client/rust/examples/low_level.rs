//! The calls one by one, for who cannot hand over the effect as a future.
//!
//! `cargo run -p reprise-client --example low_level -- [ENDPOINT [KEY]]`
//!
//! Here the caller owns the rules that `Client::run` keeps by itself: look at the lease
//! before the effect, renew it during the effect, and report whatever happened.

use std::time::Duration;

use reprise_client::proto::{
    CompleteRequest, LookupRequest, MarkSendingRequest, lookup_request::Target,
};
use reprise_client::{Client, Identity, Outcome, Reserve, content, omit_over, record_name};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let endpoint = args.next().unwrap_or("http://127.0.0.1:7077".into());
    let key = args.next().unwrap_or("order-1001".into());

    let client = Client::builder(endpoint).build()?;
    let record = record_name("shop", "notify", "", key);
    let reserve = Reserve::new(record.clone(), Identity::raw("text/plain", "hello"));

    let reserved = client.reserve(&reserve).await?;
    let acquired = match reserved.outcome {
        Outcome::Acquired(acquired) => acquired,
        other => {
            println!("nothing to do here: {other:?}");
            return Ok(());
        }
    };
    let marked = client
        .mark_sending(MarkSendingRequest {
            record: Some(record.clone()),
            token: acquired.token.clone(),
            ..MarkSendingRequest::default()
        })
        .await?;
    // Without a report the lease lapses, and the record becomes pending.
    anyhow::ensure!(marked.lease.enough_to_begin(), "too late to begin");

    println!("sending under {}", acquired.effect_key);

    let result = omit_over(content("202", "sent"), acquired.result_bytes_max);
    let reported = client
        .complete(CompleteRequest {
            record: Some(record.clone()),
            token: acquired.token,
            result: Some(result),
        })
        .await?;
    println!("{:?}", reported.disposition);

    let found = client
        .lookup(LookupRequest {
            target: Some(Target::Record(record)),
            with_result: true,
            ..LookupRequest::default()
        })
        .await?;
    println!("{:?}", found.reading);
    client.close(Duration::from_secs(10)).await;
    Ok(())
}
