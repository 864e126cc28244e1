//! The story of a record.

use bytes::Bytes;
use prost::Message;
use reprise_domain::Trace;
use reprise_domain::decide::{Ending, Reported};
use reprise_domain::reading::View;
use reprise_domain::record::ReportKind;
use reprise_fingerprint::Scheme;
use reprise_proto::v1 as proto;

use super::answer::{grant_reason, on_lapse, summary};
use super::fields::{record_name_message, timestamp};
use crate::store::SeenMismatch;

/// Bytes of the attempts, and of the replaced values, that are told; over them the
/// oldest are left out, so that every client receives the rest.
const PART_BYTES_MAX: usize = 1024 * 1024;

/// What is known of a record, each kind oldest first as `traces` has it. What people did
/// is in the audit.
pub(crate) fn history(
    view: &View,
    traces: Vec<Trace>,
    mismatches: Vec<SeenMismatch>,
) -> proto::GetHistoryResponse {
    let (mut attempts, mut replaced, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for trace in traces {
        match trace {
            Trace::History {
                attempt,
                attempt_id,
                owner,
                granted_at,
                ended_at,
                ending,
                code,
                provider_reference,
            } => attempts.push(proto::EndedAttempt {
                number: attempt,
                attempt_id: Bytes::copy_from_slice(&attempt_id.0),
                owner,
                grant_time: Some(timestamp(granted_at)),
                end_time: Some(timestamp(ended_at)),
                ending: self::ending(ending).into(),
                code,
                provider_reference,
            }),
            Trace::Replaced {
                attempt,
                provider_reference,
                instruction,
                at,
            } => replaced.push(proto::ReplacedValues {
                attempt,
                provider_reference,
                instruction,
                time: Some(timestamp(at)),
            }),
            Trace::Evidence {
                attempt,
                reported,
                code,
                digest,
                at,
            } => refused.push(proto::RefusedReport {
                attempt,
                kind: report_kind(reported).into(),
                code,
                digest: Bytes::copy_from_slice(&digest),
                time: Some(timestamp(at)),
            }),
            Trace::Audit { .. } => {}
        }
    }
    proto::GetHistoryResponse {
        name: Some(record_name_message(&view.record.name)),
        record: Some(summary(view)),
        newest: Some(newest(view)),
        attempts: latest(attempts),
        replaced: latest(replaced),
        refused,
        mismatches: mismatches.into_iter().map(mismatch).collect(),
    }
}

fn newest(view: &View) -> proto::NewestAttempt {
    let record = &view.record;
    let attempt = &record.attempt;
    proto::NewestAttempt {
        number: attempt.number,
        attempt_id: Bytes::copy_from_slice(&attempt.id.0),
        owner: attempt.owner.clone(),
        grant_time: Some(timestamp(attempt.granted_at)),
        lease_expire_time: Some(timestamp(attempt.lease_end)),
        reason: grant_reason(attempt.why).into(),
        sent: attempt.sent,
        fence: attempt.fence.to_string(),
        repeat_until_time: attempt.repeat_until.map(timestamp),
        unaccounted: record.unaccounted,
        contradicted: record.contradicted,
        on_lapse: on_lapse(attempt.on_lapse).into(),
    }
}

/// The last of `entries` that fit.
fn latest<T: Message>(mut entries: Vec<T>) -> Vec<T> {
    let mut bytes = 0;
    let fitting = entries.iter().rev().take_while(|entry| {
        bytes += entry.encoded_len();
        bytes <= PART_BYTES_MAX
    });
    let left_out = entries.len() - fitting.count();
    entries.split_off(left_out)
}

fn ending(ending: Ending) -> proto::AttemptEnding {
    match ending {
        Ending::Lapsed => proto::AttemptEnding::Lapsed,
        Ending::FailedRetryable => proto::AttemptEnding::FailedRetryable,
        Ending::GivenBack => proto::AttemptEnding::GivenBack,
        Ending::Resolved => proto::AttemptEnding::Resolved,
    }
}

fn report_kind(reported: Reported) -> proto::ReportKind {
    match reported {
        Reported::Outcome(ReportKind::Completed) => proto::ReportKind::Complete,
        Reported::Outcome(ReportKind::FailedRetryable) => proto::ReportKind::FailRetryable,
        Reported::Outcome(ReportKind::FailedFinal) => proto::ReportKind::FailFinal,
        Reported::Pending => proto::ReportKind::MarkPending,
    }
}

fn mismatch(seen: SeenMismatch) -> proto::SeenMismatch {
    let scheme = match seen.fingerprint.scheme {
        Scheme::Raw => proto::FingerprintScheme::Raw,
        Scheme::Json => proto::FingerprintScheme::Json,
    };
    proto::SeenMismatch {
        scheme: scheme.into(),
        rule_id: seen.fingerprint.rule.as_str().to_owned(),
        sha256: Bytes::copy_from_slice(&seen.fingerprint.digest),
        count: seen.count,
        first_time: Some(timestamp(seen.first_at)),
        last_time: Some(timestamp(seen.last_at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_entries_are_told_when_not_all_fit() {
        let entry = |attempt| proto::ReplacedValues {
            attempt,
            instruction: vec![0; 16 * 1024].into(),
            ..proto::ReplacedValues::default()
        };
        let told = latest((1..=100).map(entry).collect());
        assert!(told.len() < 100 && told.len() > 50, "{}", told.len());
        assert_eq!(told.last().map(|entry| entry.attempt), Some(100));
        let few = latest(vec![entry(1), entry(2)]);
        assert_eq!(few.len(), 2);
    }
}
