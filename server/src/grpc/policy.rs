//! PolicyService: settings of operations. It answers from the store, never from the
//! policies at hand.

use std::sync::Arc;

use reprise_proto::v1::policy_service_server::PolicyService;
use reprise_proto::v1::{
    GetPolicyRequest, GetPolicyResponse, ListPoliciesRequest, ListPoliciesResponse,
    PutPolicyRequest, PutPolicyResponse,
};
use tonic::{Request, Response, Status};

use reprise_domain::policy::Mode;

use super::calls::Calls;
use super::convert;
use super::policies::Stored;
use super::status::{Causes, Error};
use crate::store::StoredPolicy;
use crate::telemetry::call;

/// The service.
pub(crate) struct Policy(pub(crate) Arc<Calls>);

impl Policy {
    async fn get(&self, message: GetPolicyRequest) -> Result<GetPolicyResponse, Error> {
        let (tenant, operation) = (&message.tenant, &message.operation);
        convert::policy_name("", tenant, operation)?;
        call::note_scope(tenant, operation);
        let stored = self.0.store.policies().await?;
        let built_in = self.0.policies.built_in();
        let found = Stored::of(&stored).find(built_in, tenant, operation);
        Ok(GetPolicyResponse {
            policy: Some(convert::policy_in_force(tenant, operation, &found)),
            source: convert::source(found.source).into(),
            held: found.policy.mode == Mode::Hold,
        })
    }

    async fn put(&self, message: PutPolicyRequest) -> Result<PutPolicyResponse, Error> {
        let put = convert::put_policy(message, self.0.policies.built_in())?;
        call::note_scope(&put.tenant, &put.operation);
        let calls = Arc::clone(&self.0);
        let work = async move {
            let stored = calls.store.put_policy(put).await?;
            if let Err(error) = calls.policies.refresh().await {
                // It is stored; the next reading brings it into force.
                tracing::warn!(causes = %Causes(&error), "a new policy is in force later");
            }
            Ok::<StoredPolicy, Error>(stored)
        };
        let stored = self.0.policy_changes.spawn(work).await;
        let stored = stored.map_err(Error::internal)??;
        Ok(PutPolicyResponse {
            policy: Some(convert::policy_as_stored(&stored)),
        })
    }

    async fn list(&self, message: ListPoliciesRequest) -> Result<ListPoliciesResponse, Error> {
        let (after, size) = convert::list_start(&message)?;
        call::note_scope(&message.tenant, "");
        let stored = self.0.store.policies().await?;
        let rest = stored.iter().filter(|row| {
            let name = (row.tenant.as_str(), row.operation.as_str());
            (message.tenant.is_empty() || row.tenant == message.tenant)
                && after.is_none_or(|after| name > after)
        });
        Ok(convert::page(rest, size))
    }
}

#[tonic::async_trait]
impl PolicyService for Policy {
    async fn get_policy(
        &self,
        call: Request<GetPolicyRequest>,
    ) -> Result<Response<GetPolicyResponse>, Status> {
        Ok(Response::new(self.get(call.into_inner()).await?))
    }

    async fn put_policy(
        &self,
        call: Request<PutPolicyRequest>,
    ) -> Result<Response<PutPolicyResponse>, Status> {
        Ok(Response::new(self.put(call.into_inner()).await?))
    }

    async fn list_policies(
        &self,
        call: Request<ListPoliciesRequest>,
    ) -> Result<Response<ListPoliciesResponse>, Status> {
        Ok(Response::new(self.list(call.into_inner()).await?))
    }
}
