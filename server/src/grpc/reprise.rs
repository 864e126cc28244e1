//! RepriseService: the calls around a side effect.

use std::sync::Arc;

use reprise_proto::v1::reprise_service_server::RepriseService;
use reprise_proto::v1::{
    CompleteRequest, CompleteResponse, FailRequest, FailResponse, LookupRequest, LookupResponse,
    MarkPendingRequest, MarkPendingResponse, MarkSendingRequest, MarkSendingResponse, RenewRequest,
    RenewResponse, ReserveRequest, ReserveResponse,
};
use tonic::{Request, Response, Status};

use super::calls::{Calls, deadline};
use super::convert;
use super::handover;
use super::status::Error;

/// The service. What converts a message has a box of its own, which is gone when the call
/// waits for the store.
pub(crate) struct Reprise(pub(crate) Arc<Calls>);

impl Reprise {
    async fn reserve(
        &self,
        call: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let limit = policy.result_bytes_max;
        let converted = convert::reserve(name.clone(), policy, message);
        let (request, wait) = Box::pin(converted).await?;
        let mut delivery = self.0.reserve(request, wait, deadline).await?;
        let answer = delivery.take()?;
        let message = convert::reserve_response(answer, &name, limit, self.0.store.token_key())?;
        Ok(handover::with(message, delivery))
    }

    async fn mark_sending(
        &self,
        call: Request<MarkSendingRequest>,
    ) -> Result<MarkSendingResponse, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let request = convert::mark_sending(name, policy, self.0.store.token_key(), message)?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::mark_sending_response(delivery.accept()?)
    }

    async fn complete(&self, call: Request<CompleteRequest>) -> Result<CompleteResponse, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let key = self.0.store.token_key();
        let converted = convert::complete(name, policy, key, message);
        let (request, adjusted) = Box::pin(converted).await?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::complete_response(delivery.accept()?, adjusted)
    }

    async fn fail(&self, call: Request<FailRequest>) -> Result<FailResponse, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let key = self.0.store.token_key();
        let converted = convert::fail(name, policy, key, message);
        let (request, adjusted) = Box::pin(converted).await?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::fail_response(delivery.accept()?, adjusted)
    }

    async fn mark_pending(
        &self,
        call: Request<MarkPendingRequest>,
    ) -> Result<MarkPendingResponse, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let key = self.0.store.token_key();
        let (request, adjusted) = convert::mark_pending(name, policy, key, message)?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::mark_pending_response(delivery.accept()?, adjusted)
    }

    async fn renew(&self, call: Request<RenewRequest>) -> Result<RenewResponse, Error> {
        let deadline = deadline(&call);
        let mut message = call.into_inner();
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let request = convert::renew(name, policy, self.0.store.token_key(), &message)?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::renew_response(delivery.accept()?)
    }

    async fn lookup(&self, call: Request<LookupRequest>) -> Result<LookupResponse, Error> {
        let deadline = deadline(&call);
        let message = call.into_inner();
        let wait = convert::wait(message.wait)?;
        let until = convert::until(message.until)?;
        let target = convert::target(message.target)?;
        let view = self.0.lookup(target, wait, until, deadline).await?;
        convert::lookup_response(view, message.with_result).await
    }
}

#[tonic::async_trait]
impl RepriseService for Reprise {
    async fn reserve(
        &self,
        call: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        Ok(self.reserve(call).await?)
    }

    async fn mark_sending(
        &self,
        call: Request<MarkSendingRequest>,
    ) -> Result<Response<MarkSendingResponse>, Status> {
        Ok(Response::new(self.mark_sending(call).await?))
    }

    async fn complete(
        &self,
        call: Request<CompleteRequest>,
    ) -> Result<Response<CompleteResponse>, Status> {
        Ok(Response::new(self.complete(call).await?))
    }

    async fn fail(&self, call: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        Ok(Response::new(self.fail(call).await?))
    }

    async fn mark_pending(
        &self,
        call: Request<MarkPendingRequest>,
    ) -> Result<Response<MarkPendingResponse>, Status> {
        Ok(Response::new(self.mark_pending(call).await?))
    }

    async fn renew(&self, call: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Ok(Response::new(self.renew(call).await?))
    }

    async fn lookup(
        &self,
        call: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        Ok(Response::new(self.lookup(call).await?))
    }
}
