//! Fast path of reports by the holder: plans that are carried out on rows that are the
//! assumed ones. A row that is another one, or that somebody has locked, is left alone.

use reprise_domain::{Timestamp, assume};

use super::column::{Blob, Code, Moment, Rows, Uuid, columns, under};
use super::content::ContentColumns;
use super::plan::{HeldPlan, offset};
use super::row::{RecordArrays, blob, text};
use super::usual::{self, flag, unless};

columns! {
    /// What a plan assumes and changes, moments as microseconds from now. Null leaves a
    /// column as it is; the outcome's are written together or not at all, as usual where null.
    PlanRow, PlanArrays {
        id: Uuid,
        tenant: String,
        attempt: Option<i32>,
        fence: i64,
        fence_at: Moment,
        lease_must_run: bool,
        state: i16,
        sent: Option<bool>,
        own_lease: bool,
        lease_in: Option<i64>,
        report_kind: Option<i16>,
        report_digest: Option<Blob>,
        key_spent: Option<bool>,
        provider_reference: Option<String>,
        instruction: Option<Blob>,
        recorded: bool,
        resource_id: Option<String>,
        result_in: Option<i64>,
        memory_in: Option<i64>,
        code: Option<String>,
        content_reference: Option<String>,
        headers: Option<Blob>,
        body: Option<Blob>,
        body_size: Option<i64>,
        body_sha256: Option<Blob>,
        checksum: Option<Blob>,
    }
}

/// Columns that an outcome overwrites with the plan's.
const OF_OUTCOME: [&str; 8] = [
    "resource_id",
    "code",
    "content_reference",
    "headers",
    "body",
    "body_size",
    "body_sha256",
    "checksum",
];

/// The plans as rows of `p`.
pub(super) fn plans(first_param: usize, rows: Rows) -> String {
    rows(first_param, "p", PlanArrays::NAMES)
}

/// Carries out the plans `p` on rows that are as assumed, with the clock of `clock c`; where
/// some depend on the lease (`lock`), those only on rows that are locked, `held`.
pub(super) fn update(lock: bool) -> String {
    let locked = match lock {
        true => "and (not p.lease_must_run or p.id in (select id from held))",
        false => "",
    };
    let of_outcome: Vec<String> = OF_OUTCOME
        .iter()
        .map(|name| format!("{name} = case when p.recorded then p.{name} else r.{name} end"))
        .collect();
    format!(
        "update reprise.record r set
            revision = r.revision + 1,
            updated_at = case when not p.recorded
                then nullif(c.now, coalesce(r.recorded_at, r.granted_at)) end,
            state = p.state,
            used = true,
            sent = r.sent or p.sent,
            lease_end = case
                when p.own_lease then nullif(c.now, r.granted_at) + {lease}
                when p.lease_in is null then r.lease_end
                else nullif(c.now + p.lease_in * interval '1 microsecond',
                    r.granted_at + {lease}) end,
            report_kind = p.report_kind,
            report_digest = p.report_digest,
            key_spent = p.key_spent,
            provider_reference = coalesce(p.provider_reference, r.provider_reference),
            instruction = coalesce(p.instruction, r.instruction),
            recorded_at = case when p.recorded then c.now else r.recorded_at end,
            result_until = case when p.recorded
                then c.now + p.result_in * interval '1 microsecond' else r.result_until end,
            memory_until = case when p.recorded
                then c.now + p.memory_in * interval '1 microsecond' else r.memory_until end,
            {of_outcome}
        from p cross join clock c
        where r.id = p.id and r.tenant = p.tenant
            {locked}
            and r.state = 1 and r.attempt is not distinct from p.attempt
            and (r.fence = p.fence or r.fence is null and r.granted_at = p.fence_at)
            and (r.key_spent or r.unaccounted or r.contradicted) is not true
            and r.report_kind is null and r.given_back is null and r.pending_digests is null
            and (not p.lease_must_run or {lease_end} > c.now)
            and coalesce(p.provider_reference = r.provider_reference, true)
            and (p.recorded or coalesce(p.instruction = r.instruction, true))
        returning {returned}",
        of_outcome = of_outcome.join(", "),
        lease = usual::lease_of("r"),
        lease_end = usual::lease_end_of("r"),
        returned = returned(),
    )
}

/// The whole row, except for bytes that the plan has brought.
fn returned() -> String {
    let bytes = |name| format!("case when p.recorded then null else r.{name} end as {name}");
    under("r", RecordArrays::NAMES)
        .replace("r.headers", &bytes("headers"))
        .replace("r.body,", &format!("{},", bytes("body")))
}

impl From<&HeldPlan> for PlanRow {
    fn from(plan: &HeldPlan) -> Self {
        let change = &plan.change;
        let attempt = &change.attempt;
        let own_end = assume::NOW.after(assume::OWN_LEASE);
        let outcome = change.outcome.as_ref();
        let content = outcome.map(|outcome| {
            let report = attempt
                .report
                .filter(|_| outcome.content.resource_id == change.resource_id);
            ContentColumns::of(&outcome.content, report.map(|report| report.digest))
        });
        let mut row = Self {
            id: Uuid::of(&change.name.id()),
            tenant: change.name.tenant().to_owned(),
            attempt: unless(usual::FIRST, attempt.number.cast_signed()),
            fence: attempt.fence.cast_signed(),
            fence_at: Moment(Timestamp(attempt.fence.cast_signed())),
            lease_must_run: plan.lease_must_run,
            state: change.state.code(),
            sent: flag(attempt.sent),
            own_lease: attempt.lease_end == own_end,
            lease_in: offset(attempt.lease_end),
            report_kind: attempt.report.map(|report| report.kind.code()),
            report_digest: attempt.report.map(|report| Blob::copy(&report.digest)),
            key_spent: flag(change.key_spent),
            provider_reference: text(&change.provider_reference),
            instruction: blob(&change.instruction),
            recorded: outcome.is_some(),
            resource_id: text(&change.resource_id),
            result_in: outcome.and_then(|outcome| {
                let usual = usual::result_until(outcome.recorded_at);
                unless(usual, outcome.result_until).map(|until| until.0)
            }),
            memory_in: outcome.and_then(|outcome| {
                let usual = usual::memory_until(outcome.recorded_at);
                unless(usual, outcome.memory_until).map(|until| until.0)
            }),
            code: None,
            content_reference: None,
            headers: None,
            body: None,
            body_size: None,
            body_sha256: None,
            checksum: None,
        };
        if let Some(content) = content {
            row.code = content.code;
            row.content_reference = content.reference;
            row.headers = content.headers;
            row.body = content.body;
            row.body_size = content.body_size;
            row.body_sha256 = content.body_sha256;
            row.checksum = content.checksum;
        }
        row
    }
}
