//! What was decided, as messages.

use std::time::Duration;

use bytes::Bytes;
use reprise_domain::command::{Answer, Disposition, MismatchReason, Outcome};
use reprise_domain::policy::OnLapse;
use reprise_domain::reading::{StartOver, View};
use reprise_domain::record::{GrantReason, PendingReason};
use reprise_domain::text::Adjustment;
use reprise_domain::token::TokenKey;
use reprise_domain::{Reading, RecordName, Timestamp};
use reprise_proto::v1 as proto;
use reprise_proto::v1::reserve_response::Outcome as Sent;

use super::content::{adjustments, send, send_while_kept};
use super::fields::{span, timestamp};
use crate::grpc::status::Error;

/// Most and least that a caller is told to wait before it asks again.
const PROCESSING_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// When asking again is worth it where an operator holds everything up.
const HELD_RETRY: Duration = Duration::from_secs(5);
const PENDING_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// The answer to Reserve.
pub(crate) fn reserve_response(
    answer: Answer,
    name: &RecordName,
    result_bytes_max: u64,
    key: &TokenKey,
) -> Result<proto::ReserveResponse, Error> {
    let (outcome, view) = match answer {
        Answer::Outcome(outcome, view) => (outcome, view),
        Answer::Held(view) => return Ok(held_response(view.as_deref(), name)),
        _ => return Err(unexpected()),
    };
    let start_over = match outcome {
        Outcome::Pending { .. } => StartOver::Unknown,
        _ => view.start_over(),
    };
    let shown = match outcome {
        Outcome::Mismatch(_) => summary_of_other_payload(&view),
        _ => summary(&view),
    };
    let sent = match outcome {
        Outcome::Acquired { again } => Sent::Acquired(acquired(view, again, result_bytes_max, key)),
        Outcome::Recorded => recorded(view),
        Outcome::Processing => Sent::Processing(processing(&view)),
        Outcome::Pending { reason, yours } => Sent::Pending(pending(&view, reason, yours, key)),
        Outcome::Mismatch(reason) => Sent::Mismatch(proto::Mismatch {
            reason: mismatch_reason(reason).into(),
        }),
    };
    Ok(proto::ReserveResponse {
        record: Some(shown),
        start_over: self::start_over(start_over).into(),
        outcome: Some(sent),
    })
}

/// Nobody is granted an attempt at present; of a first attempt there is no record yet.
fn held_response(view: Option<&View>, name: &RecordName) -> proto::ReserveResponse {
    let unwritten = || proto::RecordSummary {
        record_id: name.id().to_string(),
        effect_key: name.effect_key(1).to_string(),
        generation: 1,
        ..proto::RecordSummary::default()
    };
    proto::ReserveResponse {
        record: Some(view.map_or_else(unwritten, summary)),
        start_over: self::start_over(StartOver::No).into(),
        outcome: Some(Sent::Processing(held())),
    }
}

fn held() -> proto::Processing {
    proto::Processing {
        retry_after: Some(span(HELD_RETRY)),
        reason: proto::ProcessingReason::Held.into(),
        ..proto::Processing::default()
    }
}

/// The answer to MarkSending.
pub(crate) fn mark_sending_response(answer: Answer) -> Result<proto::MarkSendingResponse, Error> {
    let Answer::Leased(view) = answer else {
        return Err(unexpected());
    };
    Ok(proto::MarkSendingResponse {
        record: Some(summary(&view)),
        lease_remaining: Some(span(lease_remaining(&view))),
        lease_expire_time: Some(timestamp(view.record.attempt.lease_end)),
    })
}

/// The answer to Renew.
pub(crate) fn renew_response(answer: Answer) -> Result<proto::RenewResponse, Error> {
    let (view, end) = match answer {
        Answer::Leased(view) => {
            let end = view.record.attempt.lease_end;
            (view, Some(end))
        }
        Answer::Claimed(view) => {
            let end = view.record.claim.as_ref().map(|claim| claim.lease_end);
            (view, end)
        }
        Answer::Closed(view) => (view, None),
        Answer::Outcome(..) | Answer::Reported(..) | Answer::Held(_) => return Err(unexpected()),
    };
    Ok(proto::RenewResponse {
        closed: end.is_none(),
        record: Some(summary(&view)),
        lease_remaining: end.map(|end| span(end.since(view.now))),
        lease_expire_time: end.map(timestamp),
    })
}

/// The answer to Complete.
pub(crate) fn complete_response(
    answer: Answer,
    adjusted: Vec<Adjustment>,
) -> Result<proto::CompleteResponse, Error> {
    let (disposition, view) = reported(answer)?;
    Ok(proto::CompleteResponse {
        disposition: disposition.into(),
        record: Some(summary(&view)),
        adjusted: adjustments(adjusted),
    })
}

/// The answer to Fail.
pub(crate) fn fail_response(
    answer: Answer,
    adjusted: Vec<Adjustment>,
) -> Result<proto::FailResponse, Error> {
    let (disposition, view) = reported(answer)?;
    Ok(proto::FailResponse {
        disposition: disposition.into(),
        record: Some(summary(&view)),
        adjusted: adjustments(adjusted),
    })
}

/// The answer to MarkPending.
pub(crate) fn mark_pending_response(
    answer: Answer,
    adjusted: Vec<Adjustment>,
) -> Result<proto::MarkPendingResponse, Error> {
    let (disposition, view) = reported(answer)?;
    Ok(proto::MarkPendingResponse {
        disposition: disposition.into(),
        record: Some(summary(&view)),
        adjusted: adjustments(adjusted),
    })
}

/// The answer to Resolve. A take-over asked again is answered as a Reserve would be: what
/// became of its attempt is in the record, and nothing is granted anew.
pub(crate) fn resolve_response(
    answer: Answer,
    adjusted: Vec<Adjustment>,
    result_bytes_max: u64,
    key: &TokenKey,
) -> Result<proto::ResolveResponse, Error> {
    let (disposition, granted, view) = match answer {
        Answer::Held(view) => {
            return Ok(proto::ResolveResponse {
                record: view.as_deref().map(summary),
                processing: Some(held()),
                ..proto::ResolveResponse::default()
            });
        }
        Answer::Reported(disposition, view) => (disposition, None, view),
        Answer::Outcome(Outcome::Acquired { again: false }, view) => {
            (Disposition::Recorded, Some(false), view)
        }
        Answer::Outcome(Outcome::Acquired { again: true }, view) => {
            (Disposition::Repeated, Some(true), view)
        }
        Answer::Outcome(
            Outcome::Recorded
            | Outcome::Processing
            | Outcome::Pending { .. }
            | Outcome::Mismatch(_),
            view,
        ) => (Disposition::Repeated, None, view),
        Answer::Leased(_) | Answer::Closed(_) | Answer::Claimed(_) => return Err(unexpected()),
    };
    Ok(proto::ResolveResponse {
        processing: None,
        disposition: self::disposition(disposition).into(),
        record: Some(summary(&view)),
        acquired: granted.map(|again| acquired(view, again, result_bytes_max, key)),
        adjusted: adjustments(adjusted),
    })
}

/// The answer to ForgetRecord.
pub(crate) fn forget_response(answer: Answer) -> Result<proto::ForgetRecordResponse, Error> {
    let (disposition, view) = reported(answer)?;
    Ok(proto::ForgetRecordResponse {
        disposition: disposition.into(),
        record: Some(summary(&view)),
    })
}

fn reported(answer: Answer) -> Result<(proto::ReportDisposition, View), Error> {
    match answer {
        Answer::Reported(disposition, view) => Ok((self::disposition(disposition), view)),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Error {
    Error::internal("the store gave an answer to another question")
}

/// How the record reads.
pub(super) fn summary(view: &View) -> proto::RecordSummary {
    let record = &view.record;
    proto::RecordSummary {
        record_id: record.name.id().to_string(),
        attempt: record.attempt.number,
        revision: record.revision,
        correlation_id: record.correlation_id.clone(),
        resource_id: record.resource_id.clone(),
        provider_reference: record.provider_reference.clone(),
        effect_key: record.effect_key().to_string(),
        generation: record.generation,
        ..summary_of_other_payload(view)
    }
}

/// State and times: all that somebody sees who used the key with another payload.
fn summary_of_other_payload(view: &View) -> proto::RecordSummary {
    let (state, failure_kind) = state(&view.reading);
    let decided = matches!(state, proto::State::Completed | proto::State::Failed);
    let outcome = view.record.outcome.as_ref().filter(|_| decided);
    proto::RecordSummary {
        state: state.into(),
        failure_kind: failure_kind.into(),
        create_time: Some(timestamp(view.record.created_at)),
        update_time: Some(timestamp(view.record.updated_at)),
        result_expire_time: outcome.map(|outcome| timestamp(outcome.result_until)),
        memory_expire_time: outcome.map(|outcome| timestamp(outcome.memory_until)),
        ..proto::RecordSummary::default()
    }
}

fn state(reading: &Reading) -> (proto::State, proto::FailureKind) {
    let none = proto::FailureKind::Unspecified;
    match reading {
        Reading::Running { .. } | Reading::Takeable => (proto::State::Processing, none),
        Reading::Pending(_) => (proto::State::Pending, none),
        Reading::Completed { .. } => (proto::State::Completed, none),
        Reading::FailedRetryable => (proto::State::Failed, proto::FailureKind::Retryable),
        Reading::FailedFinal { .. } => (proto::State::Failed, proto::FailureKind::Final),
        // Refused as not found before anybody is answered about it.
        Reading::Over => (proto::State::Unspecified, none),
    }
}

pub(super) fn start_over(start_over: StartOver) -> proto::StartOver {
    match start_over {
        StartOver::No => proto::StartOver::No,
        StartOver::Yes => proto::StartOver::Yes,
        StartOver::Unknown => proto::StartOver::Unknown,
    }
}

fn acquired(view: View, again: bool, result_bytes_max: u64, key: &TokenKey) -> proto::Acquired {
    let lease_remaining = span(lease_remaining(&view));
    let record = view.record;
    let attempt = &record.attempt;
    let reason = if again {
        proto::GrantReason::Again
    } else {
        grant_reason(attempt.why)
    };
    let token = key.issue(&record.name.id(), attempt.number, attempt.fence);
    proto::Acquired {
        token: Bytes::copy_from_slice(&token),
        fence: attempt.fence.to_string(),
        lease_remaining: Some(lease_remaining),
        lease_expire_time: Some(timestamp(attempt.lease_end)),
        effect_key: record.effect_key().to_string(),
        result_bytes_max,
        on_lapse: on_lapse(attempt.on_lapse).into(),
        reason: reason.into(),
        earlier: (attempt.number > 1).then(|| proto::EarlierAttempts {
            provider_reference: record.provider_reference,
            instruction: record.instruction,
            unaccounted: record.unaccounted,
            error: record
                .outcome
                .map(|outcome| send_while_kept(outcome, view.now)),
        }),
    }
}

fn recorded(view: View) -> Sent {
    match view.reading {
        Reading::Completed { gone: false } => Sent::Completed(proto::Completed {
            record_time: recorded_at(&view),
            result: view.record.outcome.map(|outcome| send(outcome.content)),
        }),
        Reading::FailedFinal { gone: false } => Sent::Failed(proto::Failed {
            record_time: recorded_at(&view),
            error: view.record.outcome.map(|outcome| send(outcome.content)),
        }),
        _ => Sent::ResultGone(result_gone(view)),
    }
}

pub(super) fn recorded_at(view: &View) -> Option<prost_types::Timestamp> {
    let outcome = view.record.outcome.as_ref();
    outcome.map(|outcome| timestamp(outcome.recorded_at))
}

pub(super) fn result_gone(view: View) -> proto::ResultGone {
    let (state, _) = state(&view.reading);
    proto::ResultGone {
        state: state.into(),
        record_time: recorded_at(&view),
        code: view
            .record
            .outcome
            .map(|outcome| outcome.content.code)
            .unwrap_or_default(),
        resource_id: view.record.resource_id,
        provider_reference: view.record.provider_reference,
    }
}

pub(super) fn processing(view: &View) -> proto::Processing {
    let remaining = lease_remaining(view);
    let (least, most) = PROCESSING_RETRY;
    proto::Processing {
        owner: view.record.attempt.owner.clone(),
        lease_remaining: Some(span(remaining)),
        lease_expire_time: Some(timestamp(view.record.attempt.lease_end)),
        retry_after: Some(span(remaining.clamp(least, most))),
        reason: proto::ProcessingReason::Lease.into(),
    }
}

fn pending(view: &View, reason: PendingReason, yours: bool, key: &TokenKey) -> proto::Pending {
    let attempt = &view.record.attempt;
    // Who never used the token may have lost it with the answer that carried it.
    let unused = yours && !attempt.used && attempt.given_back.is_none();
    let token = key.issue(&view.record.name.id(), attempt.number, attempt.fence);
    proto::Pending {
        yours,
        token: if unused {
            Bytes::copy_from_slice(&token)
        } else {
            Bytes::new()
        },
        ..seen_pending(view, reason)
    }
}

/// Pending, to somebody who does not hold the attempt.
pub(super) fn seen_pending(view: &View, reason: PendingReason) -> proto::Pending {
    let record = &view.record;
    let (since, next_check) = match view.reading {
        Reading::Pending(uncertain) => (uncertain.since, uncertain.next_check),
        // Contradicted, and the lease runs: nothing more is known before it ends.
        _ => (record.updated_at, record.attempt.lease_end),
    };
    let detail = record.pending.as_ref().map(|pending| &pending.detail);
    proto::Pending {
        reason: pending_reason(reason).into(),
        detail: detail.cloned().unwrap_or_default(),
        since_time: Some(timestamp(since)),
        provider_reference: record.provider_reference.clone(),
        next_check_time: Some(timestamp(next_check)),
        retry_after: Some(span(until_check(next_check, view.now))),
        yours: false,
        token: Bytes::new(),
        claim: record
            .running_claim(view.now)
            .map(|claim| proto::PendingClaim {
                owner: claim.owner.clone(),
                take_time: Some(timestamp(claim.taken_at)),
                lease_expire_time: Some(timestamp(claim.lease_end)),
            }),
    }
}

fn until_check(next_check: Timestamp, now: Timestamp) -> Duration {
    let (least, most) = PENDING_RETRY;
    next_check.since(now).clamp(least, most)
}

fn lease_remaining(view: &View) -> Duration {
    view.record.attempt.lease_end.since(view.now)
}

fn disposition(disposition: Disposition) -> proto::ReportDisposition {
    match disposition {
        Disposition::Recorded => proto::ReportDisposition::Recorded,
        Disposition::Repeated => proto::ReportDisposition::Repeated,
        Disposition::AlreadyRecorded => proto::ReportDisposition::AlreadyRecorded,
        Disposition::Closed => proto::ReportDisposition::Closed,
    }
}

pub(super) fn grant_reason(reason: GrantReason) -> proto::GrantReason {
    match reason {
        GrantReason::First => proto::GrantReason::First,
        GrantReason::AfterRetryableFailure => proto::GrantReason::AfterRetryableFailure,
        GrantReason::AfterLapsedLease => proto::GrantReason::AfterLapsedLease,
        GrantReason::AfterResolution => proto::GrantReason::AfterResolution,
    }
}

pub(super) fn pending_reason(reason: PendingReason) -> proto::PendingReason {
    match reason {
        PendingReason::Reported => proto::PendingReason::Reported,
        PendingReason::LeaseExpired => proto::PendingReason::LeaseExpired,
        PendingReason::LeaseExpiredAfterSending => proto::PendingReason::LeaseExpiredAfterSending,
        PendingReason::EarlierAttemptUnknown => proto::PendingReason::EarlierAttemptUnknown,
        PendingReason::ContradictoryReports => proto::PendingReason::ContradictoryReports,
    }
}

fn mismatch_reason(reason: MismatchReason) -> proto::MismatchReason {
    match reason {
        MismatchReason::DifferentPayload => proto::MismatchReason::DifferentPayload,
        MismatchReason::NotComparable => proto::MismatchReason::NotComparable,
    }
}

pub(super) fn on_lapse(on_lapse: OnLapse) -> proto::OnLapse {
    match on_lapse {
        OnLapse::Pending => proto::OnLapse::Pending,
        OnLapse::TakeOverUnlessSent => proto::OnLapse::TakeOverUnlessSent,
        OnLapse::TakeOver => proto::OnLapse::TakeOver,
    }
}
