//! `resolve --from FILE`: tells many records what was found out, some at a time. Each is
//! looked up first, and what is no longer pending is left alone, so that the same file
//! may be run again.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use clap::Args;
use reprise_client::proto::resolve_request::{Authority, Outcome};
use reprise_client::proto::{
    ListAuditRequest, LookupRequest, OperatorOverride, ReportDisposition, ResolveRequest,
};
use reprise_client::{Client, Found, Reason};
use tokio::task::JoinSet;

use super::judge::{self, Standing};
use super::progress::Progress;
use super::rows::{self, Defaults, Row, Wrong};
use super::summary::{Tally, Verdict};
use super::{ResolveFlags, confirm};
use crate::cli::args;
use crate::cli::exit::{Error, Exit};
use crate::cli::input::{Source, Stdin};
use crate::cli::output::note;

/// Largest file.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Wrong lines that are told; the rest is counted.
const WRONG_MAX: usize = 20;
/// How often a record that changes meanwhile is looked up.
const ROUNDS: usize = 3;
/// After so many calls in a row that did not get through, the rest is not tried.
const LOST_MAX: usize = 32;

/// For many records at once.
#[derive(Args, Debug)]
pub(super) struct ManyFlags {
    /// Many records, from a file: CSV with a header, or lines of JSON; `-` reads standard
    /// input. Columns: record_id, or key with operation and subject; attempt; outcome (applied,
    /// not_applied, failed, still_unknown); code, body, resource_id, provider_reference,
    /// evidence, effect_key_spent, check_after, claim, tenant
    #[arg(long, value_name = "FILE", help_heading = "Many records",
          conflicts_with_all = ["key", "record_id", "effect_key", "claim", "claim_file", "revision", "effect_key_spent", "check_after", "lease", "attempt_id", "token_file", "code", "body_file", "headers", "resource_id", "provider_reference"])]
    pub(super) from: Option<Source>,
    /// Look each record up, say what would happen, and write nothing
    #[arg(long, requires = "from", help_heading = "Many records")]
    dry_run: bool,
    /// How many records at the same time: 1 to 256
    #[arg(long, value_name = "NUMBER", default_value_t = 16, requires = "from", help_heading = "Many records", value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// Override also what is no longer pending, as far as an operator may
    #[arg(long, requires = "from", help_heading = "Many records")]
    override_state: bool,
}

impl ManyFlags {
    /// Refuses what says something only beside --from. The parser lets it pass where a
    /// flag is given that excludes --from.
    pub(super) fn refuse_alone(&self) -> Result<(), Error> {
        let alone = match (self.dry_run, self.override_state) {
            (true, _) => "--dry-run",
            (false, true) => "--override-state",
            (false, false) => return Ok(()),
        };
        Err(Error::Usage(format!("{alone}: needs --from")))
    }
}

/// What all lines share.
struct Job {
    client: Client,
    actor: String,
    dry_run: bool,
    override_state: bool,
}

pub(super) async fn run(
    flags: &ResolveFlags,
    from: &Source,
    evidence: Option<String>,
    stdin: &mut Stdin,
) -> Result<Exit, Error> {
    let many = &flags.many;
    let rows = read(flags, from, evidence, stdin)?;
    let job = Arc::new(Job {
        client: flags.server.client()?,
        actor: flags.actor.clone().unwrap_or_else(args::user_at_host),
        dry_run: many.dry_run,
        override_state: many.override_state,
    });
    if !many.dry_run && !rows.is_empty() {
        let denies = |it: &Row| matches!(it.outcome, Outcome::NotApplied(_) | Outcome::Failed(_));
        if rows.iter().any(denies) {
            super::note_absence();
        }
        if !flags.yes {
            ask(from, &rows)?;
        }
    }
    let tally = carry_out(&job, rows, many.parallel.into()).await?;
    tally.tell(&flags.output, many.dry_run)?;
    Ok(tally.exit())
}

fn read(
    flags: &ResolveFlags,
    from: &Source,
    evidence: Option<String>,
    stdin: &mut Stdin,
) -> Result<Vec<Row>, Error> {
    let bytes = stdin.bytes(from, FILE_BYTES_MAX)?;
    let text = str::from_utf8(&bytes);
    let text = text.map_err(|_| Error::Usage(format!("{from}: must be UTF-8 text")))?;
    let defaults = Defaults {
        tenant: flags.target.tenant.clone(),
        operation: flags.target.operation.clone(),
        evidence,
    };
    rows::read(text, &defaults).map_err(|wrong| Error::Usage(told(from, &wrong)))
}

fn told(from: &Source, wrong: &[Wrong]) -> String {
    let mut told = format!("{from}: nothing was written, these lines are wrong:");
    for it in wrong.iter().take(WRONG_MAX) {
        told.push_str(&format!("\n  {it}"));
    }
    if let Some(more) = wrong.len().checked_sub(WRONG_MAX).filter(|more| *more > 0) {
        told.push_str(&format!("\n  and {more} more"));
    }
    told
}

fn ask(from: &Source, rows: &[Row]) -> Result<(), Error> {
    if *from == Source::Stdin || !io::stdin().is_terminal() {
        let told = "nobody can be asked here: look with --dry-run first, then add --yes";
        return Err(Error::Usage(told.to_owned()));
    }
    let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
    let counts = [
        (count(|it| matches!(it, Outcome::Applied(_))), "applied"),
        (
            count(|it| matches!(it, Outcome::NotApplied(_))),
            "not applied",
        ),
        (count(|it| matches!(it, Outcome::Failed(_))), "failed"),
        (
            count(|it| matches!(it, Outcome::StillUnknown(_))),
            "still unknown",
        ),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    note!(
        "{from} resolves {} records: {}.",
        rows.len(),
        counts.join(", ")
    );
    confirm("Go on?")
}

async fn carry_out(job: &Arc<Job>, rows: Vec<Row>, parallel: usize) -> Result<Tally, Error> {
    let all = rows.len();
    let mut rows = rows.into_iter();
    let mut tally = Tally::default();
    let mut tasks = JoinSet::new();
    let mut progress = Progress::new();
    let mut lost = 0;
    loop {
        while tasks.len() < parallel && lost < LOST_MAX {
            let Some(row) = rows.next() else { break };
            let job = Arc::clone(job);
            tasks.spawn(async move { (row.line, one(&job, &row).await) });
        }
        let Some(done) = tasks.join_next().await else {
            break;
        };
        let (line, verdict) =
            done.map_err(|error| Error::Other(format!("a line's task: {error}")))?;
        lost = match verdict {
            Verdict::Unknown { .. } => lost + 1,
            _ => 0,
        };
        tally.add(line, verdict);
        progress.draw(tally.lines(), all, &tally.short());
    }
    for row in rows {
        tally.add(row.line, Verdict::not_tried());
    }
    Ok(tally)
}

/// Looks at one record and tells it what was found out.
async fn one(job: &Job, row: &Row) -> Verdict {
    let mut last = None;
    for _ in 0..ROUNDS {
        match round(job, row).await {
            Ok(verdict) => return verdict,
            // Somebody changed it after it was read: read it again.
            Err(error) if error.reason() == Some(Reason::RevisionChanged) => last = Some(error),
            Err(error) => return Verdict::of(&error),
        }
    }
    last.as_ref().map_or_else(Verdict::not_tried, Verdict::of)
}

async fn round(job: &Job, row: &Row) -> Result<Verdict, reprise_client::Error> {
    let request = LookupRequest {
        target: Some(row.target.clone()),
        ..LookupRequest::default()
    };
    let found = job.client.lookup(request).await?;
    let standing = judge::standing(&found, &row.outcome);
    let told = match standing {
        Standing::Alike => return Ok(Verdict::Before),
        Standing::Pending | Standing::Other(_) => told_before(job, row, &found).await?,
    };
    match standing {
        Standing::Alike => {}
        Standing::Other(_) if told.is_some() => return Ok(Verdict::Before),
        Standing::Other(why) if !job.override_state => return Ok(Verdict::no_longer_pending(why)),
        Standing::Other(_) => {}
        // Of the attempt that is pending now, which was put off: the time that a line names
        // may have passed since.
        Standing::Pending
            if told == Some(found.record.attempt)
                && (!judge::puts_off(&row.outcome) || judge::is_put_off(&found)) =>
        {
            return Ok(Verdict::Before);
        }
        // A claim is for one attempt, whatever was said about those before.
        Standing::Pending if row.claim.is_some() => {}
        Standing::Pending => match (row.attempt, told) {
            (Some(named), _) if named != found.record.attempt => {
                return Ok(Verdict::other_attempt(named, found.record.attempt));
            }
            (None, Some(before)) if before != found.record.attempt => {
                return Ok(Verdict::other_attempt(before, found.record.attempt));
            }
            _ => {}
        },
    }
    if job.dry_run {
        return Ok(Verdict::Resolved);
    }
    let authority = match &row.claim {
        Some(claim) => Authority::Claim(claim.clone()),
        None => Authority::OperatorOverride(OperatorOverride {
            revision: found.record.revision,
        }),
    };
    let request = ResolveRequest {
        record: Some(found.name),
        authority: Some(authority),
        outcome: Some(row.outcome.clone()),
        effect_key_spent: row.effect_key_spent,
        evidence: row.evidence.clone(),
        actor: job.actor.clone(),
    };
    let resolved = job.client.resolve(request).await?;
    Ok(match resolved.disposition {
        ReportDisposition::Recorded => Verdict::Resolved,
        _ => Verdict::Before,
    })
}

/// Of which attempt this very line was told before, as the audit has it: the newest one. The
/// record may have gone on since, with an attempt that the line says nothing about.
async fn told_before(
    job: &Job,
    row: &Row,
    found: &Found,
) -> Result<Option<u32>, reprise_client::Error> {
    let request = ListAuditRequest {
        tenant: found.name.tenant.clone(),
        record_id: found.record.record_id.clone(),
        ..ListAuditRequest::default()
    };
    let entries = job.client.list_audit(request).await?.entries;
    let action = judge::action(&row.outcome);
    let so = entries
        .iter()
        .filter(|it| it.action() == action && it.actor == job.actor && it.reason == row.evidence)
        .filter(|it| row.attempt.is_none_or(|named| named == it.attempt));
    Ok(so.map(|it| it.attempt).max())
}
