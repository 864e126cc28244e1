//! What only a file can suffer: a second opener, damage, a clock that was set back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use reprise::store::embedded::{Embedded, OpenError, Options};
use reprise::store::{Error, TestClock};
use reprise_domain::{Command, Reading, RecordId, Timestamp};
use tempfile::TempDir;
use tokio::sync::mpsc::unbounded_channel;

use super::case::{Case, result, secs};

const NOON: Timestamp = Timestamp(1_780_000_000_000_000);

/// A directory for one store, which may be opened many times.
struct Home {
    directory: TempDir,
    clock: TestClock,
}

impl Home {
    fn new() -> Result<Self> {
        Ok(Self {
            directory: tempfile::tempdir()?,
            clock: TestClock::at(NOON),
        })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn open(&self) -> Result<Embedded, OpenError> {
        open(&self.path(), &self.clock)
    }

    /// Opens the store for a tenant.
    fn case(&self, tenant: &str) -> Result<Case> {
        let (_, changes) = unbounded_channel();
        let store = std::sync::Arc::new(self.open()?);
        let mut case = Case::new(store, self.clock.clone(), changes);
        case.tenant = tenant.to_owned();
        Ok(case)
    }

    /// The files as a kill leaves them now, as a home of their own.
    fn killed(&self) -> Result<Self> {
        let left = Self {
            clock: self.clock.clone(),
            ..Self::new()?
        };
        for suffix in ["", "-wal", ".lock"] {
            fs::copy(self.beside(suffix), left.beside(suffix))?;
        }
        Ok(left)
    }

    /// Opens the store, completes keys, each change at a moment of its own, and kills it.
    async fn killed_after(&self, keys: &[&str]) -> Result<Self> {
        let case = self.case("t")?;
        for key in keys {
            self.clock.advance(secs(1));
            let grant = case.reserve(key).await.granted();
            self.clock.advance(secs(1));
            case.complete(&grant, result()).await.recorded();
        }
        self.killed()
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.directory.path().join(format!("store{suffix}"))
    }

    /// What the damage is said to be.
    fn damage(&self) -> String {
        match self.open() {
            Err(OpenError::Damaged { finding, .. }) => finding,
            Err(error) => panic!("refused as another thing: {error}"),
            Ok(_) => panic!("served"),
        }
    }

    /// Changes bytes of the closed file: the last place where `old` stands.
    fn overwrite(&self, old: &[u8], new: &[u8]) -> Result<()> {
        let mut file = fs::read(self.path())?;
        let at = file
            .windows(old.len())
            .rposition(|window| window == old)
            .expect("the bytes are in the file");
        file[at..at + new.len()].copy_from_slice(new);
        fs::write(self.path(), file)?;
        Ok(())
    }
}

fn open(path: &Path, clock: &TestClock) -> Result<Embedded, OpenError> {
    let options = Options {
        clock: Some(clock.clone()),
        ..Options::default()
    };
    Embedded::open(path, options)
}

#[tokio::test]
async fn a_reopened_file_knows_everything() -> Result<()> {
    let home = Home::new()?;
    let case = home.case("t")?;
    let grant = case.completed("done").await;
    let held = case.reserve("held").await.granted();
    let token_key = case.store.token_key().clone();
    let before = (case.record("done").await, case.record("held").await);
    drop(case);
    let case = home.case("t")?;
    assert_eq!(
        (case.record("done").await, case.record("held").await),
        before
    );
    let token = case.store.token_key().issue(&grant.name.id(), 1, 1);
    assert_eq!(token, token_key.issue(&grant.name.id(), 1, 1));
    case.complete(&held, result()).await.recorded();
    Ok(())
}

#[tokio::test]
async fn a_closed_store_has_finished_what_was_handed_in() -> Result<()> {
    let home = Home::new()?;
    let case = home.case("t")?;
    let grant = case.reserve("k").await.granted();
    let (told, closed) = tokio::join!(case.complete(&grant, result()), case.store.close());
    told.recorded();
    closed?;
    drop(case);
    let reading = home.case("t")?.reading("k").await;
    assert_eq!(reading, Reading::Completed { gone: false });
    Ok(())
}

#[test]
fn a_second_opener_is_refused() -> Result<()> {
    let home = Home::new()?;
    let first = home.open()?;
    assert!(matches!(home.open(), Err(OpenError::InUse(_))));
    // Under another name it is still the same file.
    let link = home.directory.path().join("link");
    std::os::unix::fs::symlink(home.path(), &link)?;
    assert!(matches!(open(&link, &home.clock), Err(OpenError::InUse(_))));
    drop(first);
    drop(open(&link, &home.clock)?);
    Ok(())
}

#[test]
fn files_are_closed_to_others() -> Result<()> {
    let home = Home::new()?;
    let store = home.open()?;
    for file in fs::read_dir(home.directory.path())? {
        let file = file?;
        let mode = file.metadata()?.permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
    }
    drop(store);
    Ok(())
}

#[test]
fn a_directory_that_is_not_there_is_named() -> Result<()> {
    let home = Home::new()?;
    let path = home.directory.path().join("missing").join("store");
    let error = open(&path, &home.clock).err().expect("refused");
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("missing/store"), "{error}");
    Ok(())
}

#[test]
fn another_programs_file_is_refused_and_left_alone() -> Result<()> {
    let home = Home::new()?;
    let text = "a diary, and much longer than a header of SQLite's".repeat(20);
    fs::write(home.path(), &text)?;
    assert!(matches!(home.open(), Err(OpenError::NotReprise(_))));
    assert_eq!(fs::read_to_string(home.path())?, text);
    Ok(())
}

#[test]
fn a_newer_schema_is_refused() -> Result<()> {
    let home = Home::new()?;
    drop(home.open()?);
    // `user_version`, big-endian at byte 60 of an SQLite file.
    let mut file = fs::read(home.path())?;
    file[60..64].copy_from_slice(&9_u32.to_be_bytes());
    fs::write(home.path(), file)?;
    let error = home.open().err().expect("refused");
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 9,
                known: 1,
                ..
            }
        ),
        "{error:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_damaged_file_is_refused() -> Result<()> {
    let home = Home::new()?;
    let case = home.case("t")?;
    for at in 0..50 {
        case.completed(&format!("k{at}")).await;
    }
    drop(case);
    let file = fs::read(home.path())?;
    // Every page but the first, whose damage makes it something else.
    for page in 1..file.len() / 4096 {
        let mut damaged = file.clone();
        damaged[page * 4096..page * 4096 + 64].fill(0xff);
        fs::write(home.path(), damaged)?;
        let error = home.open().err();
        assert!(
            matches!(error, Some(OpenError::Damaged { .. })),
            "page {page}: {error:?}"
        );
    }
    fs::write(home.path(), file)?;
    home.open()?;
    Ok(())
}

#[tokio::test]
async fn a_truncated_file_is_refused() -> Result<()> {
    let home = Home::new()?;
    home.case("t")?.completed("k").await;
    let file = fs::read(home.path())?;
    fs::write(home.path(), &file[..file.len() - 4096])?;
    let error = home.open().err();
    assert!(
        matches!(error, Some(OpenError::Damaged { .. })),
        "{error:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_store_is_opened_again_and_again() -> Result<()> {
    let mut home = Home::new()?.killed_after(&[]).await?;
    for key in ["a", "b", "c"] {
        home = home.killed_after(&[key]).await?;
        home = home.killed_after(&[]).await?;
    }
    let case = home.case("t")?;
    for key in ["a", "b", "c"] {
        case.reserve(key).await.replayed();
    }
    Ok(())
}

#[tokio::test]
async fn a_damaged_log_is_refused_and_left_alone() -> Result<()> {
    let home = Home::new()?
        .killed_after(&["a", "b", "c", "d", "e", "f"])
        .await?;
    let mut log = fs::read(home.beside("-wal"))?;
    let third = log.len() / 3;
    log[third] ^= 1;
    fs::write(home.beside("-wal"), &log)?;
    for _ in 0..2 {
        let finding = home.damage();
        assert!(finding.contains("restore it from a copy"), "{finding}");
    }
    assert_eq!(fs::read(home.beside("-wal"))?, log);
    log[third] ^= 1;
    fs::write(home.beside("-wal"), &log)?;
    home.case("t")?.reserve("f").await.replayed();
    Ok(())
}

#[tokio::test]
async fn a_log_that_was_removed_or_cut_off_is_missed() -> Result<()> {
    let home = Home::new()?.killed_after(&["a", "b"]).await?;
    let log = fs::read(home.beside("-wal"))?;
    for left in [None, Some(0), Some(log.len() / 2), Some(log.len() - 1)] {
        let home = home.killed()?;
        match left {
            None => fs::remove_file(home.beside("-wal"))?,
            Some(left) => fs::write(home.beside("-wal"), &log[..left])?,
        }
        for _ in 0..2 {
            let finding = home.damage();
            assert!(finding.contains("store-wal was removed"), "{finding}");
        }
        // The way out that owns up to the loss.
        fs::remove_file(home.beside(".lock"))?;
        home.case("t")?.reserve("new").await.granted();
    }
    home.case("t")?.reserve("b").await.replayed();
    Ok(())
}

#[tokio::test]
async fn a_closed_store_needs_neither_log_nor_its_last_state() -> Result<()> {
    let home = Home::new()?;
    home.case("t")?.completed("a").await;
    let copy = fs::read(home.path())?;
    home.clock.advance(secs(1));
    home.case("t")?.completed("b").await;
    assert!(!home.beside("-wal").exists());
    fs::write(home.path(), copy)?;
    let case = home.case("t")?;
    case.reserve("a").await.replayed();
    case.reserve("b").await.granted();
    Ok(())
}

#[tokio::test]
async fn a_file_that_goes_away_stops_the_store_until_it_is_back() -> Result<()> {
    for suffix in ["", "-wal", ".lock"] {
        let home = Home::new()?;
        let case = home.case("t")?;
        let grant = case.reserve("k").await.granted();
        let (file, away) = (home.beside(suffix), home.beside(".away"));
        fs::rename(&file, &away)?;
        for replaced in [false, true] {
            if replaced {
                fs::copy(&away, &file)?;
            }
            let refused = |told: Result<(), Error>| match told {
                Err(Error::Unavailable(_)) => {}
                told => panic!("{suffix:?}, replaced: {replaced}: {told:?}"),
            };
            let call = case.reserve("new");
            let command = Command::Reserve(call.reserve.clone());
            refused(case.hand_in(&call.name, command).await.map(drop));
            refused(case.store.ping().await);
            refused(find(&case, grant.name.id()).await);
        }
        fs::rename(&away, &file)?;
        case.complete(&grant, result()).await.recorded();
        case.store.ping().await?;
    }
    Ok(())
}

#[test]
fn a_file_of_two_names_is_refused() -> Result<()> {
    let home = Home::new()?;
    let first = home.open()?;
    let other = home.directory.path().join("other");
    fs::hard_link(home.path(), &other)?;
    for path in [&home.path(), &other] {
        let refused = open(path, &home.clock);
        assert!(matches!(
            refused,
            Err(OpenError::ManyNames { names: 2, .. })
        ));
    }
    drop(first);
    fs::remove_file(&other)?;
    drop(home.open()?);
    Ok(())
}

#[tokio::test]
async fn a_damaged_row_is_reported_for_its_key_alone() -> Result<()> {
    let home = Home::new()?;
    let case = home.case("t")?;
    case.completed("whole").await;
    let grant = case.reserve("hurt").await.granted();
    let mut content = result();
    content.code = "UNIQUE_CODE".to_owned();
    case.complete(&grant, content.clone()).await.recorded();
    let id = grant.name.id();
    drop(case);
    home.overwrite(b"UNIQUE_CODE", b"UNIQUE_C0DE")?;

    let case = home.case("t")?;
    let damaged = |error: &Error| matches!(error, Error::Damaged(hurt) if *hurt == id);
    let call = case.reserve("hurt");
    let command = Command::Reserve(call.reserve.clone());
    // In one batch with its neighbours, which are answered.
    let (hurt, whole, new) = tokio::join!(
        case.hand_in(&call.name, command),
        async { case.reserve("whole").await },
        async { case.reserve("new").await }
    );
    assert!(hurt.is_err_and(|error| damaged(&error)));
    whole.replayed();
    new.granted();
    assert!(find(&case, id).await.is_err_and(|error| damaged(&error)));
    assert!(find(&case, case.name("whole").id()).await.is_ok());
    Ok(())
}

async fn find(case: &Case, id: RecordId) -> Result<(), Error> {
    let target = reprise::store::Target::Id(id);
    let found = case.store.find("t", target, super::case::soon()).await;
    found.map(drop)
}

#[tokio::test]
async fn a_damaged_column_of_any_kind_is_noticed() -> Result<()> {
    for (old, new) in [
        (&b"customer-1"[..], &b"customer-2"[..]),
        (b"charged 100 EUR", b"charged 900 EUR"),
        (b"take_over_unless_sent", b"take_over_unless_sen\xff"),
        (b"order-7", b"order-8"),
    ] {
        let home = Home::new()?;
        let case = home.case("t")?.under(super::case::unless_sent());
        case.completed("k").await;
        let id = case.name("k").id();
        drop(case);
        home.overwrite(old, new)?;
        // A word that the schema does not know is found when the file is opened.
        match home.case("t") {
            Ok(case) => assert!(
                matches!(find(&case, id).await, Err(Error::Damaged(_))),
                "{}",
                String::from_utf8_lossy(new)
            ),
            Err(error) => {
                let error = error.downcast::<OpenError>()?;
                assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_clock_that_was_set_back_gives_no_fence_twice() -> Result<()> {
    let mut home = Home::new()?;
    home.clock.advance(secs(3600));
    let first = home.case("t")?.reserve("a").await.granted();
    home.clock = TestClock::at(NOON);
    let case = home.case("t")?;
    let second = case.reserve("b").await.granted();
    assert!(second.fence() >= first.fence());
    assert_eq!(second.view.now, NOON.after(secs(3600)));
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_only_begun_is_begun_again() -> Result<()> {
    let home = Home::new()?;
    fs::write(home.path(), b"")?;
    home.case("t")?.completed("k").await;
    Ok(())
}
