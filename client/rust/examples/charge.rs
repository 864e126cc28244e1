//! Charges a card once, however often the intent is repeated.
//!
//! Start a server, then twice: `cargo run -p reprise-client --example charge -- [ENDPOINT [KEY]]`.
//! The second run replays the first one's result.

use std::time::Duration;

use reprise_client::{Client, Ending, Identity, Reserve, Verdict, content, record_name};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let endpoint = args.next().unwrap_or("http://127.0.0.1:7077".into());
    // The key was made once, where the intent began: an order number, or a UUID kept with
    // the job. Never in the retry loop.
    let key = args.next().unwrap_or("order-1001".into());

    let client = Client::builder(endpoint).build()?;
    let reserve = Reserve::new(
        record_name("shop", "charge", "customer-7", key),
        Identity::json(r#"{"amount": 4200, "currency": "EUR"}"#),
    )
    .owner("charge example")
    // While somebody else is at it, the answer may be held this long.
    .wait(Duration::from_secs(10));

    let ran = client
        .run(&reserve, |effect| async move {
            match provider::charge(&effect.effect_key).await {
                Ok(id) => Ok(Verdict::Done(content("201", format!(r#"{{"id":"{id}"}}"#)))),
                // The provider decided: everyone who repeats gets this answer.
                Err(provider::Error::Declined) => Ok(Verdict::refused(content("402", "declined"))),
                // Nothing was sent: the next caller may try.
                Err(provider::Error::ConnectionRefused) => {
                    Ok(Verdict::NothingHappened(content("503", "provider down")))
                }
                // Nobody knows. The record becomes pending, and nobody charges again until
                // somebody found out.
                Err(unclear) => Err(unclear),
            }
        })
        .await?;

    match &ran.ending {
        Ending::Completed(result) => println!("charged: {:?}", result.body),
        Ending::Failed(error) => println!("declined for good: {}", error.code),
        Ending::NothingHappened(_) | Ending::TooLate => println!("not charged; repeat this key"),
        Ending::Processing(it) => println!("{:?} is at it; ask again later", it.owner),
        Ending::Unknown | Ending::Pending(_) => println!("may be charged; find out, do not repeat"),
        Ending::Mismatch(_) => println!("the key was used for another payload"),
        Ending::ResultGone(it) => println!("was decided as {}; its bytes are gone", it.code),
    }
    if let Some(first) = ran.replayed {
        println!("a replay; first recorded {:?} ago", first.elapsed()?);
    }
    for warning in &ran.warnings {
        println!("warning: {warning:?}");
    }
    // What still runs in the background is waited for, within bounds.
    if !client.close(Duration::from_secs(10)).await {
        println!("some reports did not get through; their leases will lapse");
    }
    Ok(())
}

/// Stands for the provider's own client.
mod provider {
    #[derive(Debug, thiserror::Error)]
    pub(crate) enum Error {
        #[error("declined")]
        Declined,
        #[error("connection refused")]
        ConnectionRefused,
        #[error("no answer in time")]
        TimedOut,
    }

    pub(crate) async fn charge(idempotency_key: &str) -> Result<String, Error> {
        match std::env::var("PROVIDER").as_deref() {
            Ok("declines") => Err(Error::Declined),
            Ok("is-down") => Err(Error::ConnectionRefused),
            Ok("is-silent") => Err(Error::TimedOut),
            _ => Ok(format!("ch_{idempotency_key}")),
        }
    }
}
