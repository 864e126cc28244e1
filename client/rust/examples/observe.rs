//! Observes before enforcing: the effect runs in any case, and what `Client::run` would have
//! done is printed.
//!
//! `cargo run -p reprise-client --example observe -- [ENDPOINT [KEY]]`
//!
//! The second run shows a double effect that enforcing would have replayed instead. Without
//! a server the effect runs all the same.

use std::convert::Infallible;
use std::time::Duration;

use reprise_client::{Client, Identity, Observe, Reserve, Verdict, content, record_name};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let endpoint = args.next().unwrap_or("http://127.0.0.1:7077".into());
    let key = args.next().unwrap_or("order-1001".into());

    let client = Client::builder(endpoint).build()?;
    let reserve = Reserve::new(
        record_name("shop", "charge", "customer-7", key),
        Identity::json(r#"{"amount": 4200, "currency": "EUR"}"#),
    );
    let observe = Observe::new(reserve)?
        // The effect waits no longer than this for the service.
        .reserve_limit(Duration::from_millis(500))
        // A service would count these by kind.
        .seen(|seen| println!("enforcing would: {}", seen.would));

    let ended = client
        .observe(&observe, || async {
            println!("charging as before");
            Ok::<_, Infallible>(Verdict::Done(content("201", "charged")))
        })
        .await;
    println!("{ended:?}");
    client.close(Duration::from_secs(10)).await;
    Ok(())
}
