//! How the service and its store are, as a message.

use std::time::Duration;

use reprise_domain::policy::Mode;
use reprise_proto::v1 as proto;

use super::fields::{span, timestamp};
use crate::store::{Overview, StoredPolicy};

/// What the answering server removed since its start.
pub(crate) struct RemovedHere {
    /// Records that lost headers and body.
    pub(crate) bodies: u64,
    /// Records that were removed whole.
    pub(crate) records: u64,
}

/// GetStatusResponse. `policies` are all stored ones, in order.
pub(crate) fn status(
    store: &Overview,
    policies: &[StoredPolicy],
    removed: &RemovedHere,
    uptime: Duration,
) -> proto::GetStatusResponse {
    let held = policies.iter().filter(|row| row.mode == Mode::Hold);
    let overdue = store.removal_due.map(|due| store.now.since(due));
    proto::GetStatusResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: store.kind.to_owned(),
        store_time: Some(timestamp(store.now)),
        uptime: Some(span(uptime)),
        holds: held
            .map(|row| proto::Hold {
                tenant: row.tenant.clone(),
                operation: row.operation.clone(),
                since_time: Some(timestamp(row.updated_at)),
            })
            .collect(),
        upkeep: Some(proto::Upkeep {
            sweep_lag: Some(span(store.now.since(store.walked_to))),
            open_records: store.open,
            removal_lag: Some(span(overdue.unwrap_or_default())),
            bodies_removed: removed.bodies,
            records_removed: removed.records,
        }),
    }
}
