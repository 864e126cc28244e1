//! Random lives of a record.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::calls::*;
use crate::command::{Command, Finding, MarkPending, Reserve, Resolve};
use crate::policy::Policy;
use crate::token::Held;

/// One step: time passes, the policy may be another, somebody asks.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pass: Duration,
    policy: Option<usize>,
    who: Who,
    act: Act,
}

/// Whose token is presented.
#[derive(Clone, Debug)]
enum Who {
    Newest,
    Earlier(Index),
    Forged,
}

#[derive(Clone, Debug)]
enum Act {
    Reserve {
        attempt: u8,
        payload: u8,
        lease: Option<Duration>,
    },
    MarkSending,
    Complete(bool),
    Fail {
        is_final: bool,
        is_spent: bool,
        other: bool,
    },
    MarkPending(u8),
    Renew(Option<Duration>),
    GiveBack(u8),
    Undelivered {
        revisions_ago: u64,
    },
    Resolve {
        finding: u8,
        is_spent: bool,
        revisions_ago: u64,
    },
    Claim(u8),
    RenewClaim(Option<Duration>),
    ResolveByClaim {
        finding: u8,
        is_spent: bool,
    },
    Forget {
        revisions_ago: u64,
    },
    Sweep,
}

fn seconds(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_secs)
}

fn act() -> impl Strategy<Value = Act> {
    let lease = || prop::option::of(seconds(60));
    let ago = || prop_oneof![4 => Just(0_u64), 1 => 1_u64..3];
    prop_oneof![
        6 => (1_u8..8, 0_u8..10, lease()).prop_map(|(attempt, other, lease)| {
            let payload = if other == 0 { 2 } else { 1 };
            Act::Reserve { attempt, payload, lease }
        }),
        3 => Just(Act::MarkSending),
        2 => any::<bool>().prop_map(Act::Complete),
        4 => any::<(bool, bool, bool)>().prop_map(|(is_final, is_spent, other)| {
            Act::Fail { is_final, is_spent, other }
        }),
        2 => (0_u8..6).prop_map(Act::MarkPending),
        2 => lease().prop_map(Act::Renew),
        1 => (1_u8..8).prop_map(Act::GiveBack),
        1 => ago().prop_map(|revisions_ago| Act::Undelivered { revisions_ago }),
        3 => (0_u8..5, any::<bool>(), ago()).prop_map(|(finding, is_spent, revisions_ago)| {
            Act::Resolve { finding, is_spent, revisions_ago }
        }),
        4 => (1_u8..4).prop_map(Act::Claim),
        1 => lease().prop_map(Act::RenewClaim),
        4 => (0_u8..5, any::<bool>()).prop_map(|(finding, is_spent)| {
            Act::ResolveByClaim { finding, is_spent }
        }),
        1 => ago().prop_map(|revisions_ago| Act::Forget { revisions_ago }),
        2 => Just(Act::Sweep),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let pass = prop_oneof![
        6 => seconds(1),
        4 => seconds(60),
        2 => seconds(900),
        1 => seconds(4_000_000),
    ];
    let who = prop_oneof![
        8 => Just(Who::Newest),
        3 => any::<Index>().prop_map(Who::Earlier),
        1 => Just(Who::Forged),
    ];
    let policy = prop_oneof![5 => Just(None), 1 => (0_usize..5).prop_map(Some)];
    (pass, policy, who, act()).prop_map(|(pass, policy, who, act)| Step {
        pass,
        policy,
        who,
        act,
    })
}

pub(super) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..most)
}

/// A row, and the tokens and claims that were ever given out for it.
pub(super) struct Life {
    pub(super) row: Row,
    pub(super) claims: Vec<Held>,
    tokens: Vec<Held>,
}

impl Life {
    pub(super) fn new() -> Self {
        Self {
            row: Row::new(take_over()),
            claims: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Lets time pass, and makes the command.
    pub(super) fn prepare(&mut self, step: &Step) -> Command {
        self.row.now = self.row.now.after(step.pass);
        if let Some(policy) = step.policy {
            self.row.policy = policies()[policy].clone().into();
        }
        let by_claim = matches!(step.act, Act::RenewClaim(_) | Act::ResolveByClaim { .. });
        let given_out = if by_claim { &self.claims } else { &self.tokens };
        self.command(&step.act, Self::held(given_out, &step.who))
    }

    /// Notes the token of a new grant and of a new claim.
    pub(super) fn remember(&mut self) {
        let record = self.row.record.as_ref();
        let (token, claim) = (record.map(token_of), record.and_then(claim_of));
        self.tokens
            .extend(token.filter(|token| self.tokens.last() != Some(token)));
        self.claims
            .extend(claim.filter(|claim| self.claims.last() != Some(claim)));
    }

    fn held(given_out: &[Held], who: &Who) -> Held {
        let none = Held {
            attempt: 1,
            fence: 1,
            authentic: true,
        };
        let newest = given_out.last().copied().unwrap_or(none);
        match who {
            Who::Newest => newest,
            Who::Earlier(_) if given_out.is_empty() => none,
            Who::Earlier(index) => *index.get(given_out),
            Who::Forged => Held {
                authentic: false,
                ..newest
            },
        }
    }

    fn command(&self, act: &Act, held: Held) -> Command {
        let revision = self.row.record.as_ref().map_or(0, |record| record.revision);
        match *act {
            Act::Reserve {
                attempt,
                payload: number,
                lease,
            } => Reserve {
                fingerprints: vec![payload(number)],
                lease,
                ..reserve(attempt)
            }
            .command(),
            Act::MarkSending => mark_sending(held).command(),
            Act::Complete(other) => complete(held, if other { "other" } else { "done" }).command(),
            Act::Fail {
                is_final,
                is_spent,
                other,
            } => {
                let code = if other { "other" } else { "no" };
                let fail = if is_final {
                    failed(held, code)
                } else {
                    retryable(held, code)
                };
                if is_spent { spent(fail) } else { fail }.command()
            }
            Act::MarkPending(number) => {
                let detail = format!("timeout {number}");
                MarkPending {
                    provider_reference: format!("ch_{number}"),
                    ..mark_pending(held, &detail)
                }
                .command()
            }
            Act::Renew(lease) => renew(held, lease).command(),
            Act::GiveBack(attempt) => give_back(attempt).command(),
            Act::Undelivered { revisions_ago } => {
                undelivered(revision.saturating_sub(revisions_ago)).command()
            }
            Act::Resolve {
                finding,
                is_spent,
                revisions_ago,
            } => Resolve {
                effect_key_spent: is_spent,
                ..resolve(revision.saturating_sub(revisions_ago), finding_of(finding))
            }
            .command(),
            Act::Claim(number) => claim(number).command(),
            Act::RenewClaim(lease) => renew_claim(held, lease).command(),
            Act::ResolveByClaim { finding, is_spent } => Resolve {
                effect_key_spent: is_spent,
                ..resolve_by(held, finding_of(finding))
            }
            .command(),
            Act::Forget { revisions_ago } => {
                forget(revision.saturating_sub(revisions_ago)).command()
            }
            Act::Sweep => Command::Sweep,
        }
    }
}

fn finding_of(number: u8) -> Finding {
    match number {
        0 => applied("done"),
        1 => Finding::NotApplied,
        2 => found_failed("no"),
        3 => resolver_takes_over(9),
        _ => still_unknown(),
    }
}

/// TAKE_OVER twice, with other lengths; and once nobody is granted an attempt.
fn policies() -> [Policy; 5] {
    let short = Policy {
        repeat_within: Some(Duration::from_secs(40)),
        lease: Duration::from_secs(15),
        ..take_over()
    };
    [
        Policy::default(),
        unless_sent(),
        take_over(),
        holding(take_over()),
        short,
    ]
}
