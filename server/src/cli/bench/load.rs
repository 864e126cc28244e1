//! Makes the load: callers that begin their next operation when their last is over, or at
//! a rate. Knows not what an operation does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_local};

use super::caller::Caller;
use super::cpu;
use super::plan::Until;
use super::progress;
use super::schedule::{Schedule, Window};
use super::tally::Tally;
use super::world::World;
use crate::cli::exit::Error;

/// Least time between two looks at what is due: many that are due at once cost one wake-up.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// What a run came to.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) tally: Tally,
    /// The measured time.
    pub(super) measured: Duration,
    /// CPU time in the measured time; none where the system does not tell.
    pub(super) cpu: Option<Duration>,
    /// CPU time from the warm-up to the end.
    pub(super) cpu_all: Option<Duration>,
    /// Operations of an open loop that were due in the measured time and never begun.
    pub(super) missed: u64,
}

/// Carries the plan out, and returns when no operation is under way any more.
pub(super) async fn run(world: &Rc<World>, show: bool) -> Result<Done, Error> {
    let plan = &world.plan;
    let start = Instant::now();
    let begin = start + plan.warm_up;
    let end = match plan.until {
        Until::Time(time) => Some(begin + time),
        Until::Count(_) => None,
    };
    let window = Window {
        begin,
        end,
        open: plan.rate.is_some(),
    };
    let tally = Rc::new(RefCell::new(Tally::new(window)));
    let cpu_at_start = cpu::used();
    let cpu_at_begin = cpu_at(Some(begin));
    let cpu_at_end = cpu_at(end);
    let progress = show.then(|| spawn_local(progress::draw(Rc::clone(&tally), start, window)));

    let missed = match plan.rate {
        None => {
            let turns = Rc::new(Closed::new(window, plan.until));
            let next = async |turns: &Closed| turns.next();
            call(world, &tally, &turns, next).await?;
            0
        }
        Some(rate) => {
            let schedule = Schedule::new(start, rate);
            let turns = Rc::new(Open::new(schedule, window, plan.until));
            let pacer = turns.pace(plan.concurrency);
            call(world, &tally, &turns, Open::next).await?;
            // It is done when the last operation is due.
            let paced = pacer.join();
            paced.map_err(|_| Error::Other("the clock of the load ended".to_owned()))?;
            turns.missed()
        }
    };

    if let Some(progress) = progress {
        progress.abort();
        // Its line is gone when it is.
        let _aborted = progress.await;
    }
    let cpu_at_close = cpu::used();
    let tally = Rc::into_inner(tally).ok_or_else(|| Error::Other("a caller goes on".to_owned()))?;
    let tally = tally.into_inner();
    let since = |later: Option<Duration>, earlier| Some(later?.saturating_sub(earlier?));
    let at_end = match end {
        Some(_) => cpu_at_end.get(),
        None => cpu_at_close,
    };
    Ok(Done {
        measured: end.unwrap_or(tally.last) - begin,
        cpu: since(at_end, cpu_at_begin.get()),
        cpu_all: since(cpu_at_close, cpu_at_start),
        missed,
        tally,
    })
}

/// CPU time used until a moment that is to come.
fn cpu_at(moment: Option<Instant>) -> Rc<Cell<Option<Duration>>> {
    let used = Rc::new(Cell::new(None));
    if let Some(moment) = moment {
        let used = Rc::clone(&used);
        spawn_local(async move {
            tokio::time::sleep_until(moment.into()).await;
            used.set(cpu::used());
        });
    }
    used
}

/// Has all callers operate until `next` says that there is no turn any more. It says when
/// the operation of a turn was due.
async fn call<T: 'static>(
    world: &Rc<World>,
    tally: &Rc<RefCell<Tally>>,
    turns: &Rc<T>,
    next: impl AsyncFn(&T) -> Option<Instant> + Copy + 'static,
) -> Result<(), Error> {
    let mut callers = JoinSet::new();
    for number in 0..world.plan.concurrency {
        let mut caller = Caller::new(world, tally, number);
        let turns = Rc::clone(turns);
        callers.spawn_local(async move {
            while let Some(due) = next(&turns).await {
                let mix = caller.world.plan.mixes.draw();
                caller.operate(mix, due).await;
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.map_err(|error| Error::Other(error.to_string()))?;
    }
    Ok(())
}

/// Turns of a closed loop: there is always one, until the end.
struct Closed {
    window: Window,
    /// Of the measured operations, those to begin; none without a count.
    left: Cell<Option<u64>>,
}

impl Closed {
    fn new(window: Window, until: Until) -> Closed {
        let left = match until {
            Until::Time(_) => None,
            Until::Count(count) => Some(count),
        };
        Closed {
            window,
            left: Cell::new(left),
        }
    }

    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.window.end.is_some_and(|end| now >= end) {
            return None;
        }
        if let Some(left) = self.left.get()
            && now >= self.window.begin
        {
            self.left.set(Some(left.checked_sub(1)?));
        }
        Some(now)
    }
}

/// Turns of an open loop: one each time that an operation is due, whoever takes it.
struct Open {
    schedule: Schedule,
    window: Window,
    /// How many operations there are, with the warm-up.
    all: u64,
    /// How many were handed out, and how many of them are begun.
    handed: Cell<u64>,
    begun: Cell<u64>,
    /// A permit for each operation that is due.
    due: Arc<Semaphore>,
}

impl Open {
    fn new(schedule: Schedule, window: Window, until: Until) -> Open {
        let all = match (until, window.end) {
            (Until::Count(count), _) => schedule.due_before(window.begin) + count,
            (Until::Time(_), end) => schedule.due_before(end.unwrap_or(window.begin)),
        };
        Open {
            schedule,
            window,
            all,
            handed: Cell::new(0),
            begun: Cell::new(0),
            due: Arc::new(Semaphore::new(0)),
        }
    }

    async fn next(&self) -> Option<Instant> {
        // Never closed, so there is always a permit in the end.
        self.due.acquire().await.ok()?.forget();
        let number = self.handed.replace(self.handed.get() + 1);
        let over = self.window.end.is_some_and(|end| Instant::now() >= end);
        if number >= self.all || over {
            return None;
        }
        self.begun.set(number + 1);
        Some(self.schedule.due(number))
    }

    /// Lets go what is due, and after the last as many more as there are `callers`, each of
    /// whom learns so that it is over. A thread of its own, since the runtime's timers are
    /// right to a millisecond only.
    fn pace(&self, callers: usize) -> thread::JoinHandle<()> {
        let (schedule, all, due) = (self.schedule, self.all, Arc::clone(&self.due));
        thread::spawn(move || {
            let mut let_go = 0;
            while let_go < all {
                let now = Instant::now();
                // With the one that is due right now.
                let target = schedule.due_before(now + Duration::from_nanos(1)).min(all);
                due.add_permits(usize::try_from(target - let_go).unwrap_or_default());
                let_go = target;
                let rest = schedule.due(let_go).saturating_duration_since(now);
                if let_go < all {
                    thread::sleep(rest.max(LOOK_EVERY));
                }
            }
            due.add_permits(callers);
        })
    }

    /// How many were due in the measured time and not begun. Those of a count are all.
    fn missed(&self) -> u64 {
        let first = self.schedule.due_before(self.window.begin);
        self.all.saturating_sub(self.begun.get().max(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn open(until: Until) -> Open {
        let begin = Instant::now() + SECOND * 100;
        let end = match until {
            Until::Time(time) => Some(begin + time),
            Until::Count(_) => None,
        };
        let window = Window {
            begin,
            end,
            open: true,
        };
        // Of the warm-up are 20.
        Open::new(Schedule::new(begin - SECOND * 2, 10.0), window, until)
    }

    #[tokio::test]
    async fn an_open_loop_has_a_turn_for_each_that_is_due() {
        let turns = open(Until::Count(5));
        assert_eq!((turns.all, turns.missed()), (25, 5));
        turns.due.add_permits(26);
        for number in 0..25 {
            assert_eq!(turns.next().await, Some(turns.schedule.due(number)));
        }
        assert_eq!(turns.next().await, None);
        assert_eq!(turns.missed(), 0);
    }

    #[tokio::test]
    async fn what_nobody_was_free_for_is_missed() {
        let turns = open(Until::Time(SECOND));
        turns.due.add_permits(24);
        for _ in 0..24 {
            assert!(turns.next().await.is_some());
        }
        assert_eq!((turns.all, turns.missed()), (30, 6));
    }

    #[tokio::test]
    async fn the_pacer_lets_all_go_and_then_each_caller() {
        let window = Window {
            begin: Instant::now(),
            end: None,
            open: true,
        };
        let schedule = Schedule::new(window.begin, 1e6);
        let turns = Open::new(schedule, window, Until::Count(100));
        turns.pace(3).join().expect("an end");
        assert_eq!(turns.due.available_permits(), 103);
    }

    #[test]
    fn a_closed_loop_counts_after_its_warm_up() {
        let now = Instant::now();
        let window = |begin| Window {
            begin,
            end: None,
            open: false,
        };
        let turns = Closed::new(window(now), Until::Count(2));
        assert!(turns.next().is_some() && turns.next().is_some());
        assert_eq!(turns.next(), None);
        let warming_up = Closed::new(window(now + SECOND * 100), Until::Count(1));
        assert!((0..5).all(|_| warming_up.next().is_some()));
    }
}
