//! `reprise resolve`: tells a record what was found out, as its operator or by a claim;
//! or many records, from a file.

mod claim;
mod csv;
mod json;
mod judge;
mod many;
mod progress;
mod rows;
mod summary;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use reprise_client::proto::{
    Applied, FailureKind, LookupRequest, NotApplied, OperatorOverride, RecordSummary,
    ResolveRequest, ResolvedFailed, State, StillUnknown, TakeOver, resolve_request,
};
use reprise_client::{AttemptId, Found, Resolved};
use reprise_domain::text::INSTRUCTION_BYTES_MAX;

use super::args::{self, ContentFlags, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::input::{Source, Stdin};
use super::output::{Output, note};
use super::report::{self, CHECK_AFTER_MAX};
use super::reserve::TokenFile;
use super::target::TargetFlags;
use super::{answer, duration, table, wire_duration, words};
pub(crate) use claim::ClaimFlags;
use many::ManyFlags;

/// Tell a record what was found out: as its operator, by a claim, or many from a file
///
/// As operator it reads the record, shows what would be overridden, and asks on a terminal.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("found").required(true).args(["applied", "not_applied", "take_over", "failed", "still_unknown", "from"]))]
#[command(group = ArgGroup::new("basis").required(true).multiple(true).args(["evidence", "evidence_file", "from"]))]
pub(crate) struct ResolveFlags {
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    claim: ClaimFlags,
    #[command(flatten)]
    many: ManyFlags,
    /// It took place: completed, with the content as its result
    #[arg(long, help_heading = "What was found out")]
    applied: bool,
    /// It did not: the next caller may try again
    #[arg(long, help_heading = "What was found out")]
    not_applied: bool,
    /// It did not, and you carry it out now: prints a token
    #[arg(long, help_heading = "What was found out")]
    take_over: bool,
    /// It did not and will not: failed for good, with the content as its error
    #[arg(long, help_heading = "What was found out")]
    failed: bool,
    /// Still not known
    #[arg(long, help_heading = "What was found out")]
    still_unknown: bool,
    /// What that rests on, in words: 1 byte to 16 KiB. With --from it counts for lines
    /// without one
    #[arg(
        long,
        visible_alias = "reason",
        value_name = "TEXT",
        conflicts_with = "evidence_file"
    )]
    evidence: Option<String>,
    /// The same from a file; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    evidence_file: Option<Source>,
    /// Who found out; user@host unless given
    #[arg(long, value_parser = args::actor)]
    actor: Option<String>,
    /// The provider stored under this effect key that the effect will not take place
    #[arg(long, conflicts_with_all = ["applied", "still_unknown"])]
    effect_key_spent: bool,
    /// The revision that you read; the present one unless given
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["claim", "claim_file"])]
    revision: Option<u64>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// With --still-unknown, when to look again: 0 to 30d
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["applied", "not_applied", "take_over", "failed"], value_parser = duration::within(Duration::ZERO..=CHECK_AFTER_MAX))]
    check_after: Option<Duration>,
    /// With --take-over, how long you need: 100ms to 15m; the policy's unless given
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["applied", "not_applied", "failed", "still_unknown"], value_parser = args::lease)]
    lease: Option<Duration>,
    /// With --take-over, to repeat one that had no answer: 32 hexadecimal digits
    #[arg(long, value_name = "HEX", conflicts_with_all = ["applied", "not_applied", "failed", "still_unknown"], value_parser = args::attempt_id)]
    attempt_id: Option<[u8; 16]>,
    /// With --take-over, write the token to this file, which only you may read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["applied", "not_applied", "failed", "still_unknown"])]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    content: ContentFlags,
    /// What the provider calls the effect
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "ID",
        help_heading = "Content"
    )]
    provider_reference: String,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn run(flags: &ResolveFlags) -> Result<Exit, Error> {
    let mut stdin = Stdin::default();
    let evidence = evidence(flags, &mut stdin)?;
    if let Some(from) = &flags.many.from {
        return many::run(flags, from, evidence, &mut stdin).await;
    }
    flags.many.refuse_alone()?;
    let target = flags.target.target()?;
    let mut request = ResolveRequest {
        outcome: Some(outcome(flags, &mut stdin)?),
        effect_key_spent: flags.effect_key_spent,
        evidence: evidence.unwrap_or_default(),
        actor: flags.actor.clone().unwrap_or_else(args::user_at_host),
        ..ResolveRequest::default()
    };
    let client = flags.server.client()?;
    let token_file = flags.token_file.as_deref().map(TokenFile::create);
    let token_file = token_file.transpose()?;
    let lookup = LookupRequest {
        target: Some(target),
        ..LookupRequest::default()
    };
    let found = client.lookup(lookup).await?;
    request.authority = Some(authority(flags, &found, &mut stdin)?);
    request.record = Some(found.name);
    let again = flags_to_repeat(&request);
    let resolved = client.resolve(request).await.inspect_err(|error| {
        if let (true, Some(again)) = (error.outcome_unknown(), again) {
            note!("note: to repeat this very resolution, add {again}");
        }
    })?;
    if let (Some(file), Some(grant)) = (token_file, &resolved.acquired) {
        file.keep(&grant.token)?;
    }
    tell(flags, &resolved)
}

/// By what right. An operator is shown what would be overridden, and asked.
fn authority(
    flags: &ResolveFlags,
    found: &Found,
    stdin: &mut Stdin,
) -> Result<resolve_request::Authority, Error> {
    if flags.claim.is_given() {
        let claim = flags.claim.read(&found.record.record_id, stdin)?;
        return Ok(resolve_request::Authority::Claim(claim));
    }
    show(flags, found);
    if !flags.yes && io::stdin().is_terminal() {
        confirm("Override it?")?;
    }
    let revision = flags.revision.unwrap_or(found.record.revision);
    let authority = OperatorOverride { revision };
    Ok(resolve_request::Authority::OperatorOverride(authority))
}

fn tell(flags: &ResolveFlags, resolved: &Resolved) -> Result<Exit, Error> {
    report::warn_adjusted(&resolved.adjusted);
    let what = report::disposition(resolved.disposition);
    let reads = words::record(&resolved.record);
    let words = match &resolved.acquired {
        Some(_) => {
            format!("{what}. The attempt is yours: carry it out, then report it with the token.")
        }
        None if resolved.held.is_some() => {
            "Held: an operator stopped this operation. Nothing was written, do not carry it \
             out; `reprise status` says since when."
                .to_owned()
        }
        None if flags.take_over => {
            format!(
                "{what}. Do not carry it out: the attempt went on since, the record is {reads}."
            )
        }
        None => format!("{what}. The record is {reads}."),
    };
    let token_file = flags.token_file.as_deref();
    Output::new(&flags.output).grant(words, answer::resolved(resolved), token_file)?;
    match &resolved.acquired {
        None if resolved.held.is_some() => Ok(Exit::Processing),
        None if flags.take_over => Ok(exit(&resolved.record)),
        _ => Ok(Exit::Done),
    }
}

/// What a take-over without a grant is to a script: as Reserve exits.
fn exit(record: &RecordSummary) -> Exit {
    match (record.state(), record.failure_kind()) {
        (State::Processing, _) => Exit::Processing,
        (State::Pending, _) => Exit::Pending,
        (State::Completed, _) => Exit::Completed,
        (State::Failed, FailureKind::Retryable) => Exit::Retryable,
        (State::Failed, _) => Exit::Failed,
        (State::Unspecified, _) => Exit::Unknown,
    }
}

fn outcome(flags: &ResolveFlags, stdin: &mut Stdin) -> Result<resolve_request::Outcome, Error> {
    use resolve_request::Outcome;
    let with_content = flags.applied || flags.failed;
    if !with_content && !flags.content.is_empty() {
        let content = "--code, --body-file, --header and --resource-id";
        return Err(Error::Usage(format!(
            "{content} need --applied or --failed"
        )));
    }
    if !with_content && !flags.still_unknown && !flags.provider_reference.is_empty() {
        let needs = "--applied, --failed or --still-unknown";
        return Err(Error::Usage(format!("--provider-reference needs {needs}")));
    }
    if with_content {
        let content = flags.content.read(&flags.provider_reference, stdin)?;
        return Ok(match flags.applied {
            true => Outcome::Applied(Applied {
                result: Some(content),
            }),
            false => Outcome::Failed(ResolvedFailed {
                error: Some(content),
            }),
        });
    }
    if flags.not_applied {
        return Ok(Outcome::NotApplied(NotApplied {}));
    }
    if flags.take_over {
        let id = flags.attempt_id.map(AttemptId::from_bytes);
        let id = id.unwrap_or_else(AttemptId::random);
        return Ok(Outcome::TakeOver(TakeOver {
            attempt_id: Bytes::copy_from_slice(id.as_bytes()),
            lease: flags.lease.map(wire_duration),
        }));
    }
    Ok(Outcome::StillUnknown(StillUnknown {
        check_after: flags.check_after.map(wire_duration),
        provider_reference: flags.provider_reference.clone(),
    }))
}

/// What a repeat of the command must not choose anew.
fn flags_to_repeat(request: &ResolveRequest) -> Option<String> {
    let mut flags = Vec::new();
    if let Some(resolve_request::Authority::OperatorOverride(it)) = &request.authority {
        flags.push(format!("--revision {}", it.revision));
    }
    if let Some(resolve_request::Outcome::TakeOver(it)) = &request.outcome {
        flags.push(format!("--attempt-id {}", hex::encode(&it.attempt_id)));
    }
    (!flags.is_empty()).then(|| flags.join(" "))
}

/// What it rests on, where it was said.
fn evidence(flags: &ResolveFlags, stdin: &mut Stdin) -> Result<Option<String>, Error> {
    let (flag, text) = match (&flags.evidence, &flags.evidence_file) {
        (Some(text), _) => ("--evidence", text.clone()),
        (None, Some(source)) => ("--evidence-file", stdin.text(source)?),
        (None, None) => return Ok(None),
    };
    if text.is_empty() || text.len() > INSTRUCTION_BYTES_MAX {
        let allowed = format!("must be 1 to {INSTRUCTION_BYTES_MAX} bytes");
        return Err(Error::Usage(format!("{flag}: {allowed}")));
    }
    Ok(Some(text))
}

/// Shows what is about to be overridden, on standard error: the answer comes later.
fn show(flags: &ResolveFlags, found: &Found) {
    note!(
        "The record at revision {}:\n{}\n\n{}",
        found.record.revision,
        words::found(found),
        table::fields(&answer::found(found))
    );
    let decided =
        found.record.state() == State::Failed && found.record.failure_kind() == FailureKind::Final;
    if decided {
        note!(
            "warning: the record says that it failed for good. Others may have started over \
             with another key since: look for a second effect before you go on."
        );
    }
    if flags.not_applied || flags.take_over || flags.failed {
        note_absence();
    }
}

fn note_absence() {
    note!(
        "note: that the provider shows nothing proves nothing while a request may still \
         be under way, or once the provider has forgotten."
    );
}

/// Asks a person.
pub(crate) fn confirm(question: &str) -> Result<(), Error> {
    note!("{question} Type yes:");
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(Error::io("standard input"))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Error::NotConfirmed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_take_over_without_a_grant_never_exits_as_if_it_had_one() {
        for (state, kind, expected) in [
            (
                State::Processing,
                FailureKind::Unspecified,
                Exit::Processing,
            ),
            (State::Pending, FailureKind::Unspecified, Exit::Pending),
            (State::Completed, FailureKind::Unspecified, Exit::Completed),
            (State::Failed, FailureKind::Final, Exit::Failed),
            (State::Failed, FailureKind::Retryable, Exit::Retryable),
            (State::Unspecified, FailureKind::Unspecified, Exit::Unknown),
        ] {
            let record = RecordSummary {
                state: state.into(),
                failure_kind: kind.into(),
                ..RecordSummary::default()
            };
            assert_eq!(exit(&record), expected, "{state:?} {kind:?}");
        }
    }
}
