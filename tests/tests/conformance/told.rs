//! What a store answered, and what a case expects of it.

use reprise_domain::command::{Answer, Disposition, MismatchReason, Outcome, Refusal};
use reprise_domain::record::{AttemptId, PendingReason, Record, State};
use reprise_domain::token::{Held, TokenKey};
use reprise_domain::{RecordName, View};

use super::finding::Claimed;

/// The answer to a command. Each method says what it should have been, fails the case
/// where it was not, and hands on what it carries.
#[must_use]
pub(super) struct Told {
    pub(super) answer: Result<Answer, Refusal>,
    pub(super) token_key: TokenKey,
}

/// A grant, as its caller knows it.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) name: RecordName,
    pub(super) id: AttemptId,
    /// The same attempt as answered before.
    pub(super) again: bool,
    /// What the server reads from the token.
    pub(super) held: Held,
    pub(super) view: View,
}

impl Grant {
    pub(super) fn record(&self) -> &Record {
        &self.view.record
    }

    pub(super) fn number(&self) -> u32 {
        self.held.attempt
    }

    pub(super) fn fence(&self) -> u64 {
        self.held.fence
    }
}

impl Told {
    #[track_caller]
    fn otherwise<T>(self, expected: &str) -> T {
        panic!("expected {expected}, was answered {:?}", self.answer)
    }

    #[track_caller]
    pub(super) fn acquired(self) -> Grant {
        let Ok(Answer::Outcome(Outcome::Acquired { again }, view)) = self.answer else {
            return self.otherwise("acquired");
        };
        let attempt = &view.record.attempt;
        let id = view.record.name.id();
        let token = self.token_key.issue(&id, attempt.number, attempt.fence);
        Grant {
            name: view.record.name.clone(),
            id: attempt.id,
            again,
            held: self
                .token_key
                .read(&id, &token)
                .expect("a token just issued"),
            view,
        }
    }

    /// A new grant.
    #[track_caller]
    pub(super) fn granted(self) -> Grant {
        let grant = self.acquired();
        assert!(!grant.again, "expected a new grant, was answered again");
        grant
    }

    /// The same attempt once more.
    #[track_caller]
    pub(super) fn again(self) -> Grant {
        let grant = self.acquired();
        assert!(grant.again, "expected the same grant, was a new one");
        grant
    }

    #[track_caller]
    pub(super) fn processing(self) -> View {
        match self.answer {
            Ok(Answer::Outcome(Outcome::Processing, view)) => view,
            _ => self.otherwise("processing"),
        }
    }

    #[track_caller]
    pub(super) fn pending(self, expected: PendingReason) -> View {
        match self.answer {
            Ok(Answer::Outcome(
                Outcome::Pending {
                    reason,
                    yours: false,
                },
                view,
            )) if reason == expected => view,
            _ => self.otherwise(&format!("pending {expected:?}, not yours")),
        }
    }

    #[track_caller]
    pub(super) fn pending_yours(self, expected: PendingReason) -> View {
        match self.answer {
            Ok(Answer::Outcome(
                Outcome::Pending {
                    reason,
                    yours: true,
                },
                view,
            )) if reason == expected => view,
            _ => self.otherwise(&format!("pending {expected:?}, yours")),
        }
    }

    #[track_caller]
    pub(super) fn mismatch(self) -> View {
        self.mismatch_for(MismatchReason::DifferentPayload)
    }

    #[track_caller]
    pub(super) fn mismatch_for(self, expected: MismatchReason) -> View {
        match self.answer {
            Ok(Answer::Outcome(Outcome::Mismatch(reason), view)) if reason == expected => view,
            _ => self.otherwise(&format!("mismatch {expected:?}")),
        }
    }

    /// Completed, failed or gone, as the view reads.
    #[track_caller]
    pub(super) fn replayed(self) -> View {
        match self.answer {
            Ok(Answer::Outcome(Outcome::Recorded, view)) => view,
            _ => self.otherwise("an outcome on record"),
        }
    }

    #[track_caller]
    fn reported(self, expected: Disposition) -> View {
        match self.answer {
            Ok(Answer::Reported(disposition, view)) if disposition == expected => view,
            _ => self.otherwise(&format!("{expected:?}")),
        }
    }

    #[track_caller]
    pub(super) fn recorded(self) -> View {
        self.reported(Disposition::Recorded)
    }

    #[track_caller]
    pub(super) fn repeated(self) -> View {
        self.reported(Disposition::Repeated)
    }

    #[track_caller]
    pub(super) fn already_recorded(self) -> View {
        self.reported(Disposition::AlreadyRecorded)
    }

    /// Nothing was left to say, and nothing changed.
    #[track_caller]
    pub(super) fn closed(self) -> View {
        match self.answer {
            Ok(Answer::Closed(view) | Answer::Reported(Disposition::Closed, view)) => view,
            _ => self.otherwise("closed"),
        }
    }

    #[track_caller]
    pub(super) fn leased(self) -> View {
        match self.answer {
            Ok(Answer::Leased(view)) => view,
            _ => self.otherwise("a lease"),
        }
    }

    /// A claim that runs.
    #[track_caller]
    pub(super) fn claimed(self) -> Claimed {
        let Ok(Answer::Claimed(view)) = self.answer else {
            return self.otherwise("a claim");
        };
        let claim = view.record.claim.as_ref().expect("a claim on record");
        let id = view.record.name.id();
        let number = view.record.attempt.number;
        let bytes = self.token_key.issue_claim(&id, number, claim.fence);
        Claimed {
            name: view.record.name.clone(),
            id: claim.id,
            held: self
                .token_key
                .read_claim(&id, &bytes)
                .expect("a claim just issued"),
            view,
        }
    }

    /// Nobody is granted an attempt now; the record as it is, where there is one.
    #[track_caller]
    pub(super) fn held(self) -> Option<View> {
        match self.answer {
            Ok(Answer::Held(view)) => view.map(|view| *view),
            _ => self.otherwise("held"),
        }
    }

    /// A Sweep was carried out, or there is no record any more.
    #[track_caller]
    pub(super) fn swept(self) {
        match self.answer {
            Ok(Answer::Closed(_)) | Err(Refusal::RecordNotFound) => {}
            _ => self.otherwise("swept"),
        }
    }

    /// The claim is over, and the record reads like this.
    #[track_caller]
    pub(super) fn claim_over(self, state: State) {
        self.refused(Refusal::ClaimOver { state });
    }

    #[track_caller]
    pub(super) fn refused(self, expected: Refusal) {
        match self.answer {
            Err(refusal) if refusal == expected => {}
            _ => self.otherwise(&format!("refused: {expected:?}")),
        }
    }
}
