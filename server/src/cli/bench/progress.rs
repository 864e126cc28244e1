//! A line on the terminal that says how a run goes, once a second.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::schedule::Window;
use super::tally::Tally;

const EVERY: Duration = Duration::from_secs(1);

/// Whether anybody would see it, and wants to.
pub(super) fn is_wanted(quiet: bool, json: bool) -> bool {
    let for_a_program = json && !io::stdout().is_terminal();
    io::stderr().is_terminal() && !quiet && !for_a_program
}

/// Draws until it is dropped, then wipes.
pub(super) async fn draw(tally: Rc<RefCell<Tally>>, start: Instant, window: Window) {
    let _wipe = Wipe;
    let mut last = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        let (all, faults) = {
            let tally = tally.borrow();
            (tally.all, tally.faults())
        };
        let line = line(start.elapsed(), Instant::now(), window, all - last, faults);
        last = all;
        // Who closed standard error does not want to know.
        let _ = write!(io::stderr(), "\r\u{1b}[K{line}");
    }
}

fn line(since: Duration, now: Instant, window: Window, rate: u64, faults: u64) -> String {
    let stage = if now < window.begin {
        "warming up"
    } else if window.end.is_some_and(|end| now >= end) {
        "waiting for what is under way"
    } else {
        "measuring"
    };
    let faults = match faults {
        0 => String::new(),
        faults => format!(", {faults} failed"),
    };
    format!(
        "{} s, {stage}: {rate} operations/s{faults}",
        since.as_secs()
    )
}

struct Wipe;

impl Drop for Wipe {
    fn drop(&mut self) {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_stage_and_what_failed() {
        let begin = Instant::now();
        let second = Duration::from_secs(1);
        let window = Window {
            begin,
            end: Some(begin + second),
            open: false,
        };
        let line = |now, faults| line(second * 3, now, window, 7, faults);
        assert_eq!(line(begin - second, 0), "3 s, warming up: 7 operations/s");
        assert_eq!(line(begin, 2), "3 s, measuring: 7 operations/s, 2 failed");
        assert_eq!(
            line(begin + second, 0),
            "3 s, waiting for what is under way: 7 operations/s"
        );
    }
}
