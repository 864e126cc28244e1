use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use reprise_domain::command::{
    Authority, Complete, Disposition, Finding, Forget, Found, Reserve, Resolve,
};
use reprise_domain::decide::AuditAction;
use reprise_domain::record::{AttemptId, GivenBack, State};
use reprise_domain::token::Held;
use reprise_domain::{Content, Policy, RecordName};
use reprise_fingerprint::{Context as FingerprintContext, MediaType, raw};

use super::batches::{BESIDE_MIN, GATHER_MAX};
use super::*;

const NOW: Timestamp = Timestamp(1_000_000);

fn reserve(tenant: &str, key: &str, id: u8) -> Request {
    let media_type = MediaType::parse("").expect("absent is allowed");
    let context = FingerprintContext::from(Vec::new());
    Request {
        name: RecordName::new(tenant, "charge", "", key).expect("a valid name"),
        policy: Arc::new(Policy::default()),
        command: Command::Reserve(Reserve {
            attempt_id: AttemptId([id; 16]),
            fingerprints: vec![raw(&media_type, &context, b"payload")],
            lease: None,
            owner: String::new(),
            correlation_id: String::new(),
            instruction: bytes::Bytes::new(),
            intent_time: None,
        }),
    }
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// The next batch, which ends at once: its commands, by records.
async fn next(batches: &mut Batches) -> Option<Vec<Job>> {
    let groups = batches.next().await?;
    batches.ended(records(&groups), Vec::new());
    Some(groups.into_iter().flat_map(|(_, jobs)| jobs).collect())
}

fn records(groups: &[Group]) -> Vec<RecordId> {
    groups.iter().map(|(id, _)| *id).collect()
}

/// Hands requests in and keeps their callers waiting.
macro_rules! waiting {
    ($intake:expr, $($request:expr),+ $(,)?) => {
        ($({
            let mut call = Box::pin($intake.execute($request, later()));
            let waker = Waker::noop();
            assert!(call.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            call
        }),+)
    };
}

fn keys(batch: &[Job]) -> Vec<&str> {
    batch.iter().map(|job| job.request.name.key()).collect()
}

#[tokio::test]
async fn a_batch_takes_what_is_there_in_order() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let _calls = waiting!(
        intake,
        reserve("t", "a", 1),
        reserve("t", "b", 1),
        reserve("t", "a", 2)
    );
    let batch = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&batch), ["a", "a", "b"], "by records");
}

/// What a future answers when it is asked once.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn beside_a_batch_few_commands_wait_for_its_end_or_a_little_while() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let _calls = waiting!(intake, reserve("t", "a", 1));
    let first = batches.next().await.expect("an open intake");
    let _more = waiting!(intake, reserve("t", "b", 1));
    assert!(at_once(batches.next()).is_none(), "beside the first");
    batches.ended(records(&first), Vec::new());
    let second = at_once(batches.next()).flatten().expect("the first ended");
    assert_eq!(second[0].1.len(), 1);

    let _more = waiting!(intake, reserve("t", "c", 1));
    let begun = tokio::time::Instant::now();
    // Asking again does not begin the wait again.
    tokio::select! {
        biased;
        _ = batches.next() => panic!("too early"),
        () = tokio::time::sleep(GATHER_MAX / 2) => {}
    }
    let third = batches.next().await.expect("an open intake");
    assert_eq!(third[0].1[0].request.name.key(), "c");
    assert!(begun.elapsed() <= GATHER_MAX + Duration::from_millis(1));
}

#[tokio::test]
async fn many_commands_are_a_batch_beside_another_one() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let _first = waiting!(intake, reserve("t", "first", 1));
    batches.next().await.expect("an open intake");
    let calls: Vec<_> = (0..BESIDE_MIN)
        .map(|at| waiting!(intake, reserve("t", &format!("k{at}"), 1)))
        .collect();
    let beside = at_once(batches.next()).flatten();
    assert_eq!(beside.expect("large enough").len(), calls.len());
}

#[tokio::test(start_paused = true)]
async fn a_record_is_in_one_batch_at_a_time_and_its_commands_keep_their_order() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let _calls = waiting!(intake, reserve("t", "k", 1), reserve("t", "k", 2));
    let mut first = batches.next().await.expect("an open intake");
    let _more = waiting!(
        intake,
        reserve("t", "k", 3),
        reserve("t", "other", 4),
        reserve("t", "k", 5),
    );
    let beside = batches.next().await.expect("after a little while");
    assert_eq!(beside.len(), 1);
    assert_eq!(beside[0].1[0].request.name.key(), "other");

    // The second of its commands waits for the next batch, before those that came later.
    let postponed = first[0].1.split_off(1);
    batches.ended(records(&first), postponed);
    let next = batches.next().await.expect("what waited");
    let attempts = next[0].1.iter().map(|job| match &job.request.command {
        Command::Reserve(reserve) => reserve.attempt_id.0[0],
        other => panic!("not handed in: {other:?}"),
    });
    assert_eq!(attempts.collect::<Vec<_>>(), [2, 3, 5]);
}

#[tokio::test]
async fn what_came_for_a_batch_under_way_is_carried_out_after_the_close() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let _calls = waiting!(intake, reserve("t", "k", 1));
    let first = batches.next().await.expect("an open intake");
    let _more = waiting!(intake, reserve("t", "k", 2));
    intake.close();
    assert!(batches.next().await.is_none(), "until the first ends");
    batches.ended(records(&first), Vec::new());
    assert_eq!(keys(&next(&mut batches).await.expect("the second")), ["k"]);
    assert!(batches.next().await.is_none());
}

#[tokio::test]
async fn a_reserve_whose_caller_hung_up_before_its_batch_leaves_nothing() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let (gone, _stays) = waiting!(intake, reserve("t", "gone", 1), reserve("t", "stays", 1));
    drop(gone);
    let batch = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&batch), ["stays"]);
}

#[tokio::test]
async fn a_report_whose_caller_hung_up_is_carried_out_all_the_same() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let mut report = reserve("t", "k", 1);
    report.command = complete(1, 1);
    let gone = waiting!(intake, report);
    drop(gone);
    let batch = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&batch), ["k"]);
}

fn complete(attempt: u32, fence: u64) -> Command {
    let result = Content::of_code("ok");
    Command::Complete(Complete {
        held: Held {
            attempt,
            fence,
            authentic: true,
        },
        digest: result.digest(),
        core: result.core_digest(),
        result,
    })
}

#[tokio::test]
async fn a_busy_tenant_leaves_room_for_others_and_the_rest_waits_in_order() {
    let limits = Limits {
        batch_max: 3,
        tenant_share_max: 2,
        ..Limits::default()
    };
    let (intake, mut batches) = Intake::new(limits);
    let _calls = waiting!(
        intake,
        reserve("busy", "1", 1),
        reserve("busy", "2", 1),
        reserve("busy", "3", 1),
        reserve("busy", "4", 1),
        reserve("quiet", "q", 1),
    );
    let first = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&first), ["1", "2", "q"]);
    let second = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&second), ["3", "4"]);
}

#[tokio::test]
async fn many_callers_of_a_key_leave_room_for_others_and_its_report_passes_them_by() {
    let limits = Limits {
        record_share_max: 2,
        ..Limits::default()
    };
    let (intake, mut batches) = Intake::new(limits);
    let report = Request {
        command: complete(1, 1),
        ..reserve("t", "hot", 0)
    };
    let _calls = waiting!(
        intake,
        reserve("t", "hot", 1),
        reserve("t", "hot", 2),
        reserve("t", "hot", 3),
        reserve("t", "hot", 4),
        reserve("t", "hot", 5),
        reserve("t", "other", 1),
        report,
    );
    let first = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&first), ["hot", "hot", "hot", "other"]);
    assert!(matches!(first[2].request.command, Command::Complete(_)));
    let second = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&second), ["hot", "hot"]);
    let third = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&third), ["hot"]);
}

#[tokio::test]
async fn a_batch_is_bounded_by_bytes() {
    let limits = Limits {
        batch_bytes_max: 100,
        ..Limits::default()
    };
    let (intake, mut batches) = Intake::new(limits);
    let large = |key: &str| {
        let mut request = reserve("t", key, 1);
        if let Command::Reserve(reserve) = &mut request.command {
            reserve.instruction = vec![0; 80].into();
        }
        request
    };
    let _calls = waiting!(intake, large("1"), large("2"), large("3"));
    let first = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&first), ["1", "2"]);
}

#[tokio::test]
async fn a_closed_intake_refuses_callers_finishes_what_it_has_and_ends() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let _call = waiting!(intake, reserve("t", "k", 1));
    intake.close();
    let refused = intake.execute(reserve("t", "late", 1), later()).await;
    assert!(matches!(refused, Err(Error::Closed)));
    let batch = next(&mut batches).await.expect("what was queued");
    assert_eq!(keys(&batch), ["k"]);
    assert!(next(&mut batches).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn past_the_deadline_the_outcome_is_unknown() {
    let (intake, _batches) = Intake::new(Limits::default());
    let soon = tokio::time::Instant::now().into_std() + Duration::from_millis(5);
    let late = intake.execute(reserve("t", "k", 1), soon).await;
    assert!(matches!(late, Err(Error::Unavailable(_))));
}

/// Settles one waiting Reserve with the grant that `fold` decides.
fn settle_one(intake: &Intake, batch: Vec<Job>) -> Record {
    let folded = fold(None, batch, NOW);
    let record = *folded.change.expect("a grant is written");
    for (job, answer) in folded.answers {
        job.settle(Ok(answer), intake);
    }
    record
}

#[tokio::test]
async fn a_grant_whose_answer_nobody_takes_is_given_back() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let call = waiting!(intake, reserve("t", "k", 1));
    let batch = next(&mut batches).await.expect("an open intake");
    let granted = settle_one(&intake, batch);
    drop(call);

    let back = next(&mut batches).await.expect("the give-back");
    let folded = fold(Some(&granted), back, NOW);
    let record = folded.change.expect("given back");
    assert_eq!(record.state, State::FailedRetryable);
    assert_eq!(record.attempt.given_back, Some(GivenBack::Server));
}

#[tokio::test]
async fn a_grant_whose_caller_hung_up_in_the_batch_is_given_back() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let call = waiting!(intake, reserve("t", "k", 1));
    let batch = next(&mut batches).await.expect("an open intake");
    drop(call);
    settle_one(&intake, batch);
    let back = next(&mut batches).await.expect("the give-back");
    assert!(matches!(back[0].request.command, Command::GiveBack(_)));
}

#[tokio::test]
async fn an_accepted_grant_is_not_given_back() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let call = waiting!(intake, reserve("t", "k", 1));
    let batch = next(&mut batches).await.expect("an open intake");
    settle_one(&intake, batch);
    let delivery = call.await.expect("settled");
    assert!(delivery.accept().is_ok());
    intake.close();
    assert!(
        next(&mut batches).await.is_none(),
        "nothing else was handed in"
    );
}

#[tokio::test]
async fn commands_of_one_record_are_decided_in_order_and_written_once() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let mut report = reserve("t", "k", 1);
    report.command = complete(1, 1_000_000);
    let _calls = waiting!(intake, reserve("t", "k", 1), reserve("t", "k", 2), report);
    let batch = next(&mut batches).await.expect("an open intake");
    let folded = fold(None, batch, NOW);

    let answers: Vec<_> = folded.answers.iter().map(|(_, answer)| answer).collect();
    assert!(matches!(
        answers[..],
        [
            Ok(Answer::Outcome(Outcome::Acquired { again: false }, _)),
            Ok(Answer::Outcome(Outcome::Processing, _)),
            Ok(Answer::Reported(Disposition::Recorded, _)),
        ]
    ));
    let record = folded.change.expect("written");
    assert_eq!((record.state, record.revision), (State::Completed, 2));
}

#[tokio::test]
async fn a_second_grant_and_all_behind_it_wait_for_the_next_batch() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let calls = waiting!(intake, reserve("t", "k", 1));
    let batch = next(&mut batches).await.expect("an open intake");
    let granted = settle_one(&intake, batch);
    calls.await.expect("settled").accept().ok();

    let back = |revision| Request {
        command: Command::GiveBack(GiveBack { revision }),
        ..reserve("t", "k", 0)
    };
    let _calls = waiting!(
        intake,
        back(granted.revision),
        reserve("t", "k", 2),
        back(granted.revision + 2),
        reserve("t", "k", 3),
        reserve("t", "k", 4),
    );
    let batch = next(&mut batches).await.expect("an open intake");
    let folded = fold(Some(&granted), batch, NOW);
    assert_eq!(folded.answers.len(), 3);
    assert_eq!(folded.postponed.len(), 2);

    batches.ended([], folded.postponed);
    let next = next(&mut batches).await.expect("what was postponed");
    assert_eq!(next.len(), 2);
}

#[tokio::test]
async fn waiting_for_room_can_be_given_up_without_a_trace() {
    let limits = Limits {
        queued_max: 1,
        ..Limits::default()
    };
    let (intake, mut batches) = Intake::new(limits);
    let _first = waiting!(intake, reserve("t", "first", 1));
    {
        let outside = pin!(intake.execute(reserve("t", "outside", 1), later()));
        let waker = Waker::noop();
        assert!(outside.poll(&mut Context::from_waker(waker)).is_pending());
    }
    intake.close();
    let batch = next(&mut batches).await.expect("an open intake");
    assert_eq!(keys(&batch), ["first"]);
    assert!(next(&mut batches).await.is_none());
}

#[tokio::test]
async fn erasure_takes_the_words_of_side_rows_of_its_batch_and_leaves_the_rows() {
    let (intake, mut batches) = Intake::new(Limits::default());
    let first = decide(None, &reserve("t", "k", 1), NOW);
    let record = *first.change.expect("a grant");
    let asked = |command| Request {
        command,
        ..reserve("t", "k", 1)
    };
    let content = Content::of_code("done");
    let resolve = asked(Command::Resolve(Resolve {
        authority: Authority::Operator { revision: 1 },
        finding: Finding::Applied(Found {
            digest: content.digest(),
            core: content.core_digest(),
            content,
        }),
        effect_key_spent: false,
        evidence: "words".to_owned(),
        actor: "ann".to_owned(),
    }));
    let forget = asked(Command::Forget(Forget {
        revision: 2,
        actor: "ann".to_owned(),
        reason: "asked to".to_owned(),
    }));
    let _callers = waiting!(intake, resolve, forget);
    let jobs = next(&mut batches).await.expect("a batch");
    let folded = fold(Some(&record), jobs, NOW.after(Duration::from_secs(60)));
    assert!(folded.erase);
    let words: Vec<_> = folded
        .traces
        .iter()
        .map(|trace| match trace {
            Trace::Audit {
                action, evidence, ..
            } => (*action, evidence.as_str()),
            other => panic!("expected audit rows alone, found {other:?}"),
        })
        .collect();
    let expected = [
        (AuditAction::ResolvedApplied, ""),
        (AuditAction::Forgotten, "asked to"),
    ];
    assert_eq!(words, expected);
}
