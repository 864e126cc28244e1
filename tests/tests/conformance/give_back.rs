//! Grants that nobody received: given back by the server, by the client, or crossed by
//! the caller asking again.

use std::time::Instant;

use reprise::store::Error;
use reprise_domain::command::{Answer, Command, Complete, FailureKind, Outcome, Refusal};
use reprise_domain::decide::{Ending, NOT_DELIVERED};
use reprise_domain::record::{GivenBack, GrantReason, PendingReason, State};
use reprise_domain::{Reading, RecordName, Trace};

use super::case::{Case, new_id, result, secs, still_unknown, take_over, unless_sent};
use super::told::Grant;

stamp![
    an_undelivered_grant_is_given_back,
    an_undelivered_grant_leaves_number_and_fence_unused,
    an_undelivered_grant_is_ignored_by_the_next_reason,
    an_undelivered_grant_is_never_unaccounted,
    an_undelivered_grant_leaves_a_history_row,
    an_undelivered_attempt_may_ask_again,
    an_undelivered_grant_keeps_the_payload,
    a_grant_that_was_asked_for_again_is_not_given_back,
    an_answer_that_is_no_grant_gives_nothing_back,
    a_reserve_that_was_never_handed_in_leaves_nothing,
    a_reserve_whose_caller_hangs_up_leaves_no_key_stuck,
    a_report_whose_caller_hangs_up_is_carried_out,
    a_reserve_past_its_deadline_leaves_no_key_stuck,
    a_report_past_its_deadline_is_carried_out,
    a_client_gives_back_while_the_lease_runs,
    a_client_gives_back_a_lapsed_grant,
    a_client_gives_back_a_pending_grant,
    a_client_gives_back_twice,
    a_client_may_not_give_back_a_used_token,
    a_client_gives_back_another_attempt,
    a_client_gives_back_after_an_outcome,
    a_client_gives_back_what_is_not_there,
    what_a_client_gave_back_is_over_for_its_attempt,
];

async fn an_undelivered_grant_is_given_back(case: &Case) {
    let id = case.undelivered("k").await;
    // Handed in behind the give-back, and finds it done.
    case.fail_by_attempt_id("k", id).await.repeated();
    let record = case.record("k").await;
    assert_eq!(record.state, State::FailedRetryable);
    assert_eq!(record.attempt.given_back, Some(GivenBack::Server));
    let outcome = record.outcome.expect("why");
    assert_eq!(outcome.content.code, NOT_DELIVERED);
    assert_eq!(case.reserve("k").await.granted().number(), 2);
}

async fn an_undelivered_grant_leaves_number_and_fence_unused(case: &Case) {
    case.undelivered("k").await;
    let second = case.reserve("k").await.granted();
    assert_eq!(second.fence(), case.now().0.unsigned_abs() + 1);
    let previous = second.view.record.previous.expect("the first attempt");
    assert_eq!((previous.number, second.held.attempt), (1, 2));
}

async fn an_undelivered_grant_is_ignored_by_the_next_reason(case: &Case) {
    case.undelivered("first").await;
    let grant = case.reserve("first").await.granted();
    assert_eq!(grant.record().attempt.why, GrantReason::First);
    case.failed("later", FailureKind::Retryable).await;
    case.undelivered("later").await;
    let grant = case.reserve("later").await.granted();
    let why = grant.record().attempt.why;
    assert_eq!(why, GrantReason::AfterRetryableFailure);
}

async fn an_undelivered_grant_is_never_unaccounted(case: &Case) {
    let case = case.under(take_over());
    case.undelivered("k").await;
    let grant = case.reserve("k").await.granted();
    assert!(!grant.record().unaccounted);
}

async fn an_undelivered_grant_leaves_a_history_row(case: &Case) {
    let id = case.undelivered("k").await;
    case.reserve("k").await.granted();
    let traces = case.traces("k").await;
    assert!(
        matches!(
            &traces[..],
            [Trace::History { attempt: 1, attempt_id, ending: Ending::GivenBack, code, .. }]
                if *attempt_id == id && code == NOT_DELIVERED
        ),
        "{traces:?}"
    );
}

async fn an_undelivered_attempt_may_ask_again(case: &Case) {
    let id = case.undelivered("k").await;
    let grant = case.reserve("k").by(id).await.granted();
    assert_eq!((grant.id, grant.number()), (id, 2));
}

async fn an_undelivered_grant_keeps_the_payload(case: &Case) {
    case.undelivered("k").await;
    case.reserve("k").paying("200 EUR").await.mismatch();
}

async fn a_grant_that_was_asked_for_again_is_not_given_back(case: &Case) {
    let call = case.reserve("k");
    let (name, id) = (call.name.clone(), call.reserve.attempt_id);
    let command = Command::Reserve(call.reserve.clone());
    let undelivered = case.hand_in(&name, command).await.expect("an answer");
    let grant = case.reserve("k").by(id).await.again();
    drop(undelivered);
    case.reserve("k").await.processing();
    case.complete(&grant, result()).await.recorded();
}

async fn an_answer_that_is_no_grant_gives_nothing_back(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.undelivered("k").await;
    case.mark_sending(&grant).await.leased();
    // An answer to "again" may have reached the caller the first time.
    let grant = case.reserve("other").await.granted();
    let call = case.reserve("other").by(grant.id);
    let command = Command::Reserve(call.reserve.clone());
    drop(case.hand_in(&call.name, command).await.expect("an answer"));
    case.mark_sending(&grant).await.leased();
}

async fn a_reserve_that_was_never_handed_in_leaves_nothing(case: &Case) {
    let call = case.reserve("k");
    let command = Command::Reserve(call.reserve.clone());
    drop(case.hand_in(&call.name, command));
    assert_eq!(case.find("k").await, None);
}

/// Hands a command in and hangs up at once.
async fn hang_up(case: &Case, name: &RecordName, command: Command) {
    tokio::select! {
        biased;
        _ = case.hand_in(name, command) => {}
        () = std::future::ready(()) => {}
    }
}

async fn a_reserve_whose_caller_hangs_up_leaves_no_key_stuck(case: &Case) {
    for _ in 0..20 {
        let call = case.reserve("k");
        hang_up(case, &call.name, Command::Reserve(call.reserve.clone())).await;
    }
    acquired_in_the_end(case).await;
}

async fn a_report_whose_caller_hangs_up_is_carried_out(case: &Case) {
    let grant = case.reserve("k").await.granted();
    hang_up(case, &grant.name, complete(&grant)).await;
    case.complete(&grant, result()).await.repeated();
}

async fn a_reserve_past_its_deadline_leaves_no_key_stuck(case: &Case) {
    for _ in 0..20 {
        let call = case.reserve("k");
        let request = case.request(&call.name, Command::Reserve(call.reserve.clone()));
        // A fast store may be in time; then the answer reaches nobody.
        match case.store.execute(request, Instant::now()).await {
            Ok(delivery) => drop(delivery),
            Err(late) => assert!(matches!(late, Error::Unavailable(_)), "{late:?}"),
        }
    }
    acquired_in_the_end(case).await;
}

/// A grant that was under way when its caller left is given back as soon as it was
/// answered, and until then the key is held.
async fn acquired_in_the_end(case: &Case) {
    loop {
        let told = case.reserve("k").await;
        if !matches!(told.answer, Ok(Answer::Outcome(Outcome::Processing, _))) {
            told.granted();
            return;
        }
    }
}

async fn a_report_past_its_deadline_is_carried_out(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let request = case.request(&grant.name, complete(&grant));
    match case.store.execute(request, Instant::now()).await {
        Ok(delivery) => drop(case.told(delivery).recorded()),
        Err(late) => assert!(matches!(late, Error::Unavailable(_)), "{late:?}"),
    }
    case.complete(&grant, result()).await.repeated();
}

fn complete(grant: &Grant) -> Command {
    Command::Complete(Complete {
        held: grant.held,
        digest: result().digest(),
        core: result().core_digest(),
        result: result(),
    })
}

async fn a_client_gives_back_while_the_lease_runs(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let told = case.fail_by_attempt_id("k", grant.id).await;
    let record = told.recorded().record;
    assert_eq!(record.state, State::FailedRetryable);
    assert_eq!(record.attempt.given_back, Some(GivenBack::Client));
    assert_eq!(record.outcome.expect("why").content.code, NOT_DELIVERED);
    assert_eq!(case.reserve("k").await.granted().number(), 2);
}

async fn a_client_gives_back_a_lapsed_grant(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(30));
    let told = case.reserve("k").await;
    told.pending(PendingReason::LeaseExpired);
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    case.reserve("k").await.granted();
}

async fn a_client_gives_back_a_pending_grant(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(30));
    case.resolve("k", still_unknown()).await.recorded();
    assert_eq!(case.record("k").await.state, State::Pending);
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    assert_eq!(case.reading("k").await, Reading::FailedRetryable);
}

async fn a_client_gives_back_twice(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    let before = case.record("k").await;
    case.fail_by_attempt_id("k", grant.id).await.repeated();
    assert_eq!(case.record("k").await, before);
}

async fn a_client_may_not_give_back_a_used_token(case: &Case) {
    let case = case.under(unless_sent());
    let grant = case.reserve("k").await.granted();
    case.renew(&grant, None).await.leased();
    let told = case.fail_by_attempt_id("k", grant.id).await;
    told.refused(Refusal::AttemptOver);
    case.advance(secs(30));
    let told = case.fail_by_attempt_id("k", grant.id).await;
    told.refused(Refusal::AttemptOver);
}

async fn a_client_gives_back_another_attempt(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.fail_by_attempt_id("k", new_id()).await.closed();
    assert_eq!(case.record("k").await, *grant.record());
    let (first, second) = case.followed("followed").await;
    case.fail_by_attempt_id("followed", first.id).await.closed();
    assert_eq!(case.record("followed").await, *second.record());
}

async fn a_client_gives_back_after_an_outcome(case: &Case) {
    let completed = case.completed("completed").await;
    let told = case.fail_by_attempt_id("completed", completed.id).await;
    told.closed();
    for (key, kind) in [("r", FailureKind::Retryable), ("f", FailureKind::Final)] {
        let failed = case.failed(key, kind).await;
        let before = case.record(key).await;
        case.fail_by_attempt_id(key, failed.id).await.closed();
        assert_eq!(case.record(key).await, before);
    }
}

async fn a_client_gives_back_what_is_not_there(case: &Case) {
    let told = case.fail_by_attempt_id("k", new_id()).await;
    told.refused(Refusal::RecordNotFound);
    assert_eq!(case.find("k").await, None);
}

async fn what_a_client_gave_back_is_over_for_its_attempt(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.fail_by_attempt_id("k", grant.id).await.recorded();
    let told = case.reserve("k").by(grant.id).await;
    told.refused(Refusal::AttemptOver);
}
