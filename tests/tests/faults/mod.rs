//! What must hold while things go wrong: storms, lost answers, hang-ups, kills, stuck
//! rows, silence. The real program, on both of its stores.
//!
//! A call that no error may meet goes out as a raw rpc, sent once: the client would
//! repeat it and hide the fault. Where the client's repeating is the point, it is used.

/// Makes each claim a test on each store.
macro_rules! on_both_stores {
    ($($claim:ident)+) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $claim() -> anyhow::Result<()> {
                super::$claim($crate::faults::site::Backend::Embedded).await
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $claim() -> anyhow::Result<()> {
                super::$claim($crate::faults::site::Backend::Postgres).await
            })+
        }
    };
}

mod calls;
mod ledger;
mod site;

mod bodies;
mod bounded;
mod drain;
mod hung_up;
mod load;
mod lost_answers;
mod restart;
mod silence;
mod storms;
mod stuck_row;
mod waiting;
mod workers;
