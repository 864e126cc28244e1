//! What every store must do, each case written once and run on all of them.
//!
//! A case is an async function over a [`Case`]. A module lists its cases in [`stamp!`],
//! which makes a test of each on each backend: `conformance::<module>::<backend>::<case>`.
//! A case that is not listed is dead code, and the lints refuse it. The expectations are
//! those of the contract's tables; how a store gets there is not looked at.

mod backend;
mod case;
mod finding;
mod told;

/// Makes a test of each case on each backend.
macro_rules! stamp {
    ($($case:ident),+ $(,)?) => {
        stamp!(@on embedded Embedded $($case)+);
        stamp!(@on postgres_15 Postgres15 $($case)+);
        stamp!(@on postgres_18 Postgres18 $($case)+);
        stamp!(@on pgbouncer PgBouncer $($case)+);
        stamp!(@on postgres_15_slow_path Postgres15SlowPath $($case)+);
    };
    (@on $module:ident $backend:ident $($case:ident)+) => {
        mod $module {
            use crate::conformance::backend::{Backend, run};
            $(
                #[test]
                fn $case() {
                    run(Backend::$backend, super::$case);
                }
            )+
        }
    };
}

/// As [`stamp!`], each case on a database of its own: for what goes over all records.
macro_rules! stamp_alone {
    ($($case:ident),+ $(,)?) => {
        stamp_alone!(@on embedded Embedded $($case)+);
        stamp_alone!(@on postgres_15 Postgres15 $($case)+);
        stamp_alone!(@on postgres_18 Postgres18 $($case)+);
        stamp_alone!(@on pgbouncer PgBouncer $($case)+);
        stamp_alone!(@on postgres_15_slow_path Postgres15SlowPath $($case)+);
    };
    (@on $module:ident $backend:ident $($case:ident)+) => {
        mod $module {
            use crate::conformance::backend::{Backend, run_alone};
            $(
                #[test]
                fn $case() {
                    run_alone(Backend::$backend, super::$case);
                }
            )+
        }
    };
}

mod audit;
mod batches;
mod bodies;
mod claims;
mod contradictions;
mod embedded_file;
mod find;
mod fingerprints;
mod forget;
mod give_back;
mod hold;
mod lapse;
mod lists;
mod mismatches;
mod names;
mod paths;
mod policies;
mod races_with_claims;
mod records;
mod removal;
mod reports_after_failure;
mod reports_after_outcome;
mod reports_while_open;
mod reserve;
mod resolve;
mod resolve_by_claim;
mod retention;
mod stale_tokens;
mod suite;
mod sweep;
mod traces;
