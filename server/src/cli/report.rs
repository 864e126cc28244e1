//! What the holder of an attempt reports: `mark-sending`, `complete`, `fail`,
//! `mark-pending`, `renew`.

use std::time::Duration;

use bytes::Bytes;
use clap::{ArgGroup, Args};
use reprise_client::proto::{
    CompleteRequest, FailRequest, FailureKind, MarkPendingRequest, MarkSendingRequest,
    RenewRequest, ReportDisposition, fail_request::Holder, renew_request,
};
use reprise_client::{Reported, omit_over};
use reprise_domain::content::BODY_BYTES_MAX;
use reprise_domain::text::INSTRUCTION_BYTES_MAX;

use super::args::{self, ContentFlags, NameFlags, OutputFlags, ServerFlags, TokenFlags};
use super::exit::{Error, Exit};
use super::input::{Source, Stdin};
use super::output::{Output, note};
use super::resolve::ClaimFlags;
use super::{answer, duration, table, wire_duration, words};

/// Longest time until somebody looks again.
pub(crate) const CHECK_AFTER_MAX: Duration = Duration::from_hours(24 * 30);

/// Say that the effect begins now; without exit code 0 it must not
#[derive(Args, Debug)]
pub(crate) struct MarkSendingFlags {
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    token: TokenFlags,
    /// What the provider will call the effect, if known
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true, value_parser = args::short_text)]
    provider_reference: String,
    /// The request that will be sent; at most 16 KiB
    #[arg(long, value_name = "FILE")]
    instruction_file: Option<Source>,
    /// How long you need from now: 100ms to 15m; the attempt's own length unless given
    #[arg(long, value_name = "DURATION", value_parser = args::lease)]
    lease: Option<Duration>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn mark_sending(flags: &MarkSendingFlags) -> Result<Exit, Error> {
    let mut stdin = Stdin::default();
    let request = MarkSendingRequest {
        record: Some(flags.name.message()),
        token: flags.token.read(&mut stdin)?,
        provider_reference: flags.provider_reference.clone(),
        instruction: instruction(flags.instruction_file.as_ref(), &mut stdin)?,
        lease: flags.lease.map(wire_duration),
    };
    let marked = flags.server.client()?.mark_sending(request).await?;
    let left = duration::show(marked.lease.remaining());
    let words = format!("Send now: {left} are left.");
    Output::new(&flags.output).answer(words, &answer::marked(&marked))?;
    Ok(Exit::Done)
}

/// Report that the effect took place
#[derive(Args, Debug)]
pub(crate) struct CompleteFlags {
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    token: TokenFlags,
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

pub(crate) async fn complete(flags: &CompleteFlags) -> Result<Exit, Error> {
    let mut stdin = Stdin::default();
    let token = flags.token.read(&mut stdin)?;
    let content = flags.content.read(&flags.provider_reference, &mut stdin)?;
    let request = CompleteRequest {
        record: Some(flags.name.message()),
        token,
        result: Some(omit_over(content, BODY_BYTES_MAX)),
    };
    let reported = flags.server.client()?.complete(request).await?;
    print_report(&flags.output, &reported)
}

/// Report that this attempt had no effect
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("kind").required(true).args(["retryable", "final_"]))]
pub(crate) struct FailFlags {
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    token: TokenFlags,
    /// Give back a grant whose answer was lost, by the id of that try
    #[arg(long, value_name = "HEX", value_parser = args::attempt_id, help_heading = "Token",
          conflicts_with_all = ["token", "token_file", "final_", "effect_key_spent", "code", "body_file", "headers", "resource_id", "provider_reference"])]
    attempt_id: Option<[u8; 16]>,
    /// The next caller may try again
    #[arg(long)]
    retryable: bool,
    /// It is decided that it does not take place; the error is replayed
    #[arg(long = "final")]
    final_: bool,
    /// The provider stored under this effect key that the effect will not take place
    #[arg(long)]
    effect_key_spent: bool,
    #[command(flatten)]
    content: ContentFlags,
    /// What the provider calls the refused request
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

pub(crate) async fn fail(flags: &FailFlags) -> Result<Exit, Error> {
    let mut stdin = Stdin::default();
    let (holder, error) = match flags.attempt_id {
        Some(id) => (Holder::AttemptId(Bytes::copy_from_slice(&id)), None),
        None => {
            let token = flags.token.read(&mut stdin)?;
            let error = flags.content.read(&flags.provider_reference, &mut stdin)?;
            let error = omit_over(error, BODY_BYTES_MAX);
            (Holder::Token(token), Some(error))
        }
    };
    let kind = if flags.final_ {
        FailureKind::Final
    } else {
        FailureKind::Retryable
    };
    let request = FailRequest {
        record: Some(flags.name.message()),
        holder: Some(holder),
        kind: kind.into(),
        effect_key_spent: flags.effect_key_spent,
        error,
    };
    let reported = flags.server.client()?.fail(request).await?;
    print_report(&flags.output, &reported)
}

/// Report that the effect may have taken place
#[derive(Args, Debug)]
pub(crate) struct MarkPendingFlags {
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    token: TokenFlags,
    /// Why it is not known, for people
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    /// What the provider calls the effect, if known
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    provider_reference: String,
    /// How to find out or finish it; at most 16 KiB
    #[arg(long, value_name = "FILE")]
    instruction_file: Option<Source>,
    /// When finding out is worth a try: 0 to 30d; the policy's settle_after unless given
    #[arg(long, value_name = "DURATION", value_parser = duration::within(Duration::ZERO..=CHECK_AFTER_MAX))]
    check_after: Option<Duration>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn mark_pending(flags: &MarkPendingFlags) -> Result<Exit, Error> {
    let mut stdin = Stdin::default();
    let request = MarkPendingRequest {
        record: Some(flags.name.message()),
        token: flags.token.read(&mut stdin)?,
        reason: flags.reason.clone(),
        provider_reference: flags.provider_reference.clone(),
        instruction: instruction(flags.instruction_file.as_ref(), &mut stdin)?,
        check_after: flags.check_after.map(wire_duration),
    };
    let reported = flags.server.client()?.mark_pending(request).await?;
    print_report(&flags.output, &reported)
}

/// Move the end of the lease, of an attempt or of a claim
#[derive(Args, Debug)]
pub(crate) struct RenewFlags {
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    token: TokenFlags,
    #[command(flatten)]
    claim: ClaimFlags,
    /// How long you need from now: 100ms to 15m, 0 ends the lease at once; the attempt's
    /// own length unless given
    #[arg(long, value_name = "DURATION", value_parser = duration::zero_or_within(reprise_domain::policy::LEASE))]
    lease: Option<Duration>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn renew(flags: &RenewFlags) -> Result<Exit, Error> {
    let mut stdin = Stdin::default();
    let holder = match flags.claim.is_given() {
        true => {
            flags.token.refuse_beside("--claim")?;
            let claim = flags.claim.read(&flags.name.record_id(), &mut stdin)?;
            renew_request::Holder::Claim(claim)
        }
        false => renew_request::Holder::Token(flags.token.read(&mut stdin)?),
    };
    let request = RenewRequest {
        record: Some(flags.name.message()),
        holder: Some(holder),
        lease: flags.lease.map(wire_duration),
    };
    let renewed = flags.server.client()?.renew(request).await?;
    let words = if renewed.closed {
        "Closed: this attempt has reported its outcome, nothing is left to renew.".to_owned()
    } else {
        let left = duration::show(renewed.lease.remaining());
        format!("The lease runs for {left} from now.")
    };
    Output::new(&flags.output).answer(words, &answer::renewed(&renewed))?;
    Ok(Exit::Done)
}

fn instruction(source: Option<&Source>, stdin: &mut Stdin) -> Result<Bytes, Error> {
    let read = source.map(|source| stdin.bytes(source, INSTRUCTION_BYTES_MAX as u64));
    Ok(read.transpose()?.unwrap_or_default())
}

fn print_report(output: &OutputFlags, reported: &Reported) -> Result<Exit, Error> {
    warn_adjusted(&reported.adjusted);
    let what = disposition(reported.disposition);
    let words = format!("{what}. The record is {}.", words::record(&reported.record));
    Output::new(output).answer(words, &answer::reported(reported))?;
    Ok(Exit::Done)
}

/// What became of a report, in words.
pub(crate) fn disposition(disposition: ReportDisposition) -> &'static str {
    match disposition {
        ReportDisposition::Recorded => "Recorded",
        ReportDisposition::Repeated => "Recorded before, nothing changed",
        ReportDisposition::AlreadyRecorded => {
            "A resolution recorded the same outcome with other bytes, which stay"
        }
        ReportDisposition::Closed => "There is nothing left to report, nothing changed",
        ReportDisposition::Unspecified => "Answered in a way that this program does not know",
    }
}

/// Tells people what was not kept as sent.
pub(crate) fn warn_adjusted(adjusted: &[reprise_client::proto::Adjustment]) {
    for it in adjusted {
        let (field, why) = (table::visible(&it.field), table::visible(&it.description));
        note!("warning: {field} was not kept as sent: {why}");
    }
}
