//! The records that some operations ask for, made before anything is measured.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::caller::Caller;
use super::plan::BUSY_LEASE;
use super::schedule::Window;
use super::tally::{Fault, Tally};
use super::wire::Failure;
use super::world::{Key, World};
use crate::cli::exit::Error;

/// Between two tries of what may pass.
const PAUSE: Duration = Duration::from_millis(50);
/// How often one record is tried.
const TRIES: u32 = 100;
/// How many are made at once.
const AT_ONCE: usize = 64;

/// Makes what the plan needs.
///
/// # Errors
/// Says which call failed and how, or which answer was wrong.
pub(super) async fn prepare(mut world: World) -> Result<World, Error> {
    let keys = world.plan.keys;
    if world.plan.needs_completed() {
        // Not those of hot-key's rounds, which have numbers from 1 on.
        let numbers = (0..keys).map(|number| number as u64 | 1 << 31);
        world.completed = numbers.map(|it| world.result_of(it)).collect();
        world = make(world, keys, Key::Completed).await?;
    }
    if world.plan.needs_held() {
        world.held = keys;
        world = make(world, keys, Key::Held).await?;
    }
    Ok(world)
}

async fn make(world: World, count: usize, key: fn(usize) -> Key) -> Result<World, Error> {
    let world = Rc::new(world);
    // Counted by the same code, and thrown away.
    let window = Window {
        begin: Instant::now(),
        end: None,
        open: false,
    };
    let tally = Rc::new(RefCell::new(Tally::new(window)));
    let next = Rc::new(Cell::new(0));
    let mut callers = JoinSet::new();
    for number in 0..world.plan.concurrency.min(count).min(AT_ONCE) {
        let mut caller = Caller::new(&world, &tally, number);
        let next = Rc::clone(&next);
        callers.spawn_local(async move {
            loop {
                let number = next.replace(next.get() + 1);
                if number >= count {
                    return Ok(());
                }
                persist(&mut caller, key(number)).await?;
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.map_err(|error| Error::Other(error.to_string()))?
            .map_err(|fault| {
                Error::Other(match fault {
                    Fault::Failed(Failure(told)) => format!("making records: {told}"),
                    Fault::Wrong(what) => format!("making records: wrong answer: {what}"),
                })
            })?;
    }
    // All callers are gone, and with them their shares.
    Rc::into_inner(world).ok_or_else(|| Error::Other("making records did not end".to_owned()))
}

/// Tries again what may pass. A try whose answer was lost may have been granted, so each
/// goes for the same key only as long as nothing was granted.
async fn persist(caller: &mut Caller, key: Key) -> Result<(), Fault> {
    let mut tries = 1;
    loop {
        caller.begin(Instant::now());
        match one(caller, key).await {
            Err(Fault::Failed(failure)) if failure.may_pass() && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            end => return end,
        }
    }
}

async fn one(caller: &mut Caller, key: Key) -> Result<(), Fault> {
    let lease = matches!(key, Key::Held(_)).then_some(BUSY_LEASE);
    let acquired = caller.acquire(key, lease).await?;
    if let Key::Completed(number) = key {
        let world = Rc::clone(&caller.world);
        caller
            .report(key, acquired, &world.completed[number])
            .await?;
    }
    Ok(())
}
