//! The words that stand in the file's columns. A word that was released keeps its meaning.

use reprise_domain::decide::{AuditAction, By, Ending, Reported};
use reprise_domain::policy::OnLapse;
use reprise_domain::record::{GivenBack, GrantReason, PendingReason, ReportKind, State};

/// A value that is kept as a word.
pub(super) trait Word: Sized {
    fn word(&self) -> &'static str;
    /// None for a word that means nothing here.
    fn from_word(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($($type:ty { $($value:path = $word:literal,)+ })+) => {$(
        impl Word for $type {
            fn word(&self) -> &'static str {
                match self { $($value => $word,)+ }
            }

            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($value),)+ _ => None }
            }
        }
    )+};
}

words! {
    State {
        State::Processing = "processing",
        State::Pending = "pending",
        State::Completed = "completed",
        State::FailedRetryable = "failed_retryable",
        State::FailedFinal = "failed_final",
    }
    OnLapse {
        OnLapse::Pending = "pending",
        OnLapse::TakeOverUnlessSent = "take_over_unless_sent",
        OnLapse::TakeOver = "take_over",
    }
    GrantReason {
        GrantReason::First = "first",
        GrantReason::AfterRetryableFailure = "after_retryable_failure",
        GrantReason::AfterLapsedLease = "after_lapsed_lease",
        GrantReason::AfterResolution = "after_resolution",
    }
    GivenBack {
        GivenBack::Server = "server",
        GivenBack::Client = "client",
    }
    ReportKind {
        ReportKind::Completed = "completed",
        ReportKind::FailedRetryable = "failed_retryable",
        ReportKind::FailedFinal = "failed_final",
    }
    PendingReason {
        PendingReason::Reported = "reported",
        PendingReason::LeaseExpired = "lease_expired",
        PendingReason::LeaseExpiredAfterSending = "lease_expired_after_sending",
        PendingReason::EarlierAttemptUnknown = "earlier_attempt_unknown",
        PendingReason::ContradictoryReports = "contradictory_reports",
    }
    Ending {
        Ending::Lapsed = "lapsed",
        Ending::FailedRetryable = "failed_retryable",
        Ending::GivenBack = "given_back",
        Ending::Resolved = "resolved",
    }
    By {
        By::Caller = "caller",
        By::Claim = "claim",
        By::Operator = "operator",
    }
    AuditAction {
        AuditAction::TakenOver = "taken_over",
        AuditAction::Contradicted = "contradicted",
        AuditAction::ContradictsResolution = "contradicts_resolution",
        AuditAction::ResolvedApplied = "resolved_applied",
        AuditAction::ResolvedNotApplied = "resolved_not_applied",
        AuditAction::ResolvedTakeOver = "resolved_take_over",
        AuditAction::ResolvedFailed = "resolved_failed",
        AuditAction::ResolvedStillUnknown = "resolved_still_unknown",
        AuditAction::ContradictsReport = "contradicts_report",
        AuditAction::Forgotten = "forgotten",
    }
}

impl Word for Reported {
    fn word(&self) -> &'static str {
        match self {
            Self::Outcome(kind) => kind.word(),
            Self::Pending => "pending",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word {
            "pending" => Some(Self::Pending),
            _ => ReportKind::from_word(word).map(Self::Outcome),
        }
    }
}
