//! StatusService: how the service and its store are.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use reprise_proto::v1::status_service_server::StatusService;
use reprise_proto::v1::{GetStatusRequest, GetStatusResponse};
use tonic::{Request, Response, Status};

use super::calls::Calls;
use super::convert;
use super::status::Error;
use crate::tasks::Figures;

/// The service.
pub(crate) struct Overview {
    pub(crate) calls: Arc<Calls>,
    pub(crate) figures: Arc<Figures>,
    /// When the server began.
    pub(crate) began: Instant,
}

impl Overview {
    async fn get(&self) -> Result<GetStatusResponse, Error> {
        let store = self.calls.store.overview().await?;
        let policies = self.calls.store.policies().await?;
        let removed = convert::RemovedHere {
            bodies: self.figures.bodies_removed.load(Ordering::Relaxed),
            records: self.figures.records_removed.load(Ordering::Relaxed),
        };
        let uptime = self.began.elapsed();
        Ok(convert::status(&store, &policies, &removed, uptime))
    }
}

#[tonic::async_trait]
impl StatusService for Overview {
    async fn get_status(
        &self,
        _: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        Ok(Response::new(self.get().await?))
    }
}
