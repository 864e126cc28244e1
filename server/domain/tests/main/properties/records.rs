//! Records of every shape, also those that no life leads to.

use std::time::Duration;

use proptest::prelude::*;

use crate::calls::{T0, WITHIN, id, name, payload};
use crate::content::Content;
use crate::policy::OnLapse;
use crate::record::{
    Attempt, Claim, ClaimId, Ended, GivenBack, GrantReason, Outcome, Pending, PendingReason,
    Record, Report, ReportKind, Resolution, State,
};
use crate::time::Timestamp;

/// Around [`T0`], some hundred seconds.
fn moment() -> impl Strategy<Value = Timestamp> {
    (-100_000_000_i64..200_000_000).prop_map(|offset| Timestamp(T0.0 + offset))
}

fn report() -> impl Strategy<Value = Report> {
    let kinds = [
        ReportKind::Completed,
        ReportKind::FailedRetryable,
        ReportKind::FailedFinal,
    ];
    let codes = prop::sample::select(vec!["done", "no"]);
    (prop::sample::select(kinds.to_vec()), codes).prop_map(|(kind, code)| Report {
        kind,
        digest: Content::of_code(code).digest(),
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let rules = [
        OnLapse::Pending,
        OnLapse::TakeOverUnlessSent,
        OnLapse::TakeOver,
    ];
    let numbers = (prop_oneof![1_u32..5, Just(u32::MAX)], 1_u8..8, any::<u32>());
    let moments = (moment(), moment(), prop::option::of(moment()));
    let flags = any::<(bool, bool, bool)>();
    let backs = vec![GivenBack::Server, GivenBack::Client];
    let given_back = prop::option::of(prop::sample::select(backs));
    let rule = prop::sample::select(rules.to_vec());
    let earlier = prop::collection::vec((1_u8..8).prop_map(id), 0..5);
    (
        numbers,
        moments,
        flags,
        given_back,
        rule,
        earlier,
        prop::option::of(report()),
    )
        .prop_map(
            |(numbers, moments, flags, given_back, on_lapse, earlier_ids, report)| Attempt {
                number: numbers.0,
                id: id(numbers.1),
                earlier_ids,
                fence: T0.0.unsigned_abs() + u64::from(numbers.2),
                granted_at: moments.0,
                lease_end: moments.1,
                lease: if flags.2 { Duration::ZERO } else { WITHIN },
                on_lapse,
                repeat_until: moments.2,
                why: GrantReason::First,
                owner: String::new(),
                sent: flags.0,
                used: flags.1,
                given_back,
                report,
                pending_digests: Vec::new(),
            },
        )
}

fn pending() -> impl Strategy<Value = Pending> {
    let reasons = vec![
        PendingReason::Reported,
        PendingReason::LeaseExpired,
        PendingReason::LeaseExpiredAfterSending,
        PendingReason::EarlierAttemptUnknown,
        PendingReason::ContradictoryReports,
    ];
    (prop::sample::select(reasons), moment(), moment()).prop_map(|(reason, since, next_check)| {
        Pending {
            reason,
            detail: String::new(),
            since,
            next_check,
        }
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    (moment(), moment(), moment()).prop_map(|(recorded_at, result_until, memory_until)| Outcome {
        content: Content::of_code("done"),
        recorded_at,
        result_until,
        memory_until,
    })
}

fn resolution() -> impl Strategy<Value = Resolution> {
    (1_u32..5, prop::option::of(Just("done"))).prop_map(|(attempt, code)| Resolution {
        attempt,
        digest: [7; 32],
        content: code.map(|code| Content::of_code(code).digest()),
        core: code.map(|code| Content::of_code(code).core_digest()),
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let ids = (1_u8..4).prop_map(|number| ClaimId([number; 16]));
    (ids, any::<u32>(), moment(), moment(), any::<bool>()).prop_map(
        |(id, fence, taken_at, lease_end, over)| Claim {
            id,
            fence: T0.0.unsigned_abs() + u64::from(fence),
            taken_at,
            lease_end,
            lease: WITHIN,
            owner: String::new(),
            over,
        },
    )
}

pub(super) fn record() -> impl Strategy<Value = Record> {
    let states = vec![
        State::Processing,
        State::Pending,
        State::Completed,
        State::FailedRetryable,
        State::FailedFinal,
    ];
    let numbers = (1_u64..9, prop_oneof![1_u32..4, Just(u32::MAX)]);
    let previous = (1_u32..5, prop::option::of(report())).prop_map(|(number, report)| Ended {
        number,
        fence: 1,
        report,
        pending_digests: Vec::new(),
    });
    let rest = (
        prop::option::of(pending()),
        prop::option::of(outcome()),
        prop::option::of(resolution()),
        prop::option::of(previous),
        prop::option::of(claim()),
    );
    let flags = any::<(bool, bool, bool)>();
    (
        prop::sample::select(states),
        numbers,
        flags,
        attempt(),
        rest,
    )
        .prop_map(
            |(state, numbers, flags, attempt, (pending, outcome, resolution, previous, claim))| {
                Record {
                    name: name(),
                    revision: numbers.0,
                    created_at: T0,
                    updated_at: T0,
                    fingerprint: payload(1),
                    state,
                    generation: numbers.1,
                    key_spent: flags.0,
                    unaccounted: flags.1,
                    contradicted: flags.2,
                    attempt,
                    previous,
                    correlation_id: String::new(),
                    provider_reference: String::new(),
                    resource_id: String::new(),
                    instruction: bytes::Bytes::new(),
                    pending,
                    outcome,
                    resolution,
                    claim,
                }
            },
        )
}
