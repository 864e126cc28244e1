//! One record: asks the user's function, and says what it found. Decides nothing about
//! which record is next.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use reprise_proto::v1::{
    self, Content, ResolveRequest, ResolvedFailed, resolve_request::Authority,
    resolve_request::Outcome,
};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::case::{Case, Claimed};
use super::claim::Claim;
use super::event::{Event, Why};
use super::finding::{Finding, Resolution, TakeOver};
use super::pace::BackOff;
use crate::Client;
use crate::error::{BoxError, Error, Reason};
use crate::holding::Holding;
use crate::outcome::{Acquired, Resolved, omit_over};
use crate::report::{ROUND_PAUSE, worth_another_round};
use crate::reserve::{AttemptId, wire_duration};
use crate::run::Granted;

const EVIDENCE_BYTES_MAX: usize = 16 * 1024;
const CHECK_AFTER_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// No policy keeps a larger body.
const RESULT_BYTES_MAX: u64 = 4 * 1024 * 1024 - 64 * 1024;

/// What all inquiries of a worker share.
pub(super) struct Desk {
    pub(super) client: Client,
    pub(super) actor: String,
    pub(super) back_off: BackOff,
    pub(super) slots: Semaphore,
    pub(super) stopping: CancellationToken,
    pub(super) events: Box<dyn Fn(&Event<'_>) + Send + Sync>,
}

/// Works on one record as soon as a slot is free. A worker that stops before gives the
/// claim back.
pub(super) async fn work<F, Fut, E>(desk: Arc<Desk>, find_out: Arc<F>, claimed: Claimed)
where
    F: Fn(Case) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Resolution, E>> + Send + 'static,
    E: Into<BoxError>,
{
    let Claimed { case, claim } = claimed;
    let slot = tokio::select! {
        biased;
        () = desk.stopping.cancelled() => None,
        over = claim.over() => {
            let record = &case.record;
            desk.tell(Event::ClaimOver { record, over });
            return claim.closed().await;
        }
        slot = desk.slots.acquire() => slot.ok(),
    };
    let Some(_slot) = slot else {
        let record = &case.record;
        return desk.tell(Event::Released { record });
    };
    let asked = case.clone();
    let task = async move { find_out(asked).await.map_err(Into::into) };
    let mut asking = AbortOnDropHandle::new(tokio::spawn(task));
    let (answer, over) = tokio::select! {
        biased;
        answer = &mut asking => (answer, None),
        over = claim.over() => {
            let record = &case.record;
            desk.tell(Event::ClaimOver { record, over });
            (asking.await, Some(over))
        }
    };
    let answer = answer.unwrap_or_else(|ended| Err(panicked(ended)));
    // A claim that is over has one right left: to tell of an effect.
    let told = |it: &Resolution| matches!(it.finding, Finding::Applied(_));
    if over.is_some() && !answer.as_ref().is_ok_and(told) {
        return claim.closed().await;
    }
    let desk = Arc::clone(&desk);
    let inquiry = Inquiry { desk, case, claim };
    match answer {
        Ok(resolution) => inquiry.conclude(resolution).await,
        Err(error) => {
            let words = error.to_string();
            let evidence = format!("finding out ended in an error: {words}");
            inquiry.later(Why::Failed(&words), &evidence).await;
        }
    }
}

struct Inquiry {
    desk: Arc<Desk>,
    case: Case,
    claim: Claim,
}

impl Inquiry {
    async fn conclude(self, resolution: Resolution) {
        let Resolution { finding, evidence } = resolution;
        let (outcome, effect_key_spent) = match finding {
            Finding::Applied(result) => {
                let result = Some(bounded(result));
                let applied = Outcome::Applied(v1::Applied { result });
                return self.resolve(applied, false, &evidence).await;
            }
            Finding::StillUnknown {
                check_after,
                provider_reference,
            } => {
                let check_after = check_after.unwrap_or_else(|| self.pause());
                let why = Why::Said;
                return self
                    .wait(why, check_after, provider_reference, &evidence)
                    .await;
            }
            Finding::NotApplied => (Outcome::NotApplied(v1::NotApplied {}), false),
            Finding::NotAppliedKeySpent => (Outcome::NotApplied(v1::NotApplied {}), true),
            Finding::Failed {
                error,
                effect_key_spent,
            } => {
                let error = Some(bounded(error));
                (Outcome::Failed(ResolvedFailed { error }), effect_key_spent)
            }
            Finding::TakeOver(it) if self.may_try(it.effect_key_spent) => {
                return self.take_over(it, &evidence).await;
            }
            Finding::TakeOver(_) => return self.may_not_deny(&evidence).await,
        };
        match self.may_try(effect_key_spent) {
            true => self.resolve(outcome, effect_key_spent, &evidence).await,
            false => self.may_not_deny(&evidence).await,
        }
    }

    /// With a spent effect key it is never too late to tell; whether it is too early the
    /// server knows.
    fn may_try(&self, effect_key_spent: bool) -> bool {
        self.case.may_deny || effect_key_spent
    }

    async fn resolve(self, outcome: Outcome, effect_key_spent: bool, evidence: &str) {
        let request = self.request(outcome, effect_key_spent, evidence);
        match self.send(request).await {
            Ok(resolved) => self.resolved(&resolved).await,
            Err(error) => self.refused(error, evidence).await,
        }
    }

    async fn take_over(self, it: TakeOver, evidence: &str) {
        let outcome = Outcome::TakeOver(v1::TakeOver {
            attempt_id: AttemptId::random().to_bytes(),
            lease: it.lease.map(wire_duration),
        });
        // What was granted without the answer ever having arrived lapses, and is pending.
        let request = self.request(outcome, it.effect_key_spent, evidence);
        let mut resolved = match self.send(request).await {
            Ok(resolved) => resolved,
            Err(error) => return self.refused(error, evidence).await,
        };
        if let Some(held) = &resolved.held {
            let wish = held.retry_after.and_then(|it| it.try_into().ok());
            let pause = self.pause().max(wish.unwrap_or_default());
            let evidence = format!("held by an operator, to be taken over later: {evidence}");
            return self.wait(Why::Held, pause, String::new(), &evidence).await;
        }
        let Some(acquired) = resolved.acquired.take() else {
            return self.resolved(&resolved).await;
        };
        let holding = Holding::taken_over(&self.desk.client, &self.case.record, &acquired);
        self.carry_out(it, resolved, acquired, holding).await;
    }

    async fn carry_out(
        self,
        it: TakeOver,
        resolved: Resolved,
        acquired: Acquired,
        holding: Holding,
    ) {
        let Inquiry { desk, case, claim } = self;
        let record = &case.record;
        desk.tell(Event::Resolved {
            record,
            resolved: &resolved,
        });
        let granted = Granted {
            holding,
            acquired,
            name: record.clone(),
            record: resolved.record,
            lease: it.lease,
            waited: false,
            instruction: case.instruction.clone(),
        };
        let client = desk.client.clone();
        let run = async move { client.carry_out(granted, it.sending, it.begin).await };
        let running = AbortOnDropHandle::new(tokio::spawn(run));
        claim.closed().await;
        let ran = running.await;
        let ran = ran.unwrap_or_else(|ended| Err(Error::Effect(panicked(ended))));
        desk.tell(Event::CarriedOut { record, ran: &ran });
    }

    async fn resolved(self, resolved: &Resolved) {
        let record = &self.case.record;
        self.desk.tell(Event::Resolved { record, resolved });
        self.claim.closed().await;
    }

    async fn refused(self, error: Error, evidence: &str) {
        match error.reason() {
            Some(Reason::Settling | Reason::TooLateToTell) => self.may_not_deny(evidence).await,
            Some(Reason::InvalidField | Reason::TooLarge) => {
                let evidence = format!("a finding was refused ({error}): {evidence}");
                self.later(Why::Refused(&error), &evidence).await;
            }
            _ => self.unresolved(&error).await,
        }
    }

    async fn unresolved(self, error: &Error) {
        let record = &self.case.record;
        self.desk.tell(match error.claim_over() {
            Some(over) => Event::ClaimOver { record, over },
            None => Event::NotResolved { record, error },
        });
        self.claim.closed().await;
    }

    async fn may_not_deny(self, evidence: &str) {
        let evidence = format!("too early or too late to say that it was not applied: {evidence}");
        self.later(Why::MayNotDeny, &evidence).await;
    }

    async fn later(self, why: Why<'_>, evidence: &str) {
        let pause = self.pause();
        self.wait(why, pause, String::new(), evidence).await;
    }

    async fn wait(
        self,
        why: Why<'_>,
        check_after: Duration,
        provider_reference: String,
        evidence: &str,
    ) {
        let check_after = check_after.min(CHECK_AFTER_MAX);
        let request = |provider_reference| {
            let outcome = Outcome::StillUnknown(v1::StillUnknown {
                check_after: Some(wire_duration(check_after)),
                provider_reference,
            });
            self.request(outcome, false, evidence)
        };
        let referred = !provider_reference.is_empty();
        let mut answer = self.send(request(provider_reference)).await;
        let at_fault = |error: &Error| error.reason() == Some(Reason::InvalidField);
        if referred && answer.as_ref().is_err_and(at_fault) {
            tracing::warn!("a provider reference was refused; the record is kept without it");
            answer = self.send(request(String::new())).await;
        }
        match answer {
            Ok(_) => {
                let record = &self.case.record;
                self.desk.tell(Event::StillUnknown {
                    record,
                    why,
                    check_after,
                });
                self.claim.closed().await;
            }
            Err(error) => self.unresolved(&error).await,
        }
    }

    fn pause(&self) -> Duration {
        self.desk.back_off.after(self.case.age())
    }

    fn request(&self, outcome: Outcome, effect_key_spent: bool, evidence: &str) -> ResolveRequest {
        // What was found out is not refused for a formality of its words.
        let mut evidence = match evidence.is_empty() {
            true => "none given".to_owned(),
            false => evidence.replace('\0', "\u{fffd}"),
        };
        evidence.truncate(evidence.floor_char_boundary(EVIDENCE_BYTES_MAX));
        ResolveRequest {
            record: Some(self.case.record.clone()),
            authority: Some(Authority::Claim(self.claim.token())),
            outcome: Some(outcome),
            effect_key_spent,
            evidence,
            actor: self.desk.actor.clone(),
        }
    }

    /// Sends the same resolution until it is answered: what was found out is not asked for
    /// again because a connection broke.
    async fn send(&self, request: ResolveRequest) -> Result<Resolved, Error> {
        let client = &self.desk.client;
        let end = Instant::now() + client.background_limit();
        loop {
            let answer = client.resolve(request.clone()).await;
            let again = answer.as_ref().is_err_and(worth_another_round);
            if !again || Instant::now() + ROUND_PAUSE >= end {
                return answer;
            }
            sleep(ROUND_PAUSE).await;
        }
    }
}

impl Desk {
    pub(super) fn tell(&self, event: Event<'_>) {
        event.log();
        (self.events)(&event);
    }
}

fn bounded(content: Content) -> Content {
    omit_over(content, RESULT_BYTES_MAX)
}

/// The words of a panic, as an error.
fn panicked(ended: JoinError) -> BoxError {
    let Ok(panic) = ended.try_into_panic() else {
        return "cancelled".into();
    };
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", words.unwrap_or("without words")).into()
}
