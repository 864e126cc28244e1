//! RecordsService: seeing what happened, and forgetting it.

use std::sync::Arc;

use reprise_domain::{Refusal, Request as Asked, View};
use reprise_proto::v1::records_service_server::RecordsService;
use reprise_proto::v1::{
    ForgetRecordRequest, ForgetRecordResponse, GetHistoryRequest, GetHistoryResponse,
    ListAuditRequest, ListAuditResponse, ListRecordsRequest, ListRecordsResponse,
};
use tonic::{Request, Response, Status};

use super::calls::{Calls, deadline, present};
use super::convert::{self, Forgetting};
use super::status::Error;
use crate::telemetry::call;

/// Readings of the store for one page: it ends early where few records are as asked.
const READINGS_MAX: usize = 4;

/// The service.
pub(crate) struct Records(pub(crate) Arc<Calls>);

impl Records {
    async fn list(&self, message: ListRecordsRequest) -> Result<ListRecordsResponse, Error> {
        let mut list = convert::list_records(message)?;
        call::note_scope(&list.query.tenant, &list.query.operation);
        let size = list.query.max;
        let mut records = Vec::new();
        for _ in 0..READINGS_MAX {
            list.query.max = size - records.len();
            let page = self.0.store.records(list.query.clone()).await?;
            let policy = |name: &_| self.0.policy_of(name);
            list.query.after = convert::found_records(&list, page, policy, &mut records);
            if list.query.after.is_none() || records.len() >= size {
                break;
            }
        }
        let next = list.query.after;
        Ok(convert::list_records_response(&list, records, next))
    }

    async fn history(&self, call: Request<GetHistoryRequest>) -> Result<GetHistoryResponse, Error> {
        let deadline = deadline(&call);
        let (tenant, target) = convert::history_target(call.into_inner().target)?;
        let found = self.0.store.find(&tenant, target, deadline).await?;
        let (record, now) = found.ok_or(Refusal::RecordNotFound)?;
        let policy = self.0.policy(&record.name);
        let view = present(View::of(record, &policy, now))?;
        let id = view.record.name.id();
        let traces = self.0.store.traces(id).await?;
        let mismatches = self.0.store.mismatches(id).await?;
        Ok(convert::history(&view, traces, mismatches))
    }

    async fn forget(
        &self,
        call: Request<ForgetRecordRequest>,
    ) -> Result<ForgetRecordResponse, Error> {
        let deadline = deadline(&call);
        let (target, command) = convert::forget(call.into_inner())?;
        let name = match target {
            Forgetting::Named(name) => name,
            Forgetting::ById(tenant, target) => {
                let found = self.0.store.find(&tenant, target, deadline).await?;
                found.ok_or(Refusal::RecordNotFound)?.0.name
            }
        };
        let request = Asked {
            policy: self.0.policy(&name),
            name,
            command,
        };
        let delivery = self.0.carry_out(request, deadline).await?;
        convert::forget_response(delivery.accept()?)
    }

    async fn audit(&self, message: ListAuditRequest) -> Result<ListAuditResponse, Error> {
        let mut list = convert::list_audit(message)?;
        call::note_scope(list.tenant(), list.operation());
        while list.take(self.0.store.audit(list.query()).await?) {}
        Ok(list.response())
    }
}

#[tonic::async_trait]
impl RecordsService for Records {
    async fn list_records(
        &self,
        call: Request<ListRecordsRequest>,
    ) -> Result<Response<ListRecordsResponse>, Status> {
        Ok(Response::new(self.list(call.into_inner()).await?))
    }

    async fn get_history(
        &self,
        call: Request<GetHistoryRequest>,
    ) -> Result<Response<GetHistoryResponse>, Status> {
        Ok(Response::new(self.history(call).await?))
    }

    async fn forget_record(
        &self,
        call: Request<ForgetRecordRequest>,
    ) -> Result<Response<ForgetRecordResponse>, Status> {
        Ok(Response::new(self.forget(call).await?))
    }

    async fn list_audit(
        &self,
        call: Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        Ok(Response::new(self.audit(call.into_inner()).await?))
    }
}
