//! Fast path of Reserve: first grants of keys that nobody has. The unique key decides who
//! is first. A key that is there already is left alone and answered from a read: the
//! statement's snapshot may be older than the row that stands in the way.

use reprise_domain::Record;

use super::column::{Blob, Code, columns, unnest};
use super::row::{blob, text};

columns! {
    /// What the plan of a first grant sets, moments as microseconds from now.
    FreshRow, FreshArrays {
        id: Blob,
        tenant: String,
        operation: String,
        subject: Option<String>,
        key: String,
        revision: i64,
        state: i16,
        generation: i32,
        fingerprint_scheme: i16,
        fingerprint_rule: Option<String>,
        fingerprint_digest: Blob,
        attempt: i32,
        attempt_id: Blob,
        fence: i64,
        lease_in: i64,
        lease_us: i64,
        on_lapse: i16,
        repeat_in: Option<i64>,
        why: i16,
        owner: Option<String>,
        correlation_id: Option<String>,
        instruction: Option<Blob>,
    }
}

/// Inserts the planned records whose keys are free, with the clock of `clock c`, in their
/// order; with `look` only those that are not among the `seen`.
pub(super) fn insert(first_param: usize, look: bool) -> String {
    let unseen = match look {
        true => "where p.id not in (select id from seen)",
        false => "",
    };
    format!(
        "insert into reprise.record (
            id, tenant, operation, subject, key, revision, created_at, updated_at, state,
            generation, fingerprint_scheme, fingerprint_rule, fingerprint_digest, attempt,
            attempt_id, fence, granted_at, lease_end, lease_us, on_lapse, repeat_until, why,
            owner, correlation_id, instruction)
        select
            p.id, p.tenant, p.operation, p.subject, p.key, p.revision, c.now, c.now, p.state,
            p.generation, p.fingerprint_scheme, p.fingerprint_rule, p.fingerprint_digest,
            p.attempt, p.attempt_id,
            greatest(p.fence, c.micros),
            c.now, c.now + p.lease_in * interval '1 microsecond', p.lease_us, p.on_lapse,
            c.now + p.repeat_in * interval '1 microsecond', p.why, p.owner,
            p.correlation_id, p.instruction
        from {plans} cross join clock c
        {unseen}
        on conflict (id) do nothing
        returning id",
        plans = unnest(first_param, "p", FreshArrays::NAMES),
    )
}

impl From<&Record> for FreshRow {
    fn from(plan: &Record) -> Self {
        let attempt = &plan.attempt;
        Self {
            id: Blob::copy(&plan.name.id().0),
            tenant: plan.name.tenant().to_owned(),
            operation: plan.name.operation().to_owned(),
            subject: text(plan.name.subject()),
            key: plan.name.key().to_owned(),
            revision: plan.revision.cast_signed(),
            state: plan.state.code(),
            generation: plan.generation.cast_signed(),
            fingerprint_scheme: plan.fingerprint.scheme.code(),
            fingerprint_rule: text(plan.fingerprint.rule.as_str()),
            fingerprint_digest: Blob::copy(&plan.fingerprint.digest),
            attempt: attempt.number.cast_signed(),
            attempt_id: Blob::copy(&attempt.id.0),
            fence: attempt.fence.cast_signed(),
            lease_in: attempt.lease_end.0,
            lease_us: reprise_domain::time::micros(attempt.lease),
            on_lapse: attempt.on_lapse.code(),
            repeat_in: attempt.repeat_until.map(|until| until.0),
            why: attempt.why.code(),
            owner: text(&attempt.owner),
            correlation_id: text(&plan.correlation_id),
            instruction: blob(&plan.instruction),
        }
    }
}
