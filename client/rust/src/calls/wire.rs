//! The rpcs as they are: one function for each, which sends it on a channel.

use reprise_proto::v1::*;
use tonic::transport::Channel;

use self::policy_service_client::PolicyServiceClient;
use self::reconciliation_service_client::ReconciliationServiceClient;
use self::records_service_client::RecordsServiceClient;
use self::reprise_service_client::RepriseServiceClient;
use self::status_service_client::StatusServiceClient;
use crate::retry::MESSAGE_BYTES_MAX;

type Answer<T> = Result<tonic::Response<T>, tonic::Status>;

/// Defines a function that sends one rpc on a channel, with the size limits set.
macro_rules! rpc {
    ($name:ident, $client:ident, $request:ty, $response:ty) => {
        pub(crate) async fn $name(
            channel: Channel,
            request: tonic::Request<$request>,
        ) -> Answer<$response> {
            $client::new(channel)
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX)
                .$name(request)
                .await
        }
    };
}

rpc!(
    reserve,
    RepriseServiceClient,
    ReserveRequest,
    ReserveResponse
);
rpc!(
    mark_sending,
    RepriseServiceClient,
    MarkSendingRequest,
    MarkSendingResponse
);
rpc!(
    complete,
    RepriseServiceClient,
    CompleteRequest,
    CompleteResponse
);
rpc!(fail, RepriseServiceClient, FailRequest, FailResponse);
rpc!(
    mark_pending,
    RepriseServiceClient,
    MarkPendingRequest,
    MarkPendingResponse
);
rpc!(renew, RepriseServiceClient, RenewRequest, RenewResponse);
rpc!(lookup, RepriseServiceClient, LookupRequest, LookupResponse);
rpc!(
    resolve,
    ReconciliationServiceClient,
    ResolveRequest,
    ResolveResponse
);
rpc!(
    get_policy,
    PolicyServiceClient,
    GetPolicyRequest,
    GetPolicyResponse
);
rpc!(
    put_policy,
    PolicyServiceClient,
    PutPolicyRequest,
    PutPolicyResponse
);
rpc!(
    list_policies,
    PolicyServiceClient,
    ListPoliciesRequest,
    ListPoliciesResponse
);
rpc!(
    list_pending,
    ReconciliationServiceClient,
    ListPendingRequest,
    ListPendingResponse
);
rpc!(
    count_pending,
    ReconciliationServiceClient,
    CountPendingRequest,
    CountPendingResponse
);
rpc!(
    claim_pending,
    ReconciliationServiceClient,
    ClaimPendingRequest,
    ClaimPendingResponse
);
rpc!(
    list_records,
    RecordsServiceClient,
    ListRecordsRequest,
    ListRecordsResponse
);
rpc!(
    get_history,
    RecordsServiceClient,
    GetHistoryRequest,
    GetHistoryResponse
);
rpc!(
    forget_record,
    RecordsServiceClient,
    ForgetRecordRequest,
    ForgetRecordResponse
);
rpc!(
    list_audit,
    RecordsServiceClient,
    ListAuditRequest,
    ListAuditResponse
);
rpc!(
    get_status,
    StatusServiceClient,
    GetStatusRequest,
    GetStatusResponse
);
