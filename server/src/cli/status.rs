//! `reprise status`: how the server and its store are.

use clap::Args;
use reprise_client::proto::{GetStatusRequest, GetStatusResponse, Hold};

use super::answer;
use super::args::{OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::listing::second;
use super::output::{Output, bold};
use super::scope::Scope;

/// Show what is held, and how the server and its background work are
#[derive(Args, Debug)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn run(flags: &StatusFlags) -> Result<Exit, Error> {
    let client = flags.server.client()?;
    let status = client.get_status(GetStatusRequest {}).await?;
    Output::new(&flags.output).answer(holds(&status), &answer::seen::status(&status))?;
    Ok(Exit::Done)
}

fn holds(status: &GetStatusResponse) -> String {
    if status.holds.is_empty() {
        return "Nothing is held: attempts are granted.".to_owned();
    }
    let line = |it: &Hold| {
        let scope = Scope {
            tenant: it.tenant.clone(),
            operation: it.operation.clone(),
        };
        let scope = match it.tenant.is_empty() {
            true => "ALL TENANTS".to_owned(),
            false => scope.to_string(),
        };
        bold(&format!("HELD: {scope}, since {}", second(it.since_time)))
    };
    let lines: Vec<_> = status.holds.iter().map(line).collect();
    lines.join("\n")
}
