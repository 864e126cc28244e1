//! The services of the scripted server: each call is played from its queue.

use reprise_client::proto::policy_service_server::PolicyService;
use reprise_client::proto::reconciliation_service_server::ReconciliationService;
use reprise_client::proto::records_service_server::RecordsService;
use reprise_client::proto::reprise_service_server::RepriseService;
use reprise_client::proto::status_service_server::StatusService;
use reprise_client::proto::*;
use tonic::{Request, Response, Status};

use super::{Asked, Script};
use crate::answers::*;

#[tonic::async_trait]
impl RepriseService for Script {
    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        let asked = Asked::Reserve(request.into_inner());
        self.play(
            asked,
            |state| state.reserve.pop_front(),
            || granted(grant()),
        )
        .await
    }

    async fn mark_sending(
        &self,
        request: Request<MarkSendingRequest>,
    ) -> Result<Response<MarkSendingResponse>, Status> {
        let asked = Asked::MarkSending(request.into_inner());
        self.play(asked, |state| state.mark_sending.pop_front(), marked)
            .await
    }

    async fn complete(
        &self,
        request: Request<CompleteRequest>,
    ) -> Result<Response<CompleteResponse>, Status> {
        let asked = Asked::Complete(request.into_inner());
        self.play(asked, |state| state.complete.pop_front(), completed)
            .await
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        let request = request.into_inner();
        let kind = request.kind();
        let usual = || failed(ReportDisposition::Recorded, State::Failed, kind);
        self.play(Asked::Fail(request), |state| state.fail.pop_front(), usual)
            .await
    }

    async fn mark_pending(
        &self,
        request: Request<MarkPendingRequest>,
    ) -> Result<Response<MarkPendingResponse>, Status> {
        let asked = Asked::MarkPending(request.into_inner());
        let usual = || MarkPendingResponse {
            disposition: ReportDisposition::Recorded.into(),
            record: Some(summary(State::Pending)),
            adjusted: Vec::new(),
        };
        self.play(asked, |state| state.mark_pending.pop_front(), usual)
            .await
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let asked = Asked::Renew(request.into_inner());
        self.play(asked, |state| state.renew.pop_front(), || renewed(LEASE))
            .await
    }

    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        let asked = Asked::Lookup(request.into_inner());
        let usual = || {
            found(
                State::Completed,
                lookup_response::Reading::Completed(recorded("on-record")),
            )
        };
        self.play(asked, |state| state.lookup.pop_front(), usual)
            .await
    }
}

#[tonic::async_trait]
impl ReconciliationService for Script {
    async fn resolve(
        &self,
        request: Request<ResolveRequest>,
    ) -> Result<Response<ResolveResponse>, Status> {
        let asked = Asked::Resolve(request.into_inner());
        let usual = || ResolveResponse {
            disposition: ReportDisposition::Recorded.into(),
            record: Some(summary(State::Completed)),
            ..ResolveResponse::default()
        };
        self.play(asked, |state| state.resolve.pop_front(), usual)
            .await
    }

    async fn list_pending(
        &self,
        request: Request<ListPendingRequest>,
    ) -> Result<Response<ListPendingResponse>, Status> {
        let asked = Asked::ListPending(request.into_inner());
        self.play(
            asked,
            |state| state.list_pending.pop_front(),
            ListPendingResponse::default,
        )
        .await
    }

    async fn count_pending(
        &self,
        request: Request<CountPendingRequest>,
    ) -> Result<Response<CountPendingResponse>, Status> {
        let asked = Asked::CountPending(request.into_inner());
        self.play(
            asked,
            |state| state.count_pending.pop_front(),
            CountPendingResponse::default,
        )
        .await
    }

    async fn claim_pending(
        &self,
        request: Request<ClaimPendingRequest>,
    ) -> Result<Response<ClaimPendingResponse>, Status> {
        let asked = Asked::ClaimPending(request.into_inner());
        self.play(
            asked,
            |state| state.claim_pending.pop_front(),
            ClaimPendingResponse::default,
        )
        .await
    }
}

#[tonic::async_trait]
impl RecordsService for Script {
    async fn list_records(
        &self,
        request: Request<ListRecordsRequest>,
    ) -> Result<Response<ListRecordsResponse>, Status> {
        let asked = Asked::ListRecords(request.into_inner());
        self.play(
            asked,
            |state| state.list_records.pop_front(),
            ListRecordsResponse::default,
        )
        .await
    }

    async fn get_history(
        &self,
        request: Request<GetHistoryRequest>,
    ) -> Result<Response<GetHistoryResponse>, Status> {
        let asked = Asked::GetHistory(request.into_inner());
        self.play(
            asked,
            |state| state.get_history.pop_front(),
            GetHistoryResponse::default,
        )
        .await
    }

    async fn forget_record(
        &self,
        request: Request<ForgetRecordRequest>,
    ) -> Result<Response<ForgetRecordResponse>, Status> {
        let asked = Asked::ForgetRecord(request.into_inner());
        self.play(
            asked,
            |state| state.forget_record.pop_front(),
            ForgetRecordResponse::default,
        )
        .await
    }

    async fn list_audit(
        &self,
        request: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        let asked = Asked::ListAudit(request.into_inner());
        self.play(
            asked,
            |state| state.list_audit.pop_front(),
            ListAuditResponse::default,
        )
        .await
    }
}

#[tonic::async_trait]
impl StatusService for Script {
    async fn get_status(
        &self,
        request: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        let asked = Asked::GetStatus(request.into_inner());
        self.play(
            asked,
            |state| state.get_status.pop_front(),
            GetStatusResponse::default,
        )
        .await
    }
}

#[tonic::async_trait]
impl PolicyService for Script {
    async fn get_policy(
        &self,
        request: Request<GetPolicyRequest>,
    ) -> Result<Response<GetPolicyResponse>, Status> {
        let asked = Asked::GetPolicy(request.into_inner());
        self.play(asked, |_| None, GetPolicyResponse::default).await
    }

    async fn put_policy(
        &self,
        request: Request<PutPolicyRequest>,
    ) -> Result<Response<PutPolicyResponse>, Status> {
        let asked = Asked::PutPolicy(request.into_inner());
        self.play(
            asked,
            |state| state.put_policy.pop_front(),
            PutPolicyResponse::default,
        )
        .await
    }

    async fn list_policies(
        &self,
        request: Request<ListPoliciesRequest>,
    ) -> Result<Response<ListPoliciesResponse>, Status> {
        let asked = Asked::ListPolicies(request.into_inner());
        self.play(asked, |_| None, ListPoliciesResponse::default)
            .await
    }
}
