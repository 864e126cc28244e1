//! Takes log lines in without waiting and writes them in a thread of their own. Where that
//! is slower than lines come, or its reader stopped reading, lines are left out and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogFormat;

/// Lines that may wait to be written.
const WAITING_MAX: usize = 1024;
/// Bytes of one line; the rest of it is cut off.
const LINE_MAX: usize = 16 * 1024;
/// How often it is told that lines were left out.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The process' own, for its end.
static STARTED: OnceLock<Lines> = OnceLock::new();

#[derive(Clone)]
pub(super) struct Lines {
    queue: SyncSender<Entry>,
    left_out: Arc<AtomicU64>,
}

enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Lines {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(format: LogFormat, out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, entries) = sync_channel(WAITING_MAX);
        let left_out = Arc::new(AtomicU64::new(0));
        let lines = Self {
            queue,
            left_out: Arc::clone(&left_out),
        };
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write(&entries, &left_out, format, out))?;
        let _ = STARTED.set(lines.clone());
        Ok(lines)
    }

    pub(super) fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until all lines up to now are written, at most for `time`.
pub(super) fn flush(time: Duration) {
    let Some(lines) = STARTED.get() else { return };
    let until = Instant::now() + time;
    let (done, written) = sync_channel(1);
    let mut entry = Entry::Flush(done);
    // The queue may be full: its reader has time to make room.
    while let Err(TrySendError::Full(back)) = lines.queue.try_send(entry) {
        if Instant::now() >= until {
            return;
        }
        entry = back;
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
}

/// Goes on until the last [`Lines`] is gone. What `out` refuses is lost: there is nobody
/// left to tell.
fn write(entries: &Receiver<Entry>, left_out: &AtomicU64, format: LogFormat, mut out: impl Write) {
    let mut told = Instant::now();
    loop {
        let entry = entries.recv_timeout(TELL_EVERY);
        let ending = matches!(
            entry,
            Ok(Entry::Flush(_)) | Err(RecvTimeoutError::Disconnected)
        );
        if ending || told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            match left_out.swap(0, Ordering::Relaxed) {
                0 => {}
                count => drop(out.write_all(summary(count, format).as_bytes())),
            }
        }
        match entry {
            Ok(Entry::Line(line)) => drop(out.write_all(&line)),
            Ok(Entry::Flush(done)) => {
                let _ = out.flush();
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn summary(count: u64, format: LogFormat) -> String {
    const WHY: &str = "log lines were left out: too many of a kind at once, or too slow a reader";
    match format {
        LogFormat::Human => format!("WARN {count} {WHY}\n"),
        LogFormat::Json => {
            format!("{{\"level\":\"WARN\",\"message\":\"{WHY}\",\"left_out\":{count}}}\n")
        }
    }
}

/// One line in the making.
pub(super) struct Line {
    bytes: Vec<u8>,
    lines: Lines,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            bytes: Vec::new(),
            lines: self.clone(),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LINE_MAX.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.bytes.len() >= LINE_MAX {
            self.bytes.truncate(LINE_MAX - 1);
            self.bytes.push(b'\n');
        }
        let line = Entry::Line(std::mem::take(&mut self.bytes));
        if self.lines.queue.try_send(line).is_err() {
            self.lines.leave_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Holds everything back until it is opened.
    #[derive(Clone)]
    struct Pipe {
        gate: Arc<Mutex<()>>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _open = self.gate.lock().unwrap();
            self.taken.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn say(lines: &Lines, text: &str) {
        lines.make_writer().write_all(text.as_bytes()).unwrap();
    }

    fn wait(lines: &Lines) {
        let (done, written) = sync_channel(1);
        lines.queue.send(Entry::Flush(done)).unwrap();
        written.recv().unwrap();
    }

    #[test]
    fn a_reader_that_stopped_holds_nobody_up_and_hears_how_much_it_missed() {
        let pipe = Pipe {
            gate: Arc::default(),
            taken: Arc::default(),
        };
        let lines = Lines::start(LogFormat::Human, pipe.clone()).unwrap();
        let closed = pipe.gate.lock().unwrap();
        for _ in 0..WAITING_MAX + 100 {
            say(&lines, "line\n");
        }
        drop(closed);
        wait(&lines);
        let taken = pipe.taken.lock().unwrap();
        let taken = String::from_utf8_lossy(&taken);
        let written = taken.lines().filter(|line| *line == "line").count();
        let missed: usize = taken
            .lines()
            .filter_map(|line| {
                line.strip_prefix("WARN ")?
                    .split(' ')
                    .next()?
                    .parse::<usize>()
                    .ok()
            })
            .sum();
        assert!(missed >= 99, "{missed}");
        assert_eq!(written + missed, WAITING_MAX + 100);
    }

    #[test]
    fn a_closed_reader_is_no_fault_and_an_endless_line_is_cut() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let lines = Lines::start(LogFormat::Json, Closed).unwrap();
        say(&lines, "line\n");
        wait(&lines);
        let pipe = Pipe {
            gate: Arc::default(),
            taken: Arc::default(),
        };
        let lines = Lines::start(LogFormat::Json, pipe.clone()).unwrap();
        say(&lines, &"x".repeat(LINE_MAX * 2));
        wait(&lines);
        let taken = pipe.taken.lock().unwrap();
        assert_eq!(taken.len(), LINE_MAX);
        assert_eq!(taken.last(), Some(&b'\n'));
    }
}
