//! What a server without trouble answers.

use std::time::Duration;

use bytes::Bytes;
use reprise_client::proto::*;
use reprise_client::{Identity, Reserve, record_name};

pub const LEASE: Duration = Duration::from_secs(30);
pub const RESULT_BYTES_MAX: u64 = 1024;
pub const EFFECT_KEY: &str = "9f1c2d3e-4a5b-8c6d-9e7f-001122334455";

pub fn ask() -> Reserve {
    Reserve::new(
        record_name("t1", "charge", "customer-7", "k1"),
        Identity::json(r#"{"amount":100}"#),
    )
}

pub fn wire(duration: Duration) -> prost_types::Duration {
    duration.try_into().unwrap()
}

pub fn at(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds, nanos: 0 })
}

pub fn text(code: &str) -> Content {
    reprise_client::content(code, format!("body of {code}"))
}

pub fn summary(state: State) -> RecordSummary {
    RecordSummary {
        record_id: "r".repeat(64),
        state: state.into(),
        attempt: 1,
        revision: 1,
        effect_key: EFFECT_KEY.to_owned(),
        generation: 1,
        ..RecordSummary::default()
    }
}

pub fn grant() -> Acquired {
    Acquired {
        token: Bytes::from_static(b"token"),
        fence: "1700000000000001".to_owned(),
        lease_remaining: Some(wire(LEASE)),
        lease_expire_time: at(1_700_000_030),
        effect_key: EFFECT_KEY.to_owned(),
        result_bytes_max: RESULT_BYTES_MAX,
        on_lapse: OnLapse::Pending.into(),
        reason: GrantReason::First.into(),
        earlier: None,
    }
}

pub fn reserved(state: State, outcome: reserve_response::Outcome) -> ReserveResponse {
    ReserveResponse {
        record: Some(summary(state)),
        start_over: StartOver::No.into(),
        outcome: Some(outcome),
    }
}

pub fn granted(acquired: Acquired) -> ReserveResponse {
    reserved(
        State::Processing,
        reserve_response::Outcome::Acquired(acquired),
    )
}

pub fn marked() -> MarkSendingResponse {
    MarkSendingResponse {
        record: Some(summary(State::Processing)),
        lease_remaining: Some(wire(LEASE)),
        lease_expire_time: at(1_700_000_030),
    }
}

pub fn completed() -> CompleteResponse {
    CompleteResponse {
        disposition: ReportDisposition::Recorded.into(),
        record: Some(summary(State::Completed)),
        adjusted: Vec::new(),
    }
}

pub fn failed(disposition: ReportDisposition, state: State, kind: FailureKind) -> FailResponse {
    FailResponse {
        disposition: disposition.into(),
        record: Some(RecordSummary {
            failure_kind: kind.into(),
            ..summary(state)
        }),
        adjusted: Vec::new(),
    }
}

pub fn renewed(lease: Duration) -> RenewResponse {
    RenewResponse {
        closed: false,
        record: Some(summary(State::Processing)),
        lease_remaining: Some(wire(lease)),
        lease_expire_time: at(1_700_000_030),
    }
}

pub fn recorded(code: &str) -> Completed {
    Completed {
        result: Some(text(code)),
        record_time: at(1_600_000_000),
    }
}

pub fn found(state: State, reading: lookup_response::Reading) -> LookupResponse {
    LookupResponse {
        name: Some(ask().record),
        record: Some(summary(state)),
        start_over: StartOver::No.into(),
        reading: Some(reading),
    }
}

/// How long a claimed record has been pending.
pub const AGE: Duration = Duration::from_secs(300);

pub fn claimed(key: &str) -> ClaimedRecord {
    ClaimedRecord {
        name: Some(record_name("t1", "charge", "customer-7", key)),
        record: Some(RecordSummary {
            correlation_id: "trace-1".to_owned(),
            ..summary(State::Pending)
        }),
        pending: Some(Pending {
            reason: PendingReason::LeaseExpiredAfterSending.into(),
            detail: "no answer in time".to_owned(),
            since_time: at(1_700_000_000),
            provider_reference: "pi_1".to_owned(),
            ..Pending::default()
        }),
        claim: format!("claim of {key}").into(),
        fence: "1700000000000009".to_owned(),
        lease_remaining: Some(wire(LEASE)),
        lease_expire_time: at(1_700_000_000 + (AGE + LEASE).as_secs().cast_signed()),
        instruction: Bytes::from_static(b"POST /charges"),
        may_deny: true,
        unaccounted: true,
    }
}

pub fn claims(keys: &[&str]) -> ClaimPendingResponse {
    ClaimPendingResponse {
        records: keys.iter().map(|key| claimed(key)).collect(),
    }
}

pub fn taken_over(acquired: Acquired) -> ResolveResponse {
    ResolveResponse {
        disposition: ReportDisposition::Recorded.into(),
        record: Some(summary(State::Processing)),
        acquired: Some(acquired),
        ..ResolveResponse::default()
    }
}
