//! `reprise demo`: shows in seconds what the service is for, and checks its own claims.
//! The scenes speak to a server as every caller does; the card provider is a file.

mod caller;
mod provider;
mod scenes;
mod worker;

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Args;
use reprise_client::{Client, Identity, Reserve, record_name};
use tempfile::TempDir;

use super::args;
use super::exit::{Error, Exit};
use super::output::{bold, print};
use super::table;
use crate::config::Config;
use crate::serve::{self, Running};
pub(crate) use caller::{CallerFlags, call};
use provider::{Charge, Provider};

/// How long a call of the demo may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// What the demo's intents do.
const OPERATION: &str = "charge";

/// Show in ten seconds what this is for
///
/// Without --server it starts a server of its own, with its data in a temporary
/// directory, and ends it again.
#[derive(Args, Debug)]
pub(crate) struct DemoFlags {
    /// Address of a running server to use
    #[arg(long, env = "REPRISE_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Whose records
    #[arg(long, default_value = "demo", value_parser = args::word)]
    tenant: String,
}

pub(crate) async fn run(flags: &DemoFlags) -> Result<Exit, Error> {
    let directory = tempfile::Builder::new().prefix("reprise-demo-").tempdir();
    let directory = directory.map_err(Error::io("a temporary directory"))?;
    let (own, server) = match &flags.server {
        Some(server) => (None, server.clone()),
        None => {
            let own = start(&directory).await?;
            let server = format!("http://{}", own.addr());
            (Some(own), server)
        }
    };
    let told = show(flags, &server, &directory).await;
    if let Some(own) = own {
        own.shutdown();
        own.stopped().await.map_err(Error::other)?;
    }
    told.map(|()| Exit::Done)
}

/// A server in this process, on any free port.
async fn start(directory: &TempDir) -> Result<Running, Error> {
    let config = Config {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        data_dir: directory.path().join("data"),
        ..Config::default()
    };
    serve::start(&config).await.map_err(Error::other)
}

async fn show(flags: &DemoFlags, server: &str, directory: &TempDir) -> Result<(), Error> {
    let stage = Stage::new(flags, server, directory)?;
    let whose = match &flags.server {
        Some(_) => "at",
        None => "with a server of its own at",
    };
    say(&format!("Reprise demo, {whose} {server}\n\n"))?;
    worker::settle_soon(&stage).await?;
    scenes::rush(&stage).await?;
    scenes::changed_amount(&stage).await?;
    scenes::killed_caller(&stage).await?;
    close(&stage)?;
    worker::look_back(&stage).await?;
    say("\nTwo intents, two charges. Every caller knows how its intent ended.\n")
}

/// Shows what the provider did, and compares it with what was promised.
fn close(stage: &Stage) -> Result<(), Error> {
    let charges = stage.provider.charges()?;
    let line = |charge: &Charge| {
        [
            charge.id.clone(),
            charge.order.clone(),
            charge.amount(),
            charge.pid.to_string(),
            charge.effect_key.clone(),
        ]
    };
    let lines: Vec<_> = charges.iter().map(line).collect();
    let head = ["CHARGE", "ORDER", "AMOUNT", "BY PROCESS", "EFFECT KEY"];
    heading("The provider's ledger: all that it did")?;
    for line in table::columns(head, &lines).lines() {
        say(&format!("   {line}\n"))?;
    }
    for order in [&stage.rushed, &stage.killed] {
        let count = charges
            .iter()
            .filter(|charge| charge.order == order.order)
            .count();
        claim(
            count == 1,
            format!("{} was charged {count} times", order.order),
        )?;
    }
    let count = charges.len();
    claim(
        count == 2,
        format!("there are {count} charges for 2 orders"),
    )?;
    say("\n")
}

/// What the scenes share.
struct Stage {
    client: Client,
    server: String,
    provider: Provider,
    rushed: Intent,
    killed: Intent,
}

impl Stage {
    fn new(flags: &DemoFlags, server: &str, directory: &TempDir) -> Result<Stage, Error> {
        let client = Client::builder(server).deadline(DEADLINE).build();
        let client = client.map_err(|error| Error::Usage(format!("--server: {error}")))?;
        // A server remembers: the orders of each run are new ones.
        let number = u32::from_be_bytes(rand::random());
        let intent = |at: u8, cents| Intent {
            tenant: flags.tenant.clone(),
            order: format!("order-{number:08x}-{at}"),
            cents,
        };
        Ok(Stage {
            client,
            server: server.to_owned(),
            provider: Provider::new(directory.path().join("ledger")),
            rushed: intent(1, 4200),
            killed: intent(2, 1990),
        })
    }
}

/// One business intent: charge an order. Its key is the order.
#[derive(Clone, Debug)]
struct Intent {
    tenant: String,
    order: String,
    cents: u64,
}

impl Intent {
    fn payload(&self) -> String {
        format!(r#"{{"order":"{}","cents":{}}}"#, self.order, self.cents)
    }

    fn reserve(&self) -> Reserve {
        let name = record_name(&self.tenant, OPERATION, "", &self.order);
        Reserve::new(name, Identity::json(self.payload()))
            .owner(args::user_at_host())
            .instruction(self.payload())
    }
}

/// An amount in cents, for people.
fn euros(cents: u64) -> String {
    format!("{}.{:02} EUR", cents / 100, cents % 100)
}

/// Ends the demo where a promise does not hold.
fn claim(holds: bool, otherwise: impl Into<String>) -> Result<(), Error> {
    if holds {
        return Ok(());
    }
    let otherwise = otherwise.into();
    Err(Error::Other(format!(
        "the demo's promise does not hold: {otherwise}"
    )))
}

fn heading(text: &str) -> Result<(), Error> {
    say(&format!("{}\n", bold(text)))
}

fn step(who: &str, what: &str) -> Result<(), Error> {
    say(&format!("   {who:15} {what}\n"))
}

fn say(text: &str) -> Result<(), Error> {
    print(text.as_bytes())
}
