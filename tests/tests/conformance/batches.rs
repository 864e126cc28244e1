//! Many commands at once: each is answered as if they came one after the other.

use std::collections::HashMap;
use std::future::IntoFuture;

use reprise_domain::Reading;
use reprise_domain::command::{Answer, FailureKind, Outcome};
use reprise_domain::record::AttemptId;
use tokio::task::JoinSet;

use super::case::{Case, error, new_id, other_result, result, secs, unless_sent};

stamp![
    fifty_first_reserves_grant_each_key_once,
    one_attempt_that_asks_many_times_is_granted_once,
    two_grants_of_one_batch_follow_each_other,
    a_freed_key_is_granted_to_one_of_many,
    a_lapsed_key_is_taken_over_by_one_of_many,
    commands_of_one_record_keep_their_order,
    a_whole_life_in_one_batch,
    one_of_many_contrary_reports_is_recorded,
    many_repeats_of_one_report_are_one,
    many_keys_are_written_side_by_side,
    fences_rise_with_every_grant_though_the_clock_stands,
    fences_follow_the_clock,
];

/// Hands in one Reserve for each (key, payload, attempt), all at once.
async fn reserve_all(
    case: &Case,
    calls: Vec<(String, &'static str, AttemptId)>,
) -> Vec<(String, Result<Answer, reprise_domain::Refusal>)> {
    let mut tasks = JoinSet::new();
    for (key, text, id) in calls {
        let case = case.clone();
        tasks.spawn(async move {
            let told = case.reserve(&key).paying(text).by(id).await;
            (key, told.answer)
        });
    }
    tasks.join_all().await
}

async fn fifty_first_reserves_grant_each_key_once(case: &Case) {
    let calls = (0..8).flat_map(|key| {
        (0..50).map(move |call| {
            let text = if call % 2 == 0 { "100 EUR" } else { "200 EUR" };
            (format!("k{key}"), text, new_id())
        })
    });
    let mut granted: HashMap<String, usize> = HashMap::new();
    let (mut busy, mut mismatched) = (0, 0);
    for (key, answer) in reserve_all(case, calls.collect()).await {
        match answer {
            Ok(Answer::Outcome(Outcome::Acquired { again: false }, _)) => {
                *granted.entry(key).or_default() += 1;
            }
            Ok(Answer::Outcome(Outcome::Processing, _)) => busy += 1,
            Ok(Answer::Outcome(Outcome::Mismatch(_), _)) => mismatched += 1,
            other => panic!("{key} was answered {other:?}"),
        }
    }
    assert_eq!(granted.len(), 8);
    assert!(granted.values().all(|grants| *grants == 1), "{granted:?}");
    assert_eq!((busy, mismatched), (8 * 24, 8 * 25));
}

async fn one_attempt_that_asks_many_times_is_granted_once(case: &Case) {
    let id = new_id();
    let calls = vec![("k".to_owned(), "100 EUR", id); 20];
    let mut new = 0;
    for (_, answer) in reserve_all(case, calls).await {
        match answer {
            Ok(Answer::Outcome(Outcome::Acquired { again }, view)) => {
                assert_eq!(view.record.attempt.number, 1);
                new += usize::from(!again);
            }
            other => panic!("answered {other:?}"),
        }
    }
    assert_eq!(new, 1);
    assert_eq!(case.record("k").await.revision, 20);
}

async fn two_grants_of_one_batch_follow_each_other(case: &Case) {
    let grant = case.reserve("k").await.granted();
    // Both in one batch: the failure frees the key for whoever asks behind it.
    let (failed, second) = tokio::join!(
        case.fail(&grant, FailureKind::Retryable, error()),
        case.reserve("k").into_future()
    );
    failed.recorded();
    assert_eq!(second.granted().number(), 2);
}

async fn a_freed_key_is_granted_to_one_of_many(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    assert_eq!(grants_among_thirty(case).await, 1);
    assert_eq!(case.record("k").await.attempt.number, 2);
}

async fn a_lapsed_key_is_taken_over_by_one_of_many(case: &Case) {
    let case = case.under(unless_sent());
    case.reserve("k").await.granted();
    case.advance(secs(30));
    assert_eq!(grants_among_thirty(&case).await, 1);
    assert_eq!(case.record("k").await.attempt.number, 2);
}

async fn grants_among_thirty(case: &Case) -> usize {
    let calls = (0..30).map(|_| ("k".to_owned(), "100 EUR", new_id()));
    let answers = reserve_all(case, calls.collect()).await;
    let granted = |answer: &_| matches!(answer, Ok(Answer::Outcome(Outcome::Acquired { .. }, _)));
    answers.iter().filter(|(_, answer)| granted(answer)).count()
}

async fn commands_of_one_record_keep_their_order(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let (sending, renewed, completed, replayed, late) = tokio::join!(
        case.mark_sending(&grant),
        case.renew(&grant, None),
        case.complete(&grant, result()),
        case.reserve("k").into_future(),
        case.renew(&grant, None)
    );
    let revision = |view: reprise_domain::View| view.record.revision;
    assert_eq!(revision(sending.leased()), 2);
    assert_eq!(revision(renewed.leased()), 3);
    assert_eq!(revision(completed.recorded()), 4);
    assert_eq!(revision(replayed.replayed()), 4);
    assert_eq!(revision(late.closed()), 4);
}

async fn a_whole_life_in_one_batch(case: &Case) {
    let id = new_id();
    let (first, busy, again, mismatch) = tokio::join!(
        case.reserve("k").by(id).into_future(),
        case.reserve("k").into_future(),
        case.reserve("k").by(id).into_future(),
        case.reserve("k").paying("200 EUR").into_future()
    );
    let grant = first.granted();
    busy.processing();
    assert_eq!(again.again().held, grant.held);
    mismatch.mismatch();
    assert_eq!(case.record("k").await.revision, 2);
}

async fn one_of_many_contrary_reports_is_recorded(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let (a, b, c) = tokio::join!(
        case.complete(&grant, result()),
        case.complete(&grant, other_result()),
        case.fail(&grant, FailureKind::Final, error())
    );
    a.recorded();
    b.refused(reprise_domain::Refusal::OutcomeAlreadyRecorded);
    c.refused(reprise_domain::Refusal::OutcomeAlreadyRecorded);
    let outcome = case.record("k").await.outcome.expect("an outcome");
    assert_eq!(outcome.content, result());
    assert_eq!(case.evidence("k").await.len(), 2);
}

async fn many_repeats_of_one_report_are_one(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (case, grant) = (case.clone(), grant.clone());
        tasks.spawn(async move { case.complete(&grant, result()).await.answer });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(case.record("k").await.revision, 2);
}

async fn many_keys_are_written_side_by_side(case: &Case) {
    let mut tasks = JoinSet::new();
    for at in 0..300 {
        let case = case.clone();
        tasks.spawn(async move {
            let key = format!("k{at}");
            case.completed(&key).await;
            case.reading(&key).await
        });
    }
    for reading in tasks.join_all().await {
        assert_eq!(reading, Reading::Completed { gone: false });
    }
}

async fn fences_rise_with_every_grant_though_the_clock_stands(case: &Case) {
    let mut last = 0;
    for _ in 0..5 {
        let grant = case.reserve("k").await.granted();
        assert!(grant.fence() > last);
        last = grant.fence();
        let told = case.fail(&grant, FailureKind::Retryable, error()).await;
        told.recorded();
    }
    assert_eq!(last, case.now().0.unsigned_abs() + 4);
}

async fn fences_follow_the_clock(case: &Case) {
    case.failed("k", FailureKind::Retryable).await;
    case.advance(secs(1));
    let grant = case.reserve("k").await.granted();
    assert_eq!(grant.fence(), case.now().0.unsigned_abs());
}
