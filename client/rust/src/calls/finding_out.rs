//! The calls of those who find out what happened to pending records.

use reprise_proto::v1::{
    ClaimPendingRequest, ClaimPendingResponse, CountPendingRequest, CountPendingResponse,
    ListPendingRequest, ListPendingResponse, ResolveRequest, resolve_request,
};

use super::{unsent, wire};
use crate::Client;
use crate::error::Error;
use crate::outcome::{Reader, Resolved};
use crate::retry::Answered;

impl Client {
    /// Reads a page of a tenant's pending records, those that are due the longest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_pending(
        &self,
        request: ListPendingRequest,
    ) -> Result<ListPendingResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::list_pending)
            .await?;
        Ok(answer.message)
    }

    /// Counts a tenant's pending records, by operation and reason.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn count_pending(
        &self,
        request: CountPendingRequest,
    ) -> Result<CountPendingResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::count_pending)
            .await?;
        Ok(answer.message)
    }

    /// Takes due records, each under a claim of its own. `claim_id` is made by the caller for
    /// this one call: repeated with it, the call answers those of its claims that still run.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn claim_pending(
        &self,
        request: ClaimPendingRequest,
    ) -> Result<ClaimPendingResponse, Error> {
        Ok(self.claim_pending_timed(request).await?.message)
    }

    /// The same, with the moment from which the leases count.
    pub(crate) async fn claim_pending_timed(
        &self,
        request: ClaimPendingRequest,
    ) -> Result<Answered<ClaimPendingResponse>, Error> {
        self.call(request, self.limits(), &unsent(), wire::claim_pending)
            .await
    }

    /// Records what somebody found out about a record, under a claim or as an operator.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resolve(&self, request: ResolveRequest) -> Result<Resolved, Error> {
        let asked = match &request.outcome {
            Some(resolve_request::Outcome::TakeOver(it)) => {
                it.lease.and_then(|lease| lease.try_into().ok())
            }
            _ => None,
        };
        let answer = self
            .call(request, self.limits(), &unsent(), wire::resolve)
            .await?;
        Reader("Resolve").resolved(asked, answer)
    }
}
