//! An exhaustive small model: at most one effect for an intent.
//!
//! Two callers, an operator, workers and a provider around the real `decide`; every order of
//! their steps, with a pause, a crash and a lost answer at each. What the contract does
//! not promise is modelled too, one setting for each: there the second effect must be
//! found, so that a promise that holds is known to hold for a reason.

mod consequences;
mod finding_out;
mod steps;
mod world;

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::calls::{reserve, resolve};
use crate::command::{Answer, Finding, Outcome, Refusal};
use crate::policy::OnLapse;
use crate::reading::{Reading, StartOver, View};
use crate::record::{GrantReason, State};
use steps::Step;
use world::{Setting, TICK, World};

/// What the contract says that it does not promise, and whose double effect must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excuse {
    /// A holder sends after others resolved the record, or after the provider forgot.
    Pause,
    /// The provider forgets a key earlier than it says.
    Forgetting,
    /// A caller that does not know reports that there was no effect.
    FalseReport,
    /// The operator says "not applied" while a request may be under way.
    HastyOperator,
    /// A caller comes back after its key was forgotten, and does not say when it made it.
    NoIntentTime,
}

const ONE_EFFECT: &str = "at most one effect";
const TRUE_REPLAY: &str = "what is replayed is true";
const NOT_STUCK: &str = "no key is stuck unseen";
const NOT_HELD_BACK: &str = "only who paused is held back";

impl Model for Setting {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(self, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(self, &step);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_EFFECT, |_, world: &World| world.effects <= 1),
            Property::always(NOT_STUCK, |_, world| not_stuck(world)),
        ];
        if self.excuse.is_some() || !self.is_promised() {
            return properties;
        }
        properties.extend([
            Property::always(TRUE_REPLAY, |_, world| true_replay(world)),
            Property::always(NOT_HELD_BACK, |setting, world: &World| {
                world
                    .callers
                    .iter()
                    .all(|caller| world.free_to_send(setting, caller))
            }),
        ]);
        if self.workers > 0 {
            properties.extend(self.found_out());
            return properties;
        }
        properties.extend([
            Property::sometimes("pending", |_, world: &World| world.reads_pending()),
            Property::sometimes("a third grant", |_, world: &World| {
                world.is(|record| record.attempt.number == 3)
            }),
            Property::sometimes("completed", |_, world: &World| {
                world.is(|record| record.state == State::Completed)
            }),
            Property::sometimes("final failure", |_, world: &World| {
                world.is(|record| record.state == State::FailedFinal)
            }),
            Property::sometimes("given back", |_, world: &World| {
                world.is(|record| record.attempt.given_back.is_some())
            }),
        ]);
        if self.dedups {
            let contradicted = |_: &Self, world: &World| world.is(|record| record.contradicted);
            properties.push(Property::sometimes("contradicted", contradicted));
        }
        if self.dedups && self.refusals > 0 {
            let second = |_: &Self, world: &World| world.is(|record| record.generation == 2);
            properties.push(Property::sometimes("second generation", second));
        }
        properties
    }
}

impl Setting {
    /// What workers must reach, so that the promises are kept for a reason.
    fn found_out(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::sometimes("claimed", |_, world: &World| {
                world.is(|record| record.running_claim(world.row.now).is_some())
            }),
            Property::sometimes("found applied", |_, world: &World| {
                world.is(|record| record.state == State::Completed && record.resolution.is_some())
            }),
            Property::sometimes("found not applied", |_, world: &World| {
                world.is(|record| {
                    record.state == State::FailedRetryable && record.resolution.is_some()
                })
            }),
            Property::sometimes("found failed", |_, world: &World| {
                world.is(|record| record.state == State::FailedFinal && record.resolution.is_some())
            }),
            Property::sometimes("resolver takes over", |_, world: &World| {
                world.is(|record| record.attempt.why == GrantReason::AfterResolution)
            }),
        ];
        if self.claims * self.workers > 1 {
            properties.push(Property::sometimes("a second claim", |_, world: &World| {
                world.claims.len() == 2
            }));
        }
        if self.retention.is_some() {
            properties.push(Property::sometimes("removed", |_, world: &World| {
                world.purged
            }));
        }
        properties
    }
}

/// COMPLETED only with the effect; "may begin under a new key" only without it.
fn true_replay(world: &World) -> bool {
    let Some(record) = world.row.record.clone() else {
        return world.effects == 0 || world.purged;
    };
    let view = View::of(record, &world.row.policy, world.row.now);
    match view.reading {
        Reading::Completed { .. } => world.effects == 1,
        _ => view.start_over() != StartOver::Yes || world.effects == 0,
    }
}

/// Once no lease can run any more, a new caller gets the grant, the outcome, or PENDING;
/// and PENDING yields to every finding of an operator.
fn not_stuck(world: &World) -> bool {
    let mut later = world.row.clone();
    later.now = later.now.after(TICK * 100);
    match later.decide(reserve(99)).answer {
        Ok(Answer::Outcome(Outcome::Acquired { .. } | Outcome::Recorded, _)) => true,
        Ok(Answer::Outcome(Outcome::Pending { .. }, _)) => {
            let revision = later.record().revision;
            [Finding::NotApplied, crate::calls::applied("seen")]
                .into_iter()
                .all(|finding| later.decide(resolve(revision, finding)).answer.is_ok())
        }
        Ok(_) | Err(Refusal::AttemptOver) => false,
        Err(other) => panic!("Reserve was refused: {other}"),
    }
}

/// Every state is visited, and the promises hold in all of them.
fn holds(setting: Setting, states_at_least: usize) {
    let begun = Instant::now();
    let label = format!("{setting:?}");
    let checker = setting.checker().spawn_bfs().join();
    let states = checker.unique_state_count();
    println!(
        "{label}: {states} states, {} steps, depth {} in {:?}",
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed()
    );
    checker.assert_properties();
    assert!(states >= states_at_least, "only {states} states");
}

/// Beyond the promise a second effect exists, and is found.
fn breaks(setting: Setting) {
    let label = format!("{setting:?}");
    let wanted = HasDiscoveries::AnyOf([ONE_EFFECT].into());
    let checker = setting.checker().finish_when(wanted).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(ONE_EFFECT);
    let path = path.unwrap_or_else(|| panic!("{label}: no second effect in {states} states"));
    println!("{label}: {:?}", path.into_actions());
    assert!(checker.discovery(NOT_STUCK).is_none());
}

#[test]
fn unrepeatable_operation_takes_place_once() {
    holds(Setting::new(OnLapse::Pending), 30_000);
}

#[test]
fn unrepeatable_operation_that_marks_takes_place_once() {
    holds(Setting::new(OnLapse::Pending).marking(), 35_000);
}

#[test]
fn operation_taken_over_unless_sent_takes_place_once() {
    holds(Setting::new(OnLapse::TakeOverUnlessSent).marking(), 38_000);
}

#[test]
fn operation_taken_over_takes_place_once_at_a_provider_that_remembers_keys() {
    holds(Setting::new(OnLapse::TakeOver), 200_000);
}

#[test]
fn operation_taken_over_that_marks_takes_place_once_too() {
    let setting = Setting::new(OnLapse::TakeOver).marking();
    holds(setting.without_refusals().longer_leases(), 40_000);
}

#[test]
fn unless_sent_promises_nothing_to_who_does_not_mark() {
    breaks(Setting::new(OnLapse::TakeOverUnlessSent));
}

#[test]
fn take_over_promises_nothing_at_a_provider_without_keys() {
    breaks(Setting::new(OnLapse::TakeOver).without_keys());
}

#[test]
fn pause_beyond_a_resolution_or_the_providers_memory_is_not_promised() {
    for setting in settings() {
        breaks(setting.excused(Excuse::Pause));
    }
}

#[test]
fn provider_that_forgets_early_is_not_promised() {
    breaks(Setting::new(OnLapse::TakeOver).excused(Excuse::Forgetting));
}

#[test]
fn false_reports_are_not_promised() {
    for setting in settings() {
        breaks(setting.excused(Excuse::FalseReport));
    }
}

#[test]
fn hasty_operators_are_not_promised() {
    for setting in settings() {
        breaks(setting.excused(Excuse::HastyOperator));
    }
}

fn settings() -> [Setting; 3] {
    [
        Setting::new(OnLapse::Pending),
        Setting::new(OnLapse::TakeOverUnlessSent).marking(),
        Setting::new(OnLapse::TakeOver),
    ]
}

#[test]
fn restarted_callers_change_nothing() {
    let floors = [8_000, 13_000, 110_000];
    for (setting, states) in settings().into_iter().zip(floors) {
        holds(setting.restarting(), states);
    }
}

#[test]
fn unrepeatable_operation_takes_place_once_when_workers_find_out() {
    holds(Setting::new(OnLapse::Pending).finding_out(1, 2), 20_000);
    let two = Setting::new(OnLapse::Pending).finding_out(2, 1);
    holds(two.shorter(), 10_000);
}

#[test]
fn operation_taken_over_unless_sent_takes_place_once_when_workers_find_out() {
    let setting = Setting::new(OnLapse::TakeOverUnlessSent).marking();
    holds(setting.finding_out(1, 2), 20_000);
}

#[test]
fn operation_taken_over_takes_place_once_when_workers_find_out() {
    let setting = Setting::new(OnLapse::TakeOver).finding_out(1, 1);
    holds(setting.refusing().shorter(), 180_000);
}

#[test]
fn worker_and_operator_side_by_side_change_nothing() {
    let setting = Setting::new(OnLapse::Pending).finding_out(1, 1);
    holds(setting.overridden().giving_back().shorter(), 35_000);
}

#[test]
fn forgetting_changes_nothing_for_callers_who_say_when_they_made_the_key() {
    let setting = Setting::new(OnLapse::Pending).finding_out(1, 1);
    holds(setting.forgetting(), 30_000);
}

#[test]
fn coming_back_after_the_memory_is_over_is_not_promised_to_who_does_not_say_when() {
    let setting = Setting::new(OnLapse::Pending).finding_out(1, 1);
    breaks(setting.forgetting().excused(Excuse::NoIntentTime));
}

#[test]
fn pause_until_a_worker_finds_out_is_not_promised() {
    let setting = Setting::new(OnLapse::Pending).finding_out(1, 1);
    breaks(setting.excused(Excuse::Pause));
}
