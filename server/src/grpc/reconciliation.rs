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
use crate::telemetry::call;

/// The service.
pub(crate) struct Reconciliation(pub(crate) Arc<Calls>);

impl Reconciliation {
    async fn list(&self, message: ListPendingRequest) -> Result<ListPendingResponse, Error> {
        let list = convert::list_pending(message)?;
        call::note_scope(&list.query.tenant, &list.query.operation);
        let page = self.0.store.pending(list.query.clone()).await?;
        let policy = |name: &_| self.0.policy_of(name);
        Ok(convert::list_pending_response(&list, page, policy))
    }

    async fn count(&self, message: CountPendingRequest) -> Result<CountPendingResponse, Error> {
        let (tenant, operation) = (&message.tenant, &message.operation);
        convert::tenant_and_operation(tenant, operation)?;
        call::note_scope(tenant, operation);
        let counts = self.0.store.count_pending(tenant, operation).await?;
        Ok(convert::count_pending_response(counts))
    }

    async fn claim(
        &self,
        call: Request<ClaimPendingRequest>,
    ) -> Result<ClaimPendingResponse, Error> {
        let deadline = deadline(&call);
        let asked = convert::claim_pending(call.into_inner())?;
        call::note_scope(&asked.tenant, &asked.operation);
        let claimed = self.0.claim(&asked, deadline).await?;
        let key = self.0.store.token_key();
        let records = claimed.iter();
        let records = records.map(|(view, policy)| convert::claimed_record(view, policy, key));
        Ok(ClaimPendingResponse {
            records: records.collect::<Result<_, _>>()?,
        })
    }

    async fn resolve(
        &self,
        call: Request<ResolveRequest>,
    ) -> Result<Response<ResolveResponse>, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        // A take-over is a grant.
        self.0.policies.fresh().await?;
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
        call: Request<ListPendingRequest>,
    ) -> Result<Response<ListPendingResponse>, Status> {
        Ok(Response::new(self.list(call.into_inner()).await?))
    }

    async fn count_pending(
        &self,
        call: Request<CountPendingRequest>,
    ) -> Result<Response<CountPendingResponse>, Status> {
        Ok(Response::new(self.count(call.into_inner()).await?))
    }

    async fn claim_pending(
        &self,
        call: Request<ClaimPendingRequest>,
    ) -> Result<Response<ClaimPendingResponse>, Status> {
        Ok(Response::new(self.claim(call).await?))
    }

    async fn resolve(
        &self,
        call: Request<ResolveRequest>,
    ) -> Result<Response<ResolveResponse>, Status> {
        Ok(self.resolve(call).await?)
    }
}
