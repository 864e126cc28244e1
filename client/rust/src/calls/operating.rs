//! The calls of people and tools: policies, records as they are, erasure, the audit, the
//! service itself.

use reprise_proto::v1::{
    ForgetRecordRequest, ForgetRecordResponse, GetHistoryRequest, GetHistoryResponse,
    GetPolicyRequest, GetPolicyResponse, GetStatusRequest, GetStatusResponse, ListAuditRequest,
    ListAuditResponse, ListPoliciesRequest, ListPoliciesResponse, ListRecordsRequest,
    ListRecordsResponse, PutPolicyRequest, PutPolicyResponse,
};

use super::{unsent, wire};
use crate::Client;
use crate::error::Error;
use crate::retry::Limits;

impl Client {
    /// Reads the policy that rules an operation, and where it comes from.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_policy(&self, request: GetPolicyRequest) -> Result<GetPolicyResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::get_policy)
            .await?;
        Ok(answer.message)
    }

    /// Writes a policy whole. Sent once: after [`Error::OutcomeUnknown`] read it again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn put_policy(&self, request: PutPolicyRequest) -> Result<PutPolicyResponse, Error> {
        let answer = self
            .call(
                request,
                Limits::once(self.deadline),
                &unsent(),
                wire::put_policy,
            )
            .await?;
        Ok(answer.message)
    }

    /// Reads a page of a tenant's stored policies.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_policies(
        &self,
        request: ListPoliciesRequest,
    ) -> Result<ListPoliciesResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::list_policies)
            .await?;
        Ok(answer.message)
    }

    /// Finds records of a tenant by what people know of them.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_records(
        &self,
        request: ListRecordsRequest,
    ) -> Result<ListRecordsResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::list_records)
            .await?;
        Ok(answer.message)
    }

    /// Reads all that is known of a record: each attempt, and what was refused.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_history(
        &self,
        request: GetHistoryRequest,
    ) -> Result<GetHistoryResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::get_history)
            .await?;
        Ok(answer.message)
    }

    /// Erases the bytes that callers stored with a record. It names the revision that was
    /// read, so that a repeat erases nothing that came later.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn forget_record(
        &self,
        request: ForgetRecordRequest,
    ) -> Result<ForgetRecordResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::forget_record)
            .await?;
        Ok(answer.message)
    }

    /// Reads a page of what people and rare events did, newest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_audit(&self, request: ListAuditRequest) -> Result<ListAuditResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::list_audit)
            .await?;
        Ok(answer.message)
    }

    /// Reads how the server and its store are.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_status(&self, request: GetStatusRequest) -> Result<GetStatusResponse, Error> {
        let answer = self
            .call(request, self.limits(), &unsent(), wire::get_status)
            .await?;
        Ok(answer.message)
    }
}
