//! The CPU time that this process has used.

use std::time::Duration;

/// Length of a tick of `/proc`, the same on all Linux machines (`USER_HZ`, see proc(5)).
const TICK: Duration = Duration::from_millis(10);

/// User and system time of all threads, in steps of 10 ms. None where the system does not
/// tell.
pub(super) fn used() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    in_stat(&stat)
}

/// Fields 14 and 15. The second is a name in brackets that may hold anything.
fn in_stat(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.checked_add(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 123 77 9 9 20 0 1 0 5 1 1";
        assert_eq!(in_stat(stat), Some(Duration::from_secs(2)));
        assert_eq!(in_stat("nothing"), None);
    }
}
