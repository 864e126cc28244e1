//! Fast path of Reserve: first grants of keys that nobody has. The unique key decides who
//! is first. A key that is there already is left alone and answered from a read: the
//! statement's snapshot may be older than the row that stands in the way.

use reprise_domain::{Record, Timestamp};

use super::column::{Blob, Code, Moment, Rows, Uuid, columns};
use super::row::{blob, text};
use super::usual::{self, unless};

columns! {
    /// What the plan of a first grant sets, moments as microseconds from now. What is not
    /// here is as usual.
    FreshRow, FreshArrays {
        id: Uuid,
        tenant: String,
        operation: String,
        subject: Option<String>,
        key: String,
        revision: i64,
        state: i16,
        fingerprint_scheme: Option<i16>,
        fingerprint_rule: Option<String>,
        fingerprint_digest: Blob,
        attempt_id: Blob,
        fence: Moment,
        lease_us: Option<i64>,
        on_lapse: Option<i16>,
        repeat_in: Option<i64>,
        owner: Option<String>,
        correlation_id: Option<String>,
        instruction: Option<Blob>,
    }
}

/// Inserts the planned records whose keys are free, with the clock of `clock c`, in their
/// order. All are first attempts, whose lease runs from now; a fence is larger than the clock
/// only where that was set back.
pub(super) fn insert(first_param: usize, rows: Rows) -> String {
    format!(
        "insert into reprise.record (
            id, tenant, operation, subject, key, revision, state, fingerprint_scheme,
            fingerprint_rule, fingerprint_digest, attempt_id, fence, granted_at, lease_us,
            on_lapse, repeat_until, owner, correlation_id, instruction)
        select
            p.id, p.tenant, p.operation, p.subject, p.key, p.revision, p.state,
            p.fingerprint_scheme, p.fingerprint_rule, p.fingerprint_digest, p.attempt_id,
            case when p.fence > c.now
                then (extract(epoch from p.fence) * 1000000)::bigint end,
            c.now, p.lease_us, p.on_lapse,
            c.now + p.repeat_in * interval '1 microsecond', p.owner, p.correlation_id,
            p.instruction
        from {plans} cross join clock c
        on conflict (id) do nothing
        returning id",
        plans = rows(first_param, "p", FreshArrays::NAMES),
    )
}

impl From<&Record> for FreshRow {
    fn from(plan: &Record) -> Self {
        let attempt = &plan.attempt;
        let usual_end = usual::lease_end(attempt.granted_at, attempt.lease);
        debug_assert_eq!((attempt.number, attempt.lease_end), (1, usual_end));
        Self {
            id: Uuid::of(&plan.name.id()),
            tenant: plan.name.tenant().to_owned(),
            operation: plan.name.operation().to_owned(),
            subject: text(plan.name.subject()),
            key: plan.name.key().to_owned(),
            revision: plan.revision.cast_signed(),
            state: plan.state.code(),
            fingerprint_scheme: unless(usual::WORD, plan.fingerprint.scheme.code()),
            fingerprint_rule: text(plan.fingerprint.rule.as_str()),
            fingerprint_digest: Blob::copy(&plan.fingerprint.digest),
            attempt_id: Blob::copy(&attempt.id.0),
            fence: Moment(Timestamp(attempt.fence.cast_signed())),
            lease_us: usual::lease_us(attempt.lease),
            on_lapse: unless(usual::WORD, attempt.on_lapse.code()),
            repeat_in: attempt.repeat_until.map(|until| until.0),
            owner: text(&attempt.owner),
            correlation_id: text(&plan.correlation_id),
            instruction: blob(&plan.instruction),
        }
    }
}
