//! Workers that find out, and what is forgotten: their steps, and what comes of them.

use super::steps::{Seen, Step};
use super::world::{Look, Setting, Stage, TICK, UNDER_WAY, Worker, World};
use crate::calls::{
    applied, claim, claim_of, forget, found_failed, resolve_by, resolver_takes_over, still_unknown,
};
use crate::command::{Answer, Claim, Command, Finding, Refusal, Resolve};
use crate::reading::Reading;
use crate::record::State;

impl World {
    pub(super) fn steps_of_workers(&self, setting: &Setting, steps: &mut Vec<Step>) {
        for worker in 0..self.workers.len() {
            self.steps_of_worker(worker, steps);
        }
        if setting.workers > 0 && self.reads_pending() && !self.is(|it| it.state == State::Pending)
        {
            steps.push(Step::Sweep);
        }
        if self.forgets > 0 && self.row.record.is_some() {
            steps.push(Step::ForgetRecord);
        }
        if self.row.record.is_some() && self.row.reads() == Reading::Over {
            steps.push(Step::Purge);
        }
    }

    fn steps_of_worker(&self, worker: usize, steps: &mut Vec<Step>) {
        let Worker { tries, look } = self.workers[worker];
        // Who crashes for good is like who pauses for good.
        if tries > 0 && look != Look::Idle {
            steps.push(Step::WorkerCrash { worker });
        }
        let has_record = self.row.record.is_some();
        match look {
            Look::Idle if tries > 0 && has_record => {
                steps.extend([true, false].map(|heard| Step::Claim { worker, heard }));
            }
            Look::Asking(_) => {
                steps.extend([true, false].map(|heard| Step::Claim { worker, heard }));
            }
            Look::Idle | Look::Done => {}
            // What was sent that long ago has arrived.
            Look::Claimed { .. } => {
                let arrives =
                    |sent: &super::world::Sent| self.row.now >= sent.at.after(TICK * UNDER_WAY);
                if !self.wire.iter().any(arrives) {
                    steps.push(Step::Look { worker });
                }
            }
            Look::Knowing { saw, .. } => {
                let mut says = |seen| {
                    steps.extend([true, false].map(|heard| Step::Found {
                        worker,
                        seen,
                        heard,
                    }));
                };
                match saw {
                    Saw::Applied => says(Seen::Applied),
                    Saw::Nothing | Saw::Declined => {
                        let spent = saw == Saw::Declined;
                        says(Seen::NotApplied { spent });
                        says(Seen::Failed);
                        says(Seen::Nothing);
                        let idle = |caller: &usize| {
                            let caller = self.callers[*caller];
                            caller.stage == Stage::Idle && caller.tries > 0
                        };
                        (0..self.callers.len())
                            .filter(idle)
                            .for_each(|caller| says(Seen::TakeOver { caller }));
                    }
                }
            }
        }
    }

    /// Takes the step, if it is one of these.
    pub(super) fn find_out(&mut self, setting: &Setting, step: &Step) {
        match *step {
            Step::Claim { worker, heard } => self.claim(worker, heard),
            Step::WorkerCrash { worker } => self.workers[worker].look = Look::Idle,
            Step::Look { worker } => self.look(setting, worker),
            Step::Found {
                worker,
                seen,
                heard,
            } => self.found(worker, seen, heard),
            Step::Sweep => {
                self.call(Command::Sweep);
            }
            Step::ForgetRecord => {
                let revision = self.row.record().revision;
                if self.call(forget(revision)).answer.is_ok() {
                    self.forgets -= 1;
                }
            }
            Step::Purge => {
                self.row.record = None;
                self.purged = true;
            }
            _ => unreachable!("a step of callers, provider or operator"),
        }
        for worker in &mut self.workers {
            if worker.tries == 0 && worker.look == Look::Idle {
                worker.look = Look::Done;
            }
        }
        self.workers.sort_unstable();
    }

    fn claim(&mut self, worker: usize, heard: bool) {
        let Worker { look, .. } = self.workers[worker];
        let id = match look {
            Look::Asking(id) => id,
            _ => self.claim_ids + 1,
        };
        let decision = self.call(Claim {
            lease: TICK,
            ..claim(id)
        });
        let taken = decision.change.is_some();
        self.claim_ids = self.claim_ids.max(if taken { id } else { 0 });
        if taken {
            let held = claim_of(self.row.record()).expect("just taken");
            self.claims.push(held);
            if look == Look::Idle {
                self.workers[worker].tries -= 1;
            }
        }
        self.workers[worker].look = match decision.answer {
            Ok(Answer::Claimed(_)) if heard => {
                let claim = self.claims.len() - 1;
                Look::Claimed { claim }
            }
            Ok(Answer::Claimed(_)) => Look::Asking(id),
            _ => Look::Idle,
        };
    }

    /// Asks the provider. From here on others are finding out, and whoever holds what is
    /// found out about and has not sent yet has paused too long.
    fn look(&mut self, setting: &Setting, worker: usize) {
        let Look::Claimed { claim } = self.workers[worker].look else {
            return;
        };
        let generation = self.row.record.as_ref().map_or(1, |it| it.generation);
        let saw = if setting.dedups {
            match self.remembered(generation) {
                Some(key) if key.applied => Saw::Applied,
                Some(_) => Saw::Declined,
                None => Saw::Nothing,
            }
        } else if self.effects > 0 {
            Saw::Applied
        } else {
            Saw::Nothing
        };
        self.workers[worker].look = Look::Knowing { claim, saw };
        self.resolved(self.claims[claim].attempt);
    }

    fn found(&mut self, worker: usize, seen: Seen, heard: bool) {
        let Look::Knowing { claim, saw } = self.workers[worker].look else {
            return;
        };
        let id = self.ids_used + 1;
        let finding = match seen {
            Seen::Applied => applied("seen"),
            Seen::NotApplied { .. } => Finding::NotApplied,
            Seen::TakeOver { .. } => resolver_takes_over(id),
            Seen::Failed => found_failed("no"),
            Seen::Nothing => still_unknown(),
        };
        let decision = self.call(Resolve {
            effect_key_spent: saw == Saw::Declined && seen != Seen::Nothing,
            ..resolve_by(self.claims[claim], finding)
        });
        if let (Seen::TakeOver { caller }, Ok(Answer::Outcome(_, view))) = (seen, &decision.answer)
            && decision.change.is_some()
        {
            self.callers[caller].tries -= 1;
            // Who lost the answer asks again as a caller does.
            self.callers[caller].stage = if heard {
                Stage::Holding(super::consequences::granted_by(view))
            } else {
                Stage::Asking(id)
            };
        }
        let stays = matches!(
            decision.answer,
            Err(Refusal::Settling | Refusal::TooLateToTell)
        );
        if heard && !stays {
            self.workers[worker].look = Look::Idle;
        }
    }
}

/// What the provider told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Saw {
    Applied,
    /// It decided under this effect key that it will not.
    Declined,
    /// It knows nothing.
    Nothing,
}
