//! A line on the terminal that says how far a long command is. Elsewhere nothing.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 30;

/// Draws on standard error where that is a terminal; gone when it is dropped.
pub(super) struct Progress {
    drawn: Option<Instant>,
    on: bool,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let on = io::stderr().is_terminal();
        Progress { drawn: None, on }
    }

    /// Draws, unless it did a moment ago.
    pub(super) fn draw(&mut self, done: usize, all: usize, beside: &str) {
        let soon = self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE);
        if !self.on || soon {
            return;
        }
        self.drawn = Some(Instant::now());
        // Who closed standard error does not want to know.
        let _ = write!(io::stderr(), "\r\u{1b}[K{} {beside}", bar(done, all));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

fn bar(done: usize, all: usize) -> String {
    let full = (done * WIDTH).checked_div(all).unwrap_or(WIDTH).min(WIDTH);
    let (full, rest) = ("#".repeat(full), ".".repeat(WIDTH - full));
    format!("[{full}{rest}] {done} of {all}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        assert_eq!(bar(0, 4), format!("[{}] 0 of 4", ".".repeat(30)));
        let half = format!("[{}{}] 2 of 4", "#".repeat(15), ".".repeat(15));
        assert_eq!(bar(2, 4), half);
        assert_eq!(bar(0, 0), format!("[{}] 0 of 0", "#".repeat(30)));
    }
}
