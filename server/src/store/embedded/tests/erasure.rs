//! Erased bytes are gone from the files.

use reprise_domain::command::{Finding, Found};

use super::scene::*;
use super::*;

const MARKER: &str = "IBAN-DE02-1203-0000-0000-2020-51";

#[tokio::test]
async fn nothing_that_was_erased_is_left_in_the_folder() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("k").await?;
    scene.mark_sending("k", "", &format!("1 {MARKER}")).await?;
    scene.mark_sending("k", "", &format!("2 {MARKER}")).await?;
    scene.mark_pending("k", &format!("3 {MARKER}")).await?;
    scene.clock.advance(60 * SECOND);
    let result = content(&format!("4 {MARKER}"));
    let found = Found {
        digest: result.digest(),
        core: result.core_digest(),
        content: result,
    };
    let why = format!("5 {MARKER}");
    scene.resolve("k", Finding::Applied(found), &why).await?;
    for place in 1..=5 {
        assert!(
            scene.places_of(&format!("{place} {MARKER}"))? > 0,
            "{place}"
        );
    }
    scene.forget("k").await?;
    assert_eq!(scene.places_of(MARKER)?, 0);

    let record = scene.record("k").await?;
    let outcome = record.outcome.context("a tombstone knows the outcome")?;
    assert_eq!(outcome.content.code, "PAID");
    assert!(matches!(
        outcome.content.body,
        Some(reprise_domain::content::Body::Omitted { size: 34, .. })
    ));
    let traces = scene.store.traces(scene.name("k").id()).await?;
    let said: Vec<_> = traces
        .iter()
        .map(|trace| match trace {
            Trace::Audit { evidence, .. } => evidence.as_str(),
            other => panic!("not erased: {other:?}"),
        })
        .collect();
    assert_eq!(said, ["", "she asked for it"]);
    Ok(())
}

/// Pages that are split and joined hold copies of rows for a while.
#[tokio::test]
async fn rows_that_moved_between_pages_leave_no_copies() -> Result<()> {
    let scene = Scene::new()?;
    let keys: Vec<_> = (0..300).map(|at| format!("k{at}")).collect();
    for (at, key) in keys.iter().enumerate() {
        scene.reserve(key).await?;
        // From within a page to some pages.
        let text = MARKER.repeat(1 + at % 7 * 13);
        scene.mark_sending(key, "", &text).await?;
        scene.complete(key, content(&text)).await?;
    }
    assert!(scene.places_of(MARKER)? > 10_000);
    for key in &keys {
        scene.forget(key).await?;
    }
    assert_eq!(scene.places_of(MARKER)?, 0);
    Ok(())
}

#[tokio::test]
async fn what_a_visitor_held_up_is_gone_when_he_is() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("k").await?;
    scene.complete("k", content(MARKER)).await?;
    let visitor = Connection::open(scene.path())?;
    let transaction = visitor.unchecked_transaction()?;
    transaction.query_row("select count(*) from records", [], |_| Ok(()))?;
    scene.forget("k").await?;
    assert!(scene.places_of(MARKER)? > 0, "the visitor still reads it");
    drop(transaction);
    scene.walk().await?;
    assert_eq!(scene.places_of(MARKER)?, 0);
    Ok(())
}

#[tokio::test]
async fn a_store_that_was_killed_after_an_erasure_opens_and_knows_all() -> Result<()> {
    let scene = Scene::new()?;
    scene.completed("kept").await?;
    scene.completed("forgotten").await?;
    scene.clock.advance(SECOND);
    scene.forget("forgotten").await?;
    let left = tempfile::tempdir()?;
    for suffix in ["", "-wal", ".lock"] {
        let from = hold::beside(&scene.path(), suffix);
        std::fs::copy(from, hold::beside(&left.path().join("store"), suffix))?;
    }
    let store = Embedded::open(&left.path().join("store"), Options::default())?;
    let target = Target::Id(scene.name("kept").id());
    assert!(store.find("t", target, soon()).await?.is_some());
    Ok(())
}
