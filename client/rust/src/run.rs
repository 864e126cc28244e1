//! Runs an effect under a key: the order of reserving, marking, running and reporting, and
//! nothing else. What is said when this is cut short is `holding`'s to know.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use reprise_proto::v1::{
    LookupRequest, RecordName, RecordSummary, ReportDisposition, State, lookup_request::Target,
};

use crate::Client;
use crate::effect::{Effect, Verdict};
use crate::ending::{Ran, Warning};
use crate::error::{BoxError, Error};
use crate::holding::Holding;
use crate::lease::Lease;
use crate::outcome::{Acquired, Outcome, Reported};
use crate::report::Delivery;
use crate::reserve::Reserve;

/// What MarkSending stores right before the effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sending {
    /// What the provider will call the effect, if known. At most 255 bytes.
    pub provider_reference: String,
    /// The request that will be sent. At most 16 KiB. What an earlier attempt of this
    /// generation left takes its place.
    pub instruction: Bytes,
    /// The lease from here on; none takes the attempt's own length.
    pub lease: Option<Duration>,
}

impl Client {
    /// Runs `effect` under a key, at most once for the intent, and reports what it came to.
    ///
    /// - Nothing runs unless the key was acquired; every other outcome is answered as it
    ///   is, a recorded one as replayed.
    /// - The effect does not begin with less than a third of its lease left
    ///   ([`Ending::TooLate`](crate::Ending::TooLate)). Its lease is renewed while it runs;
    ///   [`Effect::lease_lost`] says when that fails.
    /// - Its [`Verdict`] is reported. An error, a panic, or dropping this future while it
    ///   runs counts as unknown: the record becomes pending or, where take-over is allowed,
    ///   its lease ends. The key is never silently free.
    /// - A report that does not get through within the client's deadline is repeated in
    ///   the background, for up to [`Builder::background_limit`](crate::Builder::background_limit),
    ///   and the effect's own value is answered with a [`Warning`]. A dropped run reports
    ///   in the same way. [`Client::close`] waits for it.
    ///
    /// # Errors
    /// [`Error::Effect`] when the effect returned an error. Any other error: the effect was
    /// not called.
    pub async fn run<F, E>(
        &self,
        reserve: &Reserve,
        effect: impl FnOnce(Effect) -> F,
    ) -> Result<Ran, Error>
    where
        F: Future<Output = Result<Verdict, E>>,
        E: Into<BoxError>,
    {
        self.run_holding(reserve, None, effect).await
    }

    /// As [`Client::run`], and says MarkSending right before the effect: without its OK the
    /// effect is not called. For policies with `TAKE_OVER_UNLESS_SENT`, and wherever a
    /// lapse should tell whether anything was sent.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub async fn run_marked<F, E>(
        &self,
        reserve: &Reserve,
        sending: Sending,
        effect: impl FnOnce(Effect) -> F,
    ) -> Result<Ran, Error>
    where
        F: Future<Output = Result<Verdict, E>>,
        E: Into<BoxError>,
    {
        self.run_holding(reserve, Some(sending), effect).await
    }

    async fn run_holding<F, E>(
        &self,
        reserve: &Reserve,
        sending: Option<Sending>,
        effect: impl FnOnce(Effect) -> F,
    ) -> Result<Ran, Error>
    where
        F: Future<Output = Result<Verdict, E>>,
        E: Into<BoxError>,
    {
        let reserved = self.reserve(reserve).await?;
        let acquired = match &reserved.outcome {
            Outcome::Acquired(acquired) => acquired.clone(),
            // An earlier try of this very call was granted and lapsed before its answer
            // came. Nothing has begun, so the key is freed.
            Outcome::Pending(pending) if pending.yours && !pending.token.is_empty() => {
                let lapsed = Holding::lapsed(self, &reserve.record, &pending.token);
                return Ok(too_late(lapsed, reserved.record).await);
            }
            _ => return Ok(Ran::found(reserved)),
        };
        let granted = Granted {
            holding: Holding::granted(self, &reserve.record, &acquired),
            acquired,
            name: reserve.record.clone(),
            record: reserved.record,
            lease: reserve.lease,
            waited: !reserve.wait.is_zero(),
            instruction: reserve.instruction.clone(),
        };
        self.carry_out(granted, sending, effect).await
    }

    /// Marks, begins, runs and reports under a grant, whoever got it and how.
    pub(crate) async fn carry_out<F, E>(
        &self,
        granted: Granted,
        sending: Option<Sending>,
        effect: impl FnOnce(Effect) -> F,
    ) -> Result<Ran, Error>
    where
        F: Future<Output = Result<Verdict, E>>,
        E: Into<BoxError>,
    {
        let instruction = granted.instruction(sending.as_ref());
        let sending = sending.map(|sending| Sending {
            instruction: instruction.clone(),
            ..sending
        });
        let Granted {
            holding,
            acquired,
            name,
            record,
            lease: asked,
            waited,
            ..
        } = granted;
        let marked_for = sending.as_ref().and_then(|it| it.lease);
        let Ready {
            mut holding,
            lease,
            record,
        } = match &sending {
            Some(sending) => marked(holding, sending).await?,
            None => {
                let asked = waited.then_some(asked);
                unmarked(holding, acquired.lease, record, asked).await
            }
        };
        if !lease.enough_to_begin() {
            return Ok(too_late(holding, record).await);
        }
        let lost = holding.begin(lease, marked_for.or(asked));
        let ended = effect(Effect {
            record: name.clone(),
            effect_key: acquired.effect_key,
            fence: acquired.fence,
            generation: record.generation,
            attempt: record.attempt,
            reason: acquired.reason,
            instruction,
            earlier: acquired.earlier,
            lost,
        })
        .await;
        match ended {
            Ok(verdict) => {
                let delivery = holding.settle(verdict.clone());
                Ok(self.settled(record, verdict, delivery, &name).await)
            }
            Err(error) => Err(abandoned(holding, error.into()).await),
        }
    }

    async fn settled(
        &self,
        record: RecordSummary,
        verdict: Verdict,
        delivery: Delivery,
        name: &RecordName,
    ) -> Ran {
        let own = Ran::own(record, verdict.clone());
        match delivery.answer().await {
            Ok(reported) => self.confirmed(own, verdict, reported, name).await,
            Err(cause) if cause.decided() => {
                let warning = Warning::OtherOutcomeRecorded {
                    own: verdict,
                    cause,
                };
                self.on_record(own, name).await.warned(warning)
            }
            Err(cause) => own.warned(Warning::undelivered(cause)),
        }
    }

    async fn confirmed(
        &self,
        own: Ran,
        verdict: Verdict,
        reported: Reported,
        name: &RecordName,
    ) -> Ran {
        use ReportDisposition::{AlreadyRecorded, Closed};
        let expected = match &verdict {
            Verdict::Done(_) => State::Completed,
            Verdict::NothingHappened(_) | Verdict::Refused { .. } => State::Failed,
            Verdict::Unknown(_) => State::Pending,
        };
        if matches!(reported.disposition, AlreadyRecorded | Closed) {
            let warning = Warning::AlreadyRecorded { own: verdict };
            return self.on_record(own, name).await.warned(warning);
        }
        let spent = matches!(
            verdict,
            Verdict::Refused {
                effect_key_spent: true,
                ..
            }
        );
        // A failure may have led to PENDING, and one with a spent key may be contradicted.
        let mut ran = match reported.record.state() != expected || spent {
            true => self.on_record(own, name).await,
            false => own.recorded(reported.record),
        };
        if spent {
            ran.replayed = None;
        }
        ran.adjusted = reported.adjusted;
        ran
    }

    /// What is on record where that may differ from what the effect came to.
    async fn on_record(&self, own: Ran, name: &RecordName) -> Ran {
        let request = LookupRequest {
            target: Some(Target::Record(name.clone())),
            with_result: true,
            ..LookupRequest::default()
        };
        match self.lookup(request).await {
            Ok(found) => Ran::read(found),
            Err(cause) => own.unread(cause),
        }
    }
}

/// A grant, and what is to be done with it.
pub(crate) struct Granted {
    pub(crate) holding: Holding,
    pub(crate) acquired: Acquired,
    pub(crate) name: RecordName,
    pub(crate) record: RecordSummary,
    /// As asked for; none is the policy's.
    pub(crate) lease: Option<Duration>,
    /// The server may have held the answer.
    pub(crate) waited: bool,
    /// The request to send where nothing else says it.
    pub(crate) instruction: Bytes,
}

impl Granted {
    /// The request to send. Attempts of one generation send the same one.
    fn instruction(&self, sending: Option<&Sending>) -> Bytes {
        [
            Some(&self.acquired.earlier.instruction),
            sending.map(|sending| &sending.instruction),
        ]
        .into_iter()
        .flatten()
        .find(|instruction| !instruction.is_empty())
        .unwrap_or(&self.instruction)
        .clone()
    }
}

/// Gives an attempt back whose effect was not begun.
async fn too_late(holding: Holding, record: RecordSummary) -> Ran {
    let ran = Ran::too_late(record);
    match holding.free("TOO_LATE").answer().await {
        Ok(reported) => ran.recorded(reported.record),
        Err(cause) => ran.warned(Warning::undelivered(cause)),
    }
}

/// A holder that may begin if enough of its lease is left.
struct Ready {
    holding: Holding,
    lease: Lease,
    record: RecordSummary,
}

async fn marked(holding: Holding, sending: &Sending) -> Result<Ready, Error> {
    let (holding, marked) = holding.mark(sending).await?;
    Ok(Ready {
        holding,
        lease: marked.lease,
        record: marked.record,
    })
}

/// `waited`: the grant was waited for; with the lease that was asked for.
async fn unmarked(
    holding: Holding,
    mut lease: Lease,
    record: RecordSummary,
    waited: Option<Option<Duration>>,
) -> Ready {
    // Who waited for the grant has counted the wait as lease; the server has not.
    if let Some(asked) = waited
        && !lease.enough_to_begin()
    {
        lease = holding.renewed(asked).await.unwrap_or(lease);
    }
    Ready {
        holding,
        lease,
        record,
    }
}

/// Reports an end that says nothing about the effect, and hands its error on.
async fn abandoned(holding: Holding, error: BoxError) -> Error {
    let delivery = holding.abandon(&format!("the effect ended in an error: {error}"));
    if let Err(error) = delivery.answer().await {
        tracing::warn!(%error, "an unknown end is not on record yet");
    }
    Error::Effect(error)
}
