//! RepriseService: the calls around a side effect.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use reprise_proto::v1::reprise_service_server::SERVICE_NAME;
use reprise_proto::v1::{
    CompleteRequest, CompleteResponse, FailRequest, FailResponse, LookupRequest, LookupResponse,
    MarkPendingRequest, MarkPendingResponse, MarkSendingRequest, MarkSendingResponse, RenewRequest,
    RenewResponse, ReserveRequest,
};

use super::calls::Calls;
use super::convert;
use super::layers::Usual;
use super::status::Error;
use super::unary::{Reply, message};

/// The service. What converts a message has a box of its own, which is gone when the call
/// waits for the store.
#[derive(Clone)]
pub(crate) struct Reprise(pub(crate) Arc<Calls>);

impl Usual for Reprise {
    const NAME: &'static str = SERVICE_NAME;

    async fn answer(&self, method: &str, body: Bytes, deadline: Instant) -> Result<Reply, Error> {
        Ok(match method {
            "Reserve" => self.reserve(message(body)?, deadline).await?,
            "MarkSending" => Reply::new(&self.mark_sending(message(body)?, deadline).await?),
            "Complete" => Reply::new(&self.complete(message(body)?, deadline).await?),
            "Fail" => Reply::new(&self.fail(message(body)?, deadline).await?),
            "MarkPending" => Reply::new(&self.mark_pending(message(body)?, deadline).await?),
            "Renew" => Reply::new(&self.renew(message(body)?, deadline).await?),
            // In a box: it has much more to keep than the others.
            "Lookup" => Reply::new(&Box::pin(self.lookup(message(body)?, deadline)).await?),
            _ => return Err(Error::UnknownMethod),
        })
    }
}

impl Reprise {
    async fn reserve(
        &self,
        mut message: Box<ReserveRequest>,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let limit = policy.result_bytes_max;
        let converted = convert::reserve(name.clone(), policy, *message);
        let (request, wait) = Box::pin(converted).await?;
        let mut delivery = self.0.reserve(Box::new(request), wait, deadline).await?;
        let answer = delivery.take()?;
        let message = convert::reserve_response(answer, &name, limit, self.0.store.token_key())?;
        Ok(Reply::with(&message, delivery))
    }

    async fn mark_sending(
        &self,
        mut message: Box<MarkSendingRequest>,
        deadline: Instant,
    ) -> Result<MarkSendingResponse, Error> {
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let request = convert::mark_sending(name, policy, self.0.store.token_key(), *message)?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::mark_sending_response(delivery.accept()?)
    }

    async fn complete(
        &self,
        mut message: Box<CompleteRequest>,
        deadline: Instant,
    ) -> Result<CompleteResponse, Error> {
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let key = self.0.store.token_key();
        let converted = convert::complete(name, policy, key, *message);
        let (request, adjusted) = Box::pin(converted).await?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::complete_response(delivery.accept()?, adjusted)
    }

    async fn fail(
        &self,
        mut message: Box<FailRequest>,
        deadline: Instant,
    ) -> Result<FailResponse, Error> {
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let key = self.0.store.token_key();
        let converted = convert::fail(name, policy, key, *message);
        let (request, adjusted) = Box::pin(converted).await?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::fail_response(delivery.accept()?, adjusted)
    }

    async fn mark_pending(
        &self,
        mut message: Box<MarkPendingRequest>,
        deadline: Instant,
    ) -> Result<MarkPendingResponse, Error> {
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let key = self.0.store.token_key();
        let (request, adjusted) = convert::mark_pending(name, policy, key, *message)?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::mark_pending_response(delivery.accept()?, adjusted)
    }

    async fn renew(
        &self,
        mut message: Box<RenewRequest>,
        deadline: Instant,
    ) -> Result<RenewResponse, Error> {
        let name = convert::record_name(message.record.take())?;
        let policy = self.0.policy(&name);
        let request = convert::renew(name, policy, self.0.store.token_key(), &message)?;
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::renew_response(delivery.accept()?)
    }

    async fn lookup(
        &self,
        message: Box<LookupRequest>,
        deadline: Instant,
    ) -> Result<LookupResponse, Error> {
        let wait = convert::wait(message.wait)?;
        let until = convert::until(message.until)?;
        let target = convert::target(message.target)?;
        let view = self.0.lookup(target, wait, until, deadline).await?;
        convert::lookup_response(view, message.with_result).await
    }
}
