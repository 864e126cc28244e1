//! The rpcs: convert, call, convert back, map the error. Layers know nothing of records,
//! the services nothing of SQL, and no rule of the contract is here.
//!
//! | module | job |
//! | --- | --- |
//! | `reprise`, `reconciliation`, `records`, `policy`, `overview` | one short method for each rpc |
//! | `convert` | messages to commands, answers to messages |
//! | `status` | errors to statuses |
//! | `calls` | hang-ups, deadlines and waiting around the store |
//! | `claiming` | who finds out about which record |
//! | `handover` | a grant counts when its answer is on its way |
//! | `waiting` | who waits for which record, and what wakes them |
//! | `policies` | the policies in force |
//! | `layers` | what happens to every call |
//! | `unary` | messages of usual calls on the wire |

mod calls;
mod claiming;
pub(crate) mod convert;
mod handover;
mod layers;
mod overview;
mod policies;
mod policy;
mod reconciliation;
mod records;
mod reprise;
mod status;
mod unary;
mod waiting;

use std::sync::Arc;
use std::time::Instant;

use reprise_proto::v1::policy_service_server::PolicyServiceServer;
use reprise_proto::v1::reconciliation_service_server::ReconciliationServiceServer;
use reprise_proto::v1::records_service_server::RecordsServiceServer;
use reprise_proto::v1::status_service_server::StatusServiceServer;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

pub(crate) use calls::Calls;
pub(crate) use layers::{Bounds, Gate};
pub(crate) use policies::Policies;
pub(crate) use status::Causes;
pub use waiting::{Rooms, WaitLimits};

use crate::tasks::Figures;
use layers::Usual as _;
use unary::MESSAGE_BYTES_MAX;

/// All services with what happens around them.
pub(crate) type Front = layers::Front<reprise::Reprise>;

/// All services, and the switch of their health.
pub(crate) async fn front(
    calls: &Arc<Calls>,
    gate: &Arc<Gate>,
    figures: &Arc<Figures>,
) -> anyhow::Result<(Front, Health)> {
    let reconciliation =
        ReconciliationServiceServer::new(reconciliation::Reconciliation(Arc::clone(calls)));
    let policy = PolicyServiceServer::new(policy::Policy(Arc::clone(calls)));
    let records = RecordsServiceServer::new(records::Records(Arc::clone(calls)));
    let status = StatusServiceServer::new(overview::Overview {
        calls: Arc::clone(calls),
        figures: Arc::clone(figures),
        began: Instant::now(),
    });
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let mut health = Health(reporter);
    health.set(ServingStatus::Serving).await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(reprise_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let others = Routes::new(reconciliation.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(policy.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(records.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(status.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let reprise = reprise::Reprise(Arc::clone(calls));
    let front = Front::new(reprise, others.into_axum_router(), gate);
    Ok((front, health))
}

/// What the health service says.
pub(crate) struct Health(HealthReporter);

impl Health {
    const NAMES: [&str; 6] = [
        "",
        reprise::Reprise::NAME,
        <ReconciliationServiceServer<reconciliation::Reconciliation> as NamedService>::NAME,
        <PolicyServiceServer<policy::Policy> as NamedService>::NAME,
        <RecordsServiceServer<records::Records> as NamedService>::NAME,
        <StatusServiceServer<overview::Overview> as NamedService>::NAME,
    ];

    async fn set(&mut self, status: ServingStatus) {
        for name in Self::NAMES {
            self.0.set_service_status(name, status).await;
        }
    }

    /// Tells everybody to go elsewhere.
    pub(crate) async fn not_serving(&mut self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// Ends the streams of those who watch, which else never end.
    pub(crate) async fn end(&mut self) {
        for name in Self::NAMES {
            self.0.clear_service_status(name).await;
        }
    }
}
