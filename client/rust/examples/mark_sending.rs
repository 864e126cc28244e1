//! Says MarkSending right before the effect, and stops when the lease is lost.
//!
//! `cargo run -p reprise-client --example mark_sending -- [ENDPOINT [KEY]]`
//!
//! With the policy `TAKE_OVER_UNLESS_SENT`, a caller that dies before the mark provably sent
//! nothing, and the next one goes on; one that dies after it leaves the record pending, with
//! what is needed to find out.

use std::time::Duration;

use reprise_client::{
    Client, Effect, Identity, Reserve, Sending, Uncertainty, Verdict, content, record_name,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let endpoint = args.next().unwrap_or("http://127.0.0.1:7077".into());
    let key = args.next().unwrap_or("order-1001".into());

    let client = Client::builder(endpoint).build()?;
    let order = r#"{"order": 1001, "to": "warehouse-3"}"#;
    let reserve = Reserve::new(record_name("shop", "ship", "", key), Identity::json(order))
        .lease(Duration::from_secs(15));
    let sending = Sending {
        // What must be sent again, byte for byte, by whoever finishes this.
        instruction: order.into(),
        ..Sending::default()
    };

    let ran = client.run_marked(&reserve, sending, ship).await?;
    println!("{:?}, start over: {:?}", ran.ending, ran.start_over);
    client.close(Duration::from_secs(10)).await;
    Ok(())
}

async fn ship(effect: Effect) -> anyhow::Result<Verdict> {
    tokio::select! {
        label = print_label(&effect.instruction, effect.fence) => {
            Ok(Verdict::Done(content("200", label?)))
        }
        // Others may begin now, or have. What was sent is reported as unknown.
        lost = effect.lease_lost() => Ok(Verdict::Unknown(Uncertainty {
            reason: format!("lease lost while printing: {lost:?}"),
            provider_reference: effect.effect_key.clone(),
            check_after: Some(Duration::from_secs(60)),
            ..Uncertainty::default()
        })),
    }
}

/// Stands for a resource that refuses older fences.
async fn print_label(order: &[u8], fence: u64) -> anyhow::Result<String> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(format!(
        "label for {} bytes under fence {fence}",
        order.len()
    ))
}
