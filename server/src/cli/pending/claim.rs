//! `reprise pending claim`: takes records to find out about them.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use reprise_client::AttemptId;
use reprise_client::proto::{ClaimPendingRequest, ClaimedRecord};

use super::OfFlags;
use crate::cli::args::{self, OutputFlags, ServerFlags};
use crate::cli::exit::{Error, Exit};
use crate::cli::output::{Output, note, print};
use crate::cli::reserve::TokenFile;
use crate::cli::value::{self, Fields, Value};
use crate::cli::{answer, duration, table, wire_duration};

/// Take due records to find out about them, each under a claim of its own
///
/// A claim runs for its lease and keeps the right to resolve as long as it is the newest.
#[derive(Args, Debug)]
pub(crate) struct ClaimFlags {
    #[command(flatten)]
    of: OfFlags,
    /// Most records to take: 1 to 100
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    max: u32,
    /// How long each claim runs: 100ms to 15m
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = args::lease)]
    lease: Duration,
    /// Who finds out, for people; user@host unless given
    #[arg(long, value_parser = args::short_text)]
    owner: Option<String>,
    /// To repeat a call that had no answer: 32 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = args::attempt_id)]
    claim_id: Option<[u8; 16]>,
    /// Write the claims to this file, which only you may read, a line of JSON for each;
    /// resolve takes it as --claim-file
    #[arg(long, value_name = "FILE")]
    claims_file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &ClaimFlags) -> Result<Exit, Error> {
    let client = flags.server.client()?;
    let file = flags.claims_file.as_deref().map(TokenFile::create);
    let file = file.transpose()?;
    let claim_id = flags
        .claim_id
        .unwrap_or_else(|| *AttemptId::random().as_bytes());
    let request = ClaimPendingRequest {
        tenant: flags.of.tenant.clone(),
        operation: flags.of.operation(),
        claim_id: Bytes::copy_from_slice(&claim_id),
        max_records: flags.max,
        lease: Some(wire_duration(flags.lease)),
        owner: flags.owner.clone().unwrap_or_else(args::user_at_host),
    };
    let answer = client.claim_pending(request).await.inspect_err(|error| {
        if error.outcome_unknown() {
            let id = hex::encode(claim_id);
            note!("note: to repeat this very call, add --claim-id {id}");
        }
    })?;
    let fields = |it: &ClaimedRecord| answer::seen::claimed(it, &claim_id);
    let claims: Vec<Fields> = answer.records.iter().map(fields).collect();
    if let Some(file) = file {
        file.keep_text(&lines(&claims))?;
    }
    show(flags, claims)?;
    Ok(Exit::Done)
}

fn lines(claims: &[Fields]) -> String {
    let line = |claim: &Fields| value::json(claim) + "\n";
    claims.iter().map(line).collect()
}

fn show(flags: &ClaimFlags, claims: Vec<Fields>) -> Result<(), Error> {
    if !Output::new(&flags.output).is_table() {
        for claim in claims {
            Output::new(&flags.output).answer("", &claim)?;
        }
        return Ok(());
    }
    if claims.is_empty() {
        return print(b"Nothing is due.\n");
    }
    let (count, lease) = (claims.len(), duration::show(flags.lease));
    let mut told = format!(
        "Claimed {count}, each for {lease} at most. Ask the provider about the effect key, then\n\
         tell the record: `reprise pending resolve --record-id HEX --claim TOKEN ...`. Without\n\
         may deny, only --applied and --still-unknown are taken.\n"
    );
    for mut claim in claims {
        if let Some(path) = &flags.claims_file {
            let place = Value::from(format!("in {}", path.display()));
            claim.replace("claim", &place);
        }
        told.push('\n');
        told.push_str(&table::fields(&claim));
    }
    print(told.as_bytes())
}
