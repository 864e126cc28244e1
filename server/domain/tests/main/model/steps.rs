//! What can happen next; what comes of it is elsewhere.

use super::Excuse;
use super::world::{Caller, Grant, Remembered, Sent, Setting, Stage, TICK, UNDER_WAY, Word, World};
use crate::calls::T0;
use crate::policy::OnLapse;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Tick,
    /// Reserves, with a new id or again.
    Reserve {
        caller: usize,
        heard: bool,
    },
    /// Gives up a Reserve that was not answered.
    GiveBack {
        caller: usize,
    },
    /// The server gives back what reached nobody.
    Undelivered,
    Crash {
        caller: usize,
    },
    Mark {
        caller: usize,
        heard: bool,
    },
    Send {
        caller: usize,
    },
    /// The provider gets a request that it does not know.
    Decide {
        request: usize,
        word: Word,
        heard: bool,
    },
    /// The provider answers as before.
    Replay {
        request: usize,
        heard: bool,
    },
    TimeOut {
        caller: usize,
    },
    Report {
        caller: usize,
        how: How,
        heard: bool,
    },
    Override(Seen),
    /// A worker claims, with a new id or again.
    Claim {
        worker: usize,
        heard: bool,
    },
    /// It asks the provider.
    Look {
        worker: usize,
    },
    /// It resolves.
    Found {
        worker: usize,
        seen: Seen,
        heard: bool,
    },
    WorkerCrash {
        worker: usize,
    },
    /// The service writes a lapse down.
    Sweep,
    /// An operator erases what callers stored.
    ForgetRecord,
    /// The service removes a record whose memory is over.
    Purge,
    /// Excused: the provider forgets.
    Forget,
    /// Excused: who does not know says "no effect", or "and never will under this key".
    Lie {
        caller: usize,
        spent: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    Complete,
    Retryable,
    Final,
    Pending,
    /// Renew with zero.
    LetGo,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Seen {
    Applied,
    NotApplied { spent: bool },
    TakeOver { caller: usize },
    Failed,
    Nothing,
}

impl World {
    pub(super) fn steps(&self, setting: &Setting, steps: &mut Vec<Step>) {
        let overdue = |sent: &Sent| self.row.now >= sent.at.after(TICK * UNDER_WAY);
        if self.row.now < T0.after(TICK * setting.horizon) && !self.wire.iter().any(overdue) {
            steps.push(Step::Tick);
        }
        if self.undelivered.is_some() {
            steps.push(Step::Undelivered);
        }
        for caller in 0..self.callers.len() {
            self.steps_of(setting, caller, steps);
        }
        for (request, sent) in self.wire.iter().enumerate() {
            for heard in [true, false] {
                if !heard && self.awaiting(sent).is_none() {
                    continue;
                }
                if self.remembered(sent.generation).is_some() {
                    steps.push(Step::Replay { request, heard });
                    continue;
                }
                let mut decide = |word| {
                    steps.push(Step::Decide {
                        request,
                        word,
                        heard,
                    })
                };
                decide(Word::Applied);
                if self.refusals > 0 {
                    decide(Word::NoEffect);
                    if setting.dedups {
                        decide(Word::Declined);
                    }
                }
            }
        }
        self.overrides(setting, steps);
        self.steps_of_workers(setting, steps);
        if setting.excuse == Some(Excuse::Forgetting) && !self.keys.is_empty() {
            steps.push(Step::Forget);
        }
    }

    fn steps_of(&self, setting: &Setting, caller: usize, steps: &mut Vec<Step>) {
        let Caller { tries, stage } = self.callers[caller];
        // Who crashes for good is like who pauses for good.
        if tries > 0 && !matches!(stage, Stage::Idle | Stage::Done) {
            steps.push(Step::Crash { caller });
        }
        let mut either = |step: fn(usize, bool) -> Step| {
            steps.extend([step(caller, true), step(caller, false)]);
        };
        match stage {
            Stage::Idle if tries > 0 => either(|caller, heard| Step::Reserve { caller, heard }),
            Stage::Idle | Stage::Done => {}
            Stage::Asking(_) => {
                either(|caller, heard| Step::Reserve { caller, heard });
                steps.push(Step::GiveBack { caller });
            }
            Stage::Holding(grant) if setting.marks && !grant.marked => {
                either(|caller, heard| Step::Mark { caller, heard });
            }
            Stage::Holding(grant) => {
                let excused = setting.excuse == Some(Excuse::Pause);
                if excused || self.did_not_pause_too_long(setting, &grant) {
                    steps.push(Step::Send { caller });
                }
            }
            Stage::Waiting { doubted: true, .. } => {}
            Stage::Waiting { .. } => steps.push(Step::TimeOut { caller }),
            Stage::Knowing { word, .. } => {
                let hows: &[How] = match word {
                    Word::Applied => &[How::Complete],
                    Word::Declined | Word::NoEffect => &[How::Retryable, How::Final],
                    Word::Unknown if setting.on_lapse == OnLapse::TakeOver => {
                        &[How::Pending, How::LetGo]
                    }
                    Word::Unknown => &[How::Pending],
                };
                for how in hows {
                    for heard in [true, false] {
                        let how = *how;
                        steps.push(Step::Report { caller, how, heard });
                    }
                }
                if word == Word::Unknown && setting.excuse == Some(Excuse::FalseReport) {
                    steps.extend([true, false].map(|spent| Step::Lie { caller, spent }));
                }
            }
        }
    }

    /// An honest operator looks at the provider, and says "not applied" only when no
    /// request can be under way any more; "spent" when the refusal is on record there.
    fn overrides(&self, setting: &Setting, steps: &mut Vec<Step>) {
        if self.overrides == 0 || self.row.record.is_none() || !self.reads_pending() {
            return;
        }
        if self.effects > 0 {
            steps.push(Step::Override(Seen::Applied));
            return;
        }
        steps.push(Step::Override(Seen::Nothing));
        let lease_end = self.row.record().attempt.lease_end;
        let settled = self.wire.is_empty() && self.row.now >= lease_end.after(TICK * UNDER_WAY);
        let hasty = setting.excuse == Some(Excuse::HastyOperator);
        if settled || hasty {
            let idle = |caller: &usize| {
                let caller = self.callers[*caller];
                caller.stage == Stage::Idle && caller.tries > 0
            };
            let resolvers = (0..self.callers.len()).filter(idle);
            steps.extend(resolvers.map(|caller| Step::Override(Seen::TakeOver { caller })));
            steps.push(Step::Override(Seen::NotApplied { spent: false }));
            steps.push(Step::Override(Seen::Failed));
        }
        if hasty {
            steps.push(Step::Override(Seen::NotApplied { spent: true }));
        }
    }

    /// Since its last OK neither did others resolve the record, nor will the provider
    /// have forgotten the key by the time that the request arrives. Where workers find
    /// out, who pauses beyond its lease does not know whether one is asking the provider.
    fn did_not_pause_too_long(&self, setting: &Setting, grant: &Grant) -> bool {
        if setting.workers > 0 && self.row.now >= grant.until {
            return false;
        }
        let arrives = self.row.now.after(TICK * UNDER_WAY);
        let forgotten = |key: &Remembered| {
            key.generation == grant.generation && grant.at < key.until && key.until <= arrives
        };
        !grant.resolved_since && !self.keys.iter().any(forgotten)
    }

    /// Nobody is kept from sending whose lease still runs.
    pub(super) fn free_to_send(&self, setting: &Setting, caller: &Caller) -> bool {
        match &caller.stage {
            Stage::Holding(grant) if !setting.marks || grant.marked => {
                self.row.now >= grant.until || self.did_not_pause_too_long(setting, grant)
            }
            _ => true,
        }
    }

    /// The caller that waits for an answer to this still.
    pub(super) fn awaiting(&self, sent: &Sent) -> Option<usize> {
        self.callers.iter().position(|caller| {
            matches!(caller.stage, Stage::Waiting { attempt, .. } if attempt == sent.attempt)
        })
    }

    pub(super) fn remembered(&self, generation: u32) -> Option<&Remembered> {
        let live = |key: &&Remembered| key.generation == generation && self.row.now < key.until;
        self.keys.iter().find(live)
    }
}
