//! ReconciliationService: finding out what happened.

use std::sync::Arc;

use reprise_proto::v1::reconciliation_service_server::ReconciliationService;
use reprise_proto::v1::{
    ClaimPendingRequest, ClaimPendingResponse, CountPendingRequest, CountPendingResponse,
    ListPendingRequest, ListPendingResponse, ResolveRequest, ResolveResponse,
};
use tonic::{Request, Response, Status};

use super::calls::{Calls, deadline};
use super::convert;
use super::handover;
use super::status::Error;

/// The service.
pub(crate) struct Reconciliation(pub(crate) Arc<Calls>);

impl Reconciliation {
    async fn resolve(
        &self,
        call: Request<ResolveRequest>,
    ) -> Result<Response<ResolveResponse>, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let limit = policy.result_bytes_max;
        let (request, adjusted) =
            convert::resolve(name, policy, self.0.store.token_key(), message).await?;
        let delivery = self.0.carry_out(request, deadline).await?;
        // A resolver that took over is granted an attempt, like a Reserve.
        let answer = delivery.answer().clone()?;
        let key = self.0.store.token_key();
        let message = convert::resolve_response(answer, adjusted, limit, key)?;
        Ok(handover::with(message, delivery))
    }
}

#[tonic::async_trait]
impl ReconciliationService for Reconciliation {
    async fn list_pending(
        &self,
        _: Request<ListPendingRequest>,
    ) -> Result<Response<ListPendingResponse>, Status> {
        Err(Status::unimplemented("not built yet"))
    }

    async fn count_pending(
        &self,
        _: Request<CountPendingRequest>,
    ) -> Result<Response<CountPendingResponse>, Status> {
        Err(Status::unimplemented("not built yet"))
    }

    async fn claim_pending(
        &self,
        _: Request<ClaimPendingRequest>,
    ) -> Result<Response<ClaimPendingResponse>, Status> {
        Err(Status::unimplemented("not built yet"))
    }

    async fn resolve(
        &self,
        call: Request<ResolveRequest>,
    ) -> Result<Response<ResolveResponse>, Status> {
        Ok(self.resolve(call).await?)
    }
}
