//! One key that all callers ask for: what is known of it, and how the answers are judged.

use std::cell::Cell;

use reprise_client::proto::Content;

use super::tally::Fault;
use super::wire::Failure;

/// The life of one hot key.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: u64,
    /// What its winner completes it with.
    pub(super) result: Content,
    granted: Cell<bool>,
    /// A Complete was sent.
    reported: Cell<bool>,
    /// A call about it has no answer: what became of its attempt is not known.
    unsure: Cell<bool>,
}

impl Round {
    pub(super) fn new(number: u64, result: Content) -> Round {
        Round {
            number,
            result,
            granted: Cell::new(false),
            reported: Cell::new(false),
            unsure: Cell::new(false),
        }
    }

    /// A caller was granted the key.
    pub(super) fn grant(&self) -> Result<(), Fault> {
        match self.granted.replace(true) {
            true => Err(Fault::Wrong("a key that was granted twice")),
            false => Ok(()),
        }
    }

    /// The winner is about to report.
    pub(super) fn report(&self) {
        self.reported.set(true);
    }

    /// A call had no answer.
    pub(super) fn lose(&self) {
        self.unsure.set(true);
    }

    /// A caller was answered the result.
    pub(super) fn replay(&self, result: Option<&Content>) -> Result<(), Fault> {
        if !self.reported.get() {
            return Err(Fault::Wrong("a result that nobody reported"));
        }
        match result == Some(&self.result) {
            true => Ok(()),
            false => Err(Fault::Wrong("a replay that differs from the first result")),
        }
    }

    /// A caller was answered that the outcome is not known: true only where a call was
    /// lost, whose attempt nobody may have ended.
    pub(super) fn pending(&self) -> Fault {
        match self.unsure.get() {
            true => Fault::Failed(Failure("OK PENDING".to_owned())),
            false => Fault::Wrong("a key that is pending although its attempt goes on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(code: &str) -> Content {
        Content {
            code: code.to_owned(),
            ..Content::default()
        }
    }

    #[test]
    fn one_grant_and_then_its_result_for_all() {
        let round = Round::new(1, content("one"));
        assert_eq!(
            round.replay(Some(&content("one"))),
            Err(Fault::Wrong("a result that nobody reported"))
        );
        assert_eq!(round.grant(), Ok(()));
        assert_eq!(
            round.grant(),
            Err(Fault::Wrong("a key that was granted twice"))
        );
        round.report();
        assert_eq!(round.replay(Some(&content("one"))), Ok(()));
        for other in [Some(&content("two")), None] {
            assert_eq!(
                round.replay(other),
                Err(Fault::Wrong("a replay that differs from the first result"))
            );
        }
    }

    #[test]
    fn pending_is_wrong_unless_a_call_was_lost() {
        let round = Round::new(1, content("one"));
        assert!(matches!(round.pending(), Fault::Wrong(_)));
        round.lose();
        assert!(matches!(round.pending(), Fault::Failed(_)));
    }
}
