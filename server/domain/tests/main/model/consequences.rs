//! What comes of a step.

use std::time::Duration;

use super::steps::{How, Seen, Step};
use super::world::{Caller, Grant, Remembered, Sent, Setting, Stage, TICK, Word, World};
use crate::calls::{
    Ask, T0, applied, complete, failed, found_failed, give_back, mark_pending, mark_sending, renew,
    reserve, resolve, resolver_takes_over, retryable, spent, still_unknown, undelivered,
};
use crate::command::{Answer, Command, Finding, Outcome, Reserve, Resolve};
use crate::decide::Decision;
use crate::reading::View;
use crate::record::Record;
use crate::token::Held;

impl World {
    pub(super) fn take(&mut self, setting: &Setting, step: &Step) {
        match *step {
            Step::Tick => self.row.now = self.row.now.after(TICK),
            Step::Reserve { caller, heard } => self.reserve(setting, caller, heard),
            Step::GiveBack { caller } => {
                if let Stage::Asking(id) = self.callers[caller].stage {
                    self.call(give_back(id));
                    self.callers[caller].stage = Stage::Idle;
                }
            }
            Step::Undelivered => {
                if let Some(revision) = self.undelivered.take() {
                    self.call(undelivered(revision));
                    self.give_backs -= 1;
                }
            }
            Step::Crash { caller } => self.callers[caller].stage = Stage::Idle,
            Step::Mark { caller, heard } => self.mark(caller, heard),
            Step::Send { caller } => self.send(caller),
            Step::Decide {
                request,
                word,
                heard,
            } => {
                let sent = self.wire.remove(request);
                self.provide(setting, sent, word);
                self.reply(sent, word, heard);
            }
            Step::Replay { request, heard } => {
                let sent = self.wire.remove(request);
                let applied = self
                    .remembered(sent.generation)
                    .is_some_and(|key| key.applied);
                let word = if applied {
                    Word::Applied
                } else {
                    Word::Declined
                };
                self.reply(sent, word, heard);
            }
            Step::TimeOut { caller } => self.knows(caller, Word::Unknown),
            Step::Report { caller, how, heard } => self.report(caller, how, heard),
            Step::Override(seen) => self.resolve(seen),
            Step::Forget => self.keys.iter_mut().for_each(|key| key.until = T0),
            Step::Lie { caller, spent } => {
                let word = if spent {
                    Word::Declined
                } else {
                    Word::NoEffect
                };
                if let Stage::Knowing { attempt, .. } = self.callers[caller].stage {
                    self.callers[caller].stage = Stage::Knowing { attempt, word };
                }
            }
            Step::Claim { .. }
            | Step::Look { .. }
            | Step::Found { .. }
            | Step::WorkerCrash { .. }
            | Step::Sweep
            | Step::ForgetRecord
            | Step::Purge => self.find_out(setting, step),
        }
        self.retire();
    }

    /// Who can do nothing any more is done.
    fn retire(&mut self) {
        let wire = &self.wire;
        for caller in &mut self.callers {
            let over = match caller.stage {
                Stage::Idle => true,
                Stage::Waiting { attempt, doubted } => {
                    doubted && wire.iter().all(|sent| sent.attempt != attempt)
                }
                _ => false,
            };
            if over && caller.tries == 0 {
                caller.stage = Stage::Done;
            }
        }
        self.callers.sort_unstable();
    }

    pub(super) fn call(&mut self, ask: impl Ask) -> Decision {
        let decision = self.row.ask(ask);
        // A later write means that somebody has heard of the grant.
        if decision.change.is_some()
            && let Some(late) = self.undelivered.take()
        {
            assert_eq!(self.row.decide(undelivered(late)).change, None);
        }
        if let Some(record) = &self.row.record
            && self.tokens.last() != Some(&self.row.token())
        {
            self.ids_used = self.ids_used.max(record.attempt.id.0[0]);
            self.tokens.push(self.row.token());
        }
        decision
    }

    fn token(&self, attempt: u32) -> Held {
        self.tokens[attempt as usize - 1]
    }

    fn reserve(&mut self, setting: &Setting, caller: usize, heard: bool) {
        let Caller { stage, .. } = self.callers[caller];
        let id = match stage {
            Stage::Asking(id) => id,
            _ => self.ids_used + 1,
        };
        let decision = self.call(Reserve {
            intent_time: setting.says_when().then_some(T0),
            ..reserve(id)
        });
        let granted = decision.change.is_some();
        if granted && stage == Stage::Idle {
            self.callers[caller].tries -= 1;
        }
        if !heard {
            if granted {
                self.callers[caller].stage = Stage::Asking(id);
                let revision = self.row.record().revision;
                self.undelivered = (self.give_backs > 0).then_some(revision);
            }
            return;
        }
        self.callers[caller].stage = match decision.answer {
            Ok(Answer::Outcome(Outcome::Acquired { .. }, view)) => {
                Stage::Holding(granted_by(&view))
            }
            Ok(Answer::Outcome(Outcome::Recorded, _)) => Stage::Done,
            // It never sent, so it may say so.
            Ok(Answer::Outcome(Outcome::Pending { yours: true, .. }, view))
                if !view.record.attempt.used =>
            {
                Stage::Knowing {
                    attempt: view.record.attempt.number,
                    word: Word::NoEffect,
                }
            }
            _ => Stage::Idle,
        };
    }

    fn mark(&mut self, caller: usize, heard: bool) {
        let Stage::Holding(grant) = self.callers[caller].stage else {
            return;
        };
        let decision = self.call(mark_sending(self.token(grant.attempt)));
        if !heard {
            return;
        }
        match decision.answer {
            Ok(Answer::Leased(view)) => {
                let marked = true;
                self.callers[caller].stage = Stage::Holding(Grant {
                    marked,
                    ..granted_by(&view)
                });
            }
            _ => self.knows(caller, Word::NoEffect),
        }
    }

    fn send(&mut self, caller: usize) {
        if let Stage::Holding(grant) = self.callers[caller].stage {
            self.wire.push(Sent {
                at: self.row.now,
                attempt: grant.attempt,
                generation: grant.generation,
            });
            self.wire.sort_unstable();
            self.callers[caller].stage = Stage::Waiting {
                attempt: grant.attempt,
                doubted: false,
            };
        }
    }

    fn provide(&mut self, setting: &Setting, sent: Sent, word: Word) {
        if word == Word::Applied {
            self.effects += 1;
        } else {
            self.refusals -= 1;
        }
        // A request that is turned away leaves nothing under its key.
        if setting.dedups && word != Word::NoEffect {
            self.keys.push(Remembered {
                generation: sent.generation,
                applied: word == Word::Applied,
                until: self.row.now.after(TICK * setting.memory),
            });
        }
    }

    /// An answer that is lost leaves its caller, sooner or later, without knowledge.
    fn reply(&mut self, sent: Sent, word: Word, heard: bool) {
        let Some(caller) = self.awaiting(&sent) else {
            return;
        };
        match self.callers[caller].stage {
            _ if heard => self.knows(caller, word),
            Stage::Waiting { doubted: false, .. } => self.knows(caller, Word::Unknown),
            _ => {}
        }
    }

    fn knows(&mut self, caller: usize, word: Word) {
        let stage = &mut self.callers[caller].stage;
        if let Some(attempt) = attempt_of(*stage) {
            *stage = Stage::Knowing { attempt, word };
        }
    }

    fn report(&mut self, caller: usize, how: How, heard: bool) {
        let Stage::Knowing { attempt, word } = self.callers[caller].stage else {
            return;
        };
        let held = self.token(attempt);
        let as_spent = |fail| {
            if word == Word::Declined {
                spent(fail)
            } else {
                fail
            }
        };
        let command: Command = match how {
            How::Complete => complete(held, "done").command(),
            How::Retryable => as_spent(retryable(held, "busy")).command(),
            How::Final => as_spent(failed(held, "no")).command(),
            How::Pending => mark_pending(held, "timeout").command(),
            How::LetGo => renew(held, Duration::ZERO).command(),
        };
        self.call(command);
        if heard {
            self.callers[caller].stage = match how {
                How::Complete => Stage::Done,
                How::Retryable | How::Final => Stage::Idle,
                // The provider's answer may come yet.
                How::Pending | How::LetGo => Stage::Waiting {
                    attempt,
                    doubted: true,
                },
            };
        }
    }

    fn resolve(&mut self, seen: Seen) {
        let finding = match seen {
            Seen::Applied => applied("seen"),
            Seen::NotApplied { .. } => Finding::NotApplied,
            Seen::TakeOver { .. } => resolver_takes_over(self.ids_used + 1),
            Seen::Failed => found_failed("no"),
            Seen::Nothing => still_unknown(),
        };
        let &Record {
            revision,
            generation,
            ..
        } = self.row.record();
        let declined = self.remembered(generation).is_some_and(|key| !key.applied);
        let decision = self.call(Resolve {
            effect_key_spent: declined || matches!(seen, Seen::NotApplied { spent: true }),
            ..resolve(revision, finding)
        });
        let Ok(answer) = decision.answer else {
            return;
        };
        self.overrides -= 1;
        if seen == Seen::Nothing {
            return;
        }
        self.resolved(u32::MAX);
        if let (Seen::TakeOver { caller }, Answer::Outcome(_, view)) = (seen, answer) {
            self.callers[caller].stage = Stage::Holding(granted_by(&view));
            self.callers[caller].tries -= 1;
        }
    }

    /// Whoever has not sent by now, up to this attempt, paused until others knew the outcome.
    pub(super) fn resolved(&mut self, newest: u32) {
        for caller in &mut self.callers {
            if let Stage::Holding(grant) = &mut caller.stage
                && grant.attempt <= newest
            {
                grant.resolved_since = true;
            }
        }
    }
}

pub(super) fn granted_by(view: &View) -> Grant {
    Grant {
        attempt: view.record.attempt.number,
        generation: view.record.generation,
        at: view.now,
        until: view.record.attempt.lease_end,
        marked: false,
        resolved_since: false,
    }
}

fn attempt_of(stage: Stage) -> Option<u32> {
    match stage {
        Stage::Holding(Grant { attempt, .. })
        | Stage::Waiting { attempt, .. }
        | Stage::Knowing { attempt, .. } => Some(attempt),
        Stage::Idle | Stage::Asking(_) | Stage::Done => None,
    }
}
