//! What Linux tells about running processes: CPU time and resident memory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// CPU time, user and system, of a process and of those of its children that have ended, in
/// clock ticks; and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    own: u64,
    ended_children: u64,
}

/// Of `/proc/PID/stat`, see proc(5).
fn parse_stat(text: &str) -> Option<Stat> {
    // The name before it stands in parentheses and may hold any character.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // The third field of the manual's count is the first here.
    let number = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        own: number(14)? + number(15)?,
        ended_children: number(16)? + number(17)?,
    })
}

/// Resident memory in bytes, of `/proc/PID/status`.
fn parse_rss(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn stat(pid: u32) -> Result<Stat> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    parse_stat(&text).context(path)
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// CPU time of a process since its start, in seconds.
///
/// # Errors
/// When it is gone.
pub(crate) fn cpu_s(pid: u32) -> Result<f64> {
    Ok(seconds(stat(pid)?.own))
}

/// CPU time of a process, of its children and of those that have ended, in seconds: of a
/// PostgreSQL server, with all its sessions.
///
/// # Errors
/// When it is gone.
pub(crate) fn family_cpu_s(pid: u32) -> Result<f64> {
    let parent = stat(pid)?;
    let mut ticks = parent.own + parent.ended_children;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ended meanwhile is its parent's matter.
        ticks += stat(child).map_or(0, |it| if it.parent == pid { it.own } else { 0 });
    }
    Ok(seconds(ticks))
}

/// Resident memory of a process, in bytes.
///
/// # Errors
/// When it is gone.
pub(crate) fn rss(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(Path::new(&path)).with_context(|| path.clone())?;
    parse_rss(&text).context(path)
}

#[cfg(test)]
mod tests {
    use super::{Stat, cpu_s, family_cpu_s, parse_rss, parse_stat, rss};

    #[test]
    fn cpu_time_is_found_whatever_the_process_is_called() {
        let line = "4711 (a (b) 1 2 3) S 42 4711 4711 0 -1 4194560 1 2 3 4 100 20 7 3 20 0 1 0 5 6";
        let expected = Stat {
            parent: 42,
            own: 120,
            ended_children: 10,
        };
        assert_eq!(parse_stat(line), Some(expected));
        assert_eq!(parse_stat("4711 (short) S 42"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn resident_memory_is_in_kilobytes() {
        let status = "Name:\treprise\nVmHWM:\t  9000 kB\nVmRSS:\t    2048 kB\nThreads:\t4\n";
        assert_eq!(parse_rss(status), Some(2048 * 1024));
        assert_eq!(parse_rss("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn this_process_can_be_read() -> anyhow::Result<()> {
        let pid = std::process::id();
        assert!(family_cpu_s(pid)? >= cpu_s(pid)?);
        assert!(rss(pid)? > 0);
        Ok(())
    }
}
