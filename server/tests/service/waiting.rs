//! Callers that wait.

use std::time::{Duration, Instant};

use reprise::grpc::WaitLimits;
use reprise_proto::v1::reserve_response::Outcome;
use reprise_proto::v1::*;
use tokio::task::JoinSet;
use tonic::Status;

use super::support::*;

/// Longer than any wake-up, shorter than any wait here.
const SOON: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(25);

/// A Reserve that waits, in a task of its own.
fn wait_for(
    server: &Server,
    waiters: &mut JoinSet<Result<Outcome, Status>>,
    key: &str,
    wait: Duration,
) {
    let mut client = server.reprise();
    let request = waiting(key, wait);
    waiters.spawn(async move {
        let mut request = tonic::Request::new(request);
        request.set_timeout(wait + Duration::from_secs(5));
        let answer = client.reserve(request).await?.into_inner();
        Ok(answer.outcome.unwrap())
    });
}

async fn next(waiters: &mut JoinSet<Result<Outcome, Status>>) -> Outcome {
    let next = tokio::time::timeout(SOON, waiters.join_next()).await;
    next.expect("nobody was answered")
        .unwrap()
        .unwrap()
        .unwrap()
}

/// Nobody is answered who should go on waiting: a later change of another record has
/// gone the same way, and none of them was ready before it.
async fn none_answered(server: &Server, waiters: &mut JoinSet<Result<Outcome, Status>>) {
    let mut probe = JoinSet::new();
    let key = format!("probe-{:x}", rand::random::<u64>());
    let grant = server.acquire(reserve(&key)).await;
    wait_for(server, &mut probe, &key, LONG);
    let report = complete(&key, &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    next(&mut probe).await;
    assert!(waiters.try_join_next().is_none(), "somebody did not wait");
}

#[tokio::test]
async fn all_who_wait_get_the_result_when_it_is_there() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let mut waiters = JoinSet::new();
    for _ in 0..200 {
        wait_for(&server, &mut waiters, "k", LONG);
    }
    none_answered(&server, &mut waiters).await;
    let report = complete("k", &grant.token, body("bytes"));
    server.reprise().complete(report).await.unwrap();
    let began = Instant::now();
    for _ in 0..200 {
        match next(&mut waiters).await {
            Outcome::Completed(completed) => assert_eq!(completed.result, Some(body("bytes"))),
            other => panic!("{other:?}"),
        }
    }
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn changes_by_other_servers_wake_too() {
    let setup = Setup {
        deaf: true,
        ..Setup::default()
    };
    let server = setup.start().await;
    let grant = server.acquire(reserve("k")).await;
    let mut waiters = JoinSet::new();
    for _ in 0..10 {
        wait_for(&server, &mut waiters, "k", LONG);
    }
    let report = complete("k", &grant.token, body("bytes"));
    server.reprise().complete(report).await.unwrap();
    for _ in 0..10 {
        assert!(matches!(next(&mut waiters).await, Outcome::Completed(_)));
    }
}

#[tokio::test]
async fn a_freed_record_goes_to_exactly_one_of_those_who_wait() {
    let server = server().await;
    let mut grant = server.acquire(reserve("k")).await;
    let mut waiters = JoinSet::new();
    for _ in 0..20 {
        wait_for(&server, &mut waiters, "k", LONG);
    }
    for attempt in 2..=5 {
        none_answered(&server, &mut waiters).await;
        let report = fail("k", &grant.token, FailureKind::Retryable);
        server.reprise().fail(report).await.unwrap();
        grant = acquired(next(&mut waiters).await);
        assert_eq!(grant.reason(), GrantReason::AfterRetryableFailure);
        let record = server.look("k").await.record.unwrap();
        assert_eq!(record.attempt, attempt);
    }
    none_answered(&server, &mut waiters).await;
    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    for _ in 0..16 {
        assert!(matches!(next(&mut waiters).await, Outcome::Completed(_)));
    }
}

#[tokio::test]
async fn when_a_lease_ends_one_takes_over_or_all_learn_that_it_is_pending() {
    let server = server().await;
    let mut request = reserve("pending");
    request.lease = millis(300);
    server.acquire(request).await;
    let mut take_over = policy();
    take_over.on_lapse = OnLapse::TakeOverUnlessSent.into();
    server.put_policy(take_over).await;
    let mut request = reserve("free");
    request.lease = millis(300);
    server.acquire(request).await;

    let (mut pending, mut free) = (JoinSet::new(), JoinSet::new());
    for _ in 0..5 {
        wait_for(&server, &mut pending, "pending", LONG);
        wait_for(&server, &mut free, "free", LONG);
    }
    let grant = acquired(next(&mut free).await);
    assert_eq!(grant.reason(), GrantReason::AfterLapsedLease);
    for _ in 0..5 {
        assert!(matches!(next(&mut pending).await, Outcome::Pending(_)));
    }
    none_answered(&server, &mut free).await;
    let report = complete("free", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    for _ in 0..4 {
        assert!(matches!(next(&mut free).await, Outcome::Completed(_)));
    }
}

#[tokio::test]
async fn a_wait_ends_with_the_state_in_time_for_the_deadline() {
    let server = server().await;
    server.acquire(reserve("k")).await;
    let mut request = tonic::Request::new(waiting("k", LONG));
    request.set_timeout(Duration::from_millis(1500));
    let answer = server.reprise().reserve(request).await.unwrap();
    let outcome = answer.into_inner().outcome.unwrap();
    assert!(matches!(outcome, Outcome::Processing(_)), "{outcome:?}");

    let mut lookup = LookupRequest {
        wait: seconds(25),
        ..lookup("k")
    };
    lookup.until = LookupUntil::Final.into();
    let mut request = tonic::Request::new(lookup);
    request.set_timeout(Duration::from_millis(1500));
    let answer = server.reprise().lookup(request).await.unwrap();
    let record = answer.into_inner().record.unwrap();
    assert_eq!(record.state(), State::Processing);
}

#[tokio::test]
async fn a_wait_is_bounded_by_the_policy() {
    let server = server().await;
    let mut short = policy();
    short.wait_max = millis(50);
    server.put_policy(short).await;
    server.acquire(reserve("k")).await;
    let mut waiters = JoinSet::new();
    wait_for(&server, &mut waiters, "k", LONG);
    assert!(matches!(next(&mut waiters).await, Outcome::Processing(_)));
}

#[tokio::test]
async fn over_the_caps_callers_are_answered_at_once() {
    let setup = Setup::with(|config| {
        config.waiters = WaitLimits {
            per_record_max: 2,
            per_tenant_max: 3,
        };
    });
    let server = setup.start().await;
    let grant = server.acquire(reserve("one")).await;
    server.acquire(reserve("two")).await;
    let (mut one, mut two) = (JoinSet::new(), JoinSet::new());
    for _ in 0..3 {
        wait_for(&server, &mut one, "one", LONG);
    }
    assert!(matches!(next(&mut one).await, Outcome::Processing(_)));
    for _ in 0..2 {
        wait_for(&server, &mut two, "two", LONG);
    }
    assert!(matches!(next(&mut two).await, Outcome::Processing(_)));
    let report = complete("one", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(next(&mut one).await, Outcome::Completed(_)));
    }
}

#[tokio::test]
async fn a_lookup_waits_until_the_record_is_as_asked() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let look = |until: LookupUntil| {
        let mut client = server.reprise();
        let request = LookupRequest {
            wait: seconds(25),
            until: until.into(),
            ..lookup("k")
        };
        tokio::spawn(async move {
            let mut request = tonic::Request::new(request);
            request.set_timeout(LONG + Duration::from_secs(5));
            let answer = client.lookup(request).await.unwrap();
            answer.into_inner().record.unwrap().state()
        })
    };
    let left: Vec<_> = (0..20).map(|_| look(LookupUntil::LeftProcessing)).collect();
    let finals: Vec<_> = (0..20).map(|_| look(LookupUntil::Final)).collect();
    let report = MarkPendingRequest {
        record: name("k"),
        token: grant.token.clone(),
        ..MarkPendingRequest::default()
    };
    server.reprise().mark_pending(report).await.unwrap();
    for waiter in left {
        let state = tokio::time::timeout(SOON, waiter).await.unwrap().unwrap();
        assert_eq!(state, State::Pending);
    }
    assert!(finals.iter().all(|waiter| !waiter.is_finished()));
    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    for waiter in finals {
        let state = tokio::time::timeout(SOON, waiter).await.unwrap().unwrap();
        assert_eq!(state, State::Completed);
    }
}

#[tokio::test]
async fn who_waits_slows_nobody_else() {
    let server = server().await;
    let grant = server.acquire(reserve("k")).await;
    let mut waiters = JoinSet::new();
    for _ in 0..200 {
        wait_for(&server, &mut waiters, "k", LONG);
    }
    // News for those who wait, between calls of others.
    let renew = RenewRequest {
        record: name("k"),
        holder: Some(renew_request::Holder::Token(grant.token.clone())),
        lease: None,
    };
    for at in 0..100 {
        server.reprise().renew(renew.clone()).await.unwrap();
        let other = format!("other-{at}");
        let grant = server.acquire(reserve(&other)).await;
        let report = complete(&other, &grant.token, code("200"));
        server.reprise().complete(report).await.unwrap();
    }
    assert!(waiters.try_join_next().is_none());
    let report = complete("k", &grant.token, code("200"));
    server.reprise().complete(report).await.unwrap();
    for _ in 0..200 {
        assert!(matches!(next(&mut waiters).await, Outcome::Completed(_)));
    }
}
