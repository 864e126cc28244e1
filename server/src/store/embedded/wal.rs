//! Reads SQLite's write-ahead log before SQLite does, which takes the first frame that
//! does not fit for the end of it, and so would drop all that was acknowledged after a
//! damaged one. Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.
//!
//! It knows nothing of what the pages hold.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::disk::UNSYNCED_MAX;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Its last bit tells that checksums take words as big-endian.
const MAGIC: u32 = 0x377f_0682;

/// Where the log is damaged: the byte at which the first frame stands that does not fit,
/// although it was synced. None for a log that is whole, empty or not there.
///
/// A commit is synced before the next but one begins ([`UNSYNCED_MAX`]). So a crash can tear
/// the frames of the last transactions only, and those were not acknowledged.
pub(super) fn damage(path: &Path) -> io::Result<Option<u64>> {
    match File::open(path) {
        Ok(file) => scan(BufReader::new(file)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn scan(mut log: impl BufRead) -> io::Result<Option<u64>> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let Some(Header {
        page,
        big_endian,
        salts,
        mut sum,
    }) = Header::read(&header)
    else {
        // Made longer, but never written: a crash before the first sync.
        let blank = header == [0; HEADER] && all_zero(log)?;
        return Ok((!blank).then_some(0));
    };
    let mut frame = vec![0; FRAME_HEADER + page];
    let mut at = HEADER as u64;
    let mut misfit = None;
    let mut commits_since = 0;
    while fill(&mut log, &mut frame)? {
        let ours = frame[8..16] == salts;
        if let Some(misfit) = misfit {
            if ours && commits_since >= UNSYNCED_MAX {
                return Ok(Some(misfit));
            }
        } else {
            sum = checksum(sum, &frame[..8], big_endian);
            sum = checksum(sum, &frame[FRAME_HEADER..], big_endian);
            let fits = sum == (word(&frame, 16), word(&frame, 20));
            match (ours, fits) {
                (true, true) => {}
                // The checksum goes on from the frames before it, so the frame was written
                // here. Its salts were damaged.
                (false, true) => return Ok(Some(at)),
                (_, false) => misfit = Some(at),
            }
        }
        // Only a commit has the size of the file.
        commits_since += u64::from(misfit.is_some() && ours && word(&frame, 4) != 0);
        at += frame.len() as u64;
    }
    Ok(None)
}

struct Header {
    page: usize,
    big_endian: bool,
    /// Other ones for each time that the log begins anew.
    salts: [u8; 8],
    /// The frames' checksums go on from it.
    sum: (u32, u32),
}

impl Header {
    fn read(bytes: &[u8; HEADER]) -> Option<Self> {
        let magic = word(bytes, 0);
        let page = word(bytes, 8);
        let big_endian = magic & 1 == 1;
        let sum = checksum((0, 0), &bytes[..24], big_endian);
        let valid = magic & !1 == MAGIC
            && page.is_power_of_two()
            && (512..=65_536).contains(&page)
            && sum == (word(bytes, 24), word(bytes, 28));
        valid.then(|| Self {
            page: page as usize,
            big_endian,
            salts: std::array::from_fn(|at| bytes[16 + at]),
            sum,
        })
    }
}

/// SQLite's own, over an even number of words.
fn checksum(mut sum: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let value = |at| match big_endian {
            true => word(pair, at),
            false => word(pair, at).swap_bytes(),
        };
        sum.0 = sum.0.wrapping_add(value(0)).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(value(4)).wrapping_add(sum.0);
    }
    sum
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// Fills `buffer`; false when the log ends before.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(end) if end.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(cause) => Err(cause),
    }
}

fn all_zero(log: impl BufRead) -> io::Result<bool> {
    for byte in log.bytes() {
        if byte? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use rusqlite::Connection;

    use super::*;

    const FRAME: usize = FRAME_HEADER + 4096;

    /// The log of ten transactions.
    fn log() -> Result<Vec<u8>> {
        let home = tempfile::tempdir()?;
        let connection = Connection::open(home.path().join("store"))?;
        connection.execute_batch("pragma journal_mode = wal; create table t (v blob)")?;
        for _ in 0..9 {
            connection.execute("insert into t values (randomblob(6000))", [])?;
        }
        Ok(std::fs::read(home.path().join("store-wal"))?)
    }

    /// Where the frames of the last transactions begin, which a crash can tear.
    fn last_transactions(log: &[u8]) -> usize {
        let commits = (HEADER..log.len())
            .step_by(FRAME)
            .filter(|at| word(log, at + 4) != 0);
        let unsynced = usize::try_from(UNSYNCED_MAX).expect("few");
        commits.rev().nth(unsynced).expect("ten commits") + FRAME
    }

    #[test]
    fn a_whole_log_is_accepted() -> Result<()> {
        assert_eq!(scan(&log()?[..])?, None);
        assert_eq!(scan(&[][..])?, None);
        assert_eq!(scan(&[0; 5000][..])?, None);
        Ok(())
    }

    #[test]
    fn any_damage_before_the_last_transactions_is_found() -> Result<()> {
        let whole = log()?;
        let last = last_transactions(&whole);
        for frame in (HEADER..last).step_by(FRAME) {
            // Page, a salt, checksum, content. A commit's size that turned 0 is not sure.
            for at in [3, 8, 15, 16, 23, 24, FRAME - 1] {
                let mut log = whole.clone();
                log[frame + at] ^= 1;
                assert_eq!(scan(&log[..])?, Some(frame as u64), "{frame} + {at}");
            }
        }
        for at in 0..HEADER {
            let mut log = whole.clone();
            log[at] ^= 4;
            assert_eq!(scan(&log[..])?, Some(0), "header {at}");
        }
        Ok(())
    }

    #[test]
    fn torn_last_transactions_are_accepted() -> Result<()> {
        let whole = log()?;
        let last = last_transactions(&whole);
        for end in (last..whole.len()).step_by(1000) {
            assert_eq!(scan(&whole[..end])?, None, "cut at {end}");
        }
        // Its frames reach the disk in any order.
        for frame in (last..whole.len()).step_by(FRAME) {
            let mut log = whole.clone();
            log[frame..frame + FRAME].fill(0);
            assert_eq!(scan(&log[..])?, None, "hole at {frame}");
        }
        Ok(())
    }

    #[test]
    fn frames_of_an_earlier_round_are_no_damage() -> Result<()> {
        let (mut log, earlier) = (log()?, log()?);
        log.extend_from_slice(&earlier[HEADER..]);
        assert_eq!(scan(&log[..])?, None);
        Ok(())
    }
}
