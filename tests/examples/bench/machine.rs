//! The machine that was measured on, and where on it the databases lie.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// CPU, memory, kernel, file system; null for what the machine does not tell.
pub(crate) fn describe() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mounts = read("/proc/self/mounts");
    json!({
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "cores": cores(),
        "memory_mb": field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|it| it.trim_end_matches("kB").trim().parse::<u64>().ok())
            .map(|kilobytes| kilobytes / 1024),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "file_system": file_system(&mounts, &std::env::temp_dir()),
    })
}

/// Processors that this process may run on.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The kind of file system that `path` is on, of the lines of `/proc/self/mounts`.
fn file_system(mounts: &str, path: &Path) -> Option<String> {
    let mounted = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        path.starts_with(at).then(|| (at.len(), kind.to_owned()))
    };
    // The longest, and of equals the last: it covers those before it.
    let best = mounts.lines().filter_map(mounted).max_by_key(|it| it.0)?;
    Some(best.1)
}

/// Has temporary files made on a disk: syncing costs nothing in memory, so databases there
/// would be measured as no database is.
///
/// # Errors
/// When there is no such directory.
pub(crate) fn scratch_on_disk() -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    for directory in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        let on = file_system(&mounts, &directory).unwrap_or_default();
        if !matches!(on.as_str(), "" | "tmpfs" | "ramfs") {
            // The first to set it; nobody else in this program does.
            tempfile::env::override_temp_dir(&directory).ok();
            return Ok(());
        }
    }
    bail!("neither TMPDIR nor /var/tmp is on a disk: set TMPDIR to a directory that is")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{field, file_system};

    const MOUNTS: &str = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n\
        /dev/vdb /tmp/disk xfs rw 0 0\n";

    #[test]
    fn the_innermost_mount_counts() {
        let on = |path| file_system(MOUNTS, Path::new(path));
        assert_eq!(on("/var/tmp").as_deref(), Some("ext4"));
        assert_eq!(on("/tmp/x").as_deref(), Some("tmpfs"));
        assert_eq!(on("/tmp/disk/x").as_deref(), Some("xfs"));
        assert_eq!(on("/tmpfoo").as_deref(), Some("ext4"));
        assert_eq!(on("relative"), None);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: EPYC\n";
        assert_eq!(field(text, "model name").as_deref(), Some("EPYC"));
        assert_eq!(field(text, "name"), None);
    }
}
