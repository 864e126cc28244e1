//! What goes on behind the calls, and what GetStatus tells of it.

use std::time::Duration;

use reprise_proto::v1::*;
use tonic::Code;

use super::support::*;

/// A server that does the work behind the calls; its time stands still.
async fn tidy_server() -> Server {
    let mut setup = Setup::with(|config| config.upkeep = true);
    setup.still = true;
    setup.start().await
}

async fn status(server: &Server) -> GetStatusResponse {
    let answer = server.status().get_status(GetStatusRequest {}).await;
    answer.unwrap().into_inner()
}

async fn upkeep(server: &Server) -> Upkeep {
    status(server).await.upkeep.unwrap()
}

#[tokio::test]
async fn a_lapse_is_written_down_though_nobody_asks() {
    let server = tidy_server().await;
    server.acquire(reserve("k")).await;
    server.clock.advance(Duration::from_secs(31));
    eventually("the lapse to be written down", async || {
        let record = server.look("k").await.record.unwrap();
        assert_eq!(record.state(), State::Pending, "written down or not");
        record.revision == 2
    })
    .await;
    let request = ListPendingRequest {
        tenant: TENANT.into(),
        include_not_due: true,
        ..ListPendingRequest::default()
    };
    let listed = server.people().list_pending(request).await.unwrap();
    let listed = listed.into_inner().records;
    assert_eq!(listed.len(), 1);
    let pending = listed[0].pending.as_ref().unwrap();
    assert_eq!(pending.reason(), PendingReason::LeaseExpired);
    assert_eq!(pending.since_time.unwrap().seconds, 1_800_000_030);
    assert_eq!(upkeep(&server).await.open_records, 1);

    server.clock.advance(Duration::from_secs(59));
    let claim = ClaimPendingRequest {
        tenant: TENANT.into(),
        claim_id: id(),
        ..ClaimPendingRequest::default()
    };
    let claimed = server.people().claim_pending(claim).await.unwrap();
    assert_eq!(claimed.into_inner().records.len(), 1);
}

#[tokio::test]
async fn bodies_then_records_are_removed_and_what_is_uncertain_stays() {
    let server = tidy_server().await;
    for at in 0..3 {
        let key = format!("done-{at}");
        let grant = server.acquire(reserve(&key)).await;
        let report = complete(&key, &grant.token, body("bytes"));
        server.reprise().complete(report).await.unwrap();
    }
    pending(&server, "unsure").await;
    server.clock.advance(Duration::from_secs(5));
    eventually("the walk to come by", async || {
        upkeep(&server).await.sweep_lag.unwrap().seconds <= 2
    })
    .await;
    server.clock.advance(Duration::from_hours(80));
    eventually("the bodies to be removed", async || {
        upkeep(&server).await.bodies_removed == 3
    })
    .await;
    assert_eq!(server.state("done-0").await, State::Completed);
    assert_eq!(upkeep(&server).await.records_removed, 0);
    server.clock.advance(Duration::from_hours(24 * 40));
    eventually("the records to be removed", async || {
        upkeep(&server).await.records_removed == 3
    })
    .await;
    let gone = server.reprise().lookup(lookup("done-0")).await;
    assert_refused(gone, Code::NotFound, "RECORD_NOT_FOUND");
    assert_eq!(server.state("unsure").await, State::Pending);
}

#[tokio::test]
async fn references_of_closed_records_are_filed_for_search() {
    let server = tidy_server().await;
    let grant = server.acquire(reserve("k")).await;
    let result = Content {
        resource_id: "ch_7".into(),
        provider_reference: "pr_7".into(),
        ..code("200")
    };
    let report = complete("k", &grant.token, result);
    server.reprise().complete(report).await.unwrap();
    server.clock.advance(Duration::from_secs(5));
    let by = |resource_id: &str, provider_reference: &str| ListRecordsRequest {
        tenant: TENANT.into(),
        resource_id: resource_id.into(),
        provider_reference: provider_reference.into(),
        ..ListRecordsRequest::default()
    };
    for request in [by("ch_7", ""), by("", "pr_7"), by("ch_7", "pr_7")] {
        eventually("the record to be found", async || {
            let found = server.records().list_records(request.clone()).await;
            let found = found.unwrap().into_inner().records;
            found.len() == 1 && found[0].name == name("k")
        })
        .await;
    }
    let other = server.records().list_records(by("ch_7", "pr_8")).await;
    assert!(other.unwrap().into_inner().records.is_empty());
}

#[tokio::test]
async fn a_server_that_only_answers_leaves_the_work_to_others() {
    let server = still_server().await;
    server.acquire(reserve("k")).await;
    server.clock.advance(Duration::from_secs(31));
    assert!(upkeep(&server).await.sweep_lag.unwrap().seconds >= 31);
    let tidy = Setup::with(|config| config.upkeep = true);
    let tidy = tidy.start_beside(&server).await;
    eventually("the other server to do it", async || {
        server.look("k").await.record.unwrap().revision == 2
    })
    .await;
    assert!(upkeep(&tidy).await.sweep_lag.unwrap().seconds < 31);
}

#[tokio::test]
async fn status_tells_of_the_server_and_of_what_is_held() {
    let server = still_server().await;
    let told = status(&server).await;
    assert_eq!(told.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(told.store, "embedded");
    assert_eq!(told.store_time.unwrap().seconds, 1_800_000_000);
    assert!(told.uptime.is_some());
    assert!(told.holds.is_empty());
    server.clock.advance(Duration::from_secs(5));
    for (tenant, operation) in [(TENANT, "charge"), ("", ""), (TENANT, "")] {
        let hold = Policy {
            tenant: tenant.into(),
            operation: operation.into(),
            inherits: true,
            mode: Mode::Hold.into(),
            ..Policy::default()
        };
        server.put_policy(hold).await;
    }
    let free = Policy {
        operation: "refund".into(),
        ..policy()
    };
    server.put_policy(free).await;
    let holds = status(&server).await.holds;
    let scopes: Vec<_> = holds
        .iter()
        .map(|hold| (hold.tenant.as_str(), hold.operation.as_str()))
        .collect();
    assert_eq!(scopes, [("", ""), (TENANT, ""), (TENANT, "charge")]);
    assert_eq!(holds[0].since_time.unwrap().seconds, 1_800_000_005);
}

#[tokio::test]
async fn the_drain_does_not_wait_for_the_work_behind_the_calls() {
    let server = tidy_server().await;
    for at in 0..100 {
        server.acquire(reserve(&at.to_string())).await;
    }
    server.clock.advance(Duration::from_secs(31));
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5));
}
