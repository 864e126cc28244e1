//! Removal of what is over.

use reprise_domain::Content;
use reprise_domain::content::Body;
use reprise_domain::record::State;

use super::scene::*;
use super::*;
use crate::store::AUDIT_RETENTION;

/// Results for a minute, memory for an hour: their ends are rounded up by a second, and by
/// a minute.
fn short() -> Result<Scene> {
    let mut scene = Scene::new()?;
    scene.policy.result_retention = 60 * SECOND;
    scene.policy.memory_retention = 3600 * SECOND;
    Ok(scene)
}

#[tokio::test]
async fn first_the_bytes_go_and_then_all() -> Result<()> {
    let scene = short()?;
    scene.completed("k").await?;
    let before = scene.record("k").await?;
    assert!(!before.instruction.is_empty());
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.clock.advance(58 * SECOND - TICK);
    assert_eq!(scene.remove().await?, (0, 0));
    assert_eq!(scene.record("k").await?, before);

    scene.clock.advance(TICK + SECOND);
    assert_eq!(scene.remove().await?, (1, 0));
    let expected = before.tombstone();
    assert!(!expected.has_bytes());
    assert_eq!(scene.record("k").await?, expected, "the revision stays");

    scene.clock.advance(3539 * SECOND - TICK);
    assert_eq!(scene.remove().await?, (0, 0));
    assert!(scene.find("k").await?.is_some());
    scene.clock.advance(TICK + 60 * SECOND);
    assert_eq!(scene.remove().await?, (0, 1));
    for table in ["records", "removal", "reference", "worklist"] {
        assert_eq!(scene.rows(table)?, 0, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_open_is_never_removed() -> Result<()> {
    let scene = short()?;
    scene.reserve("processing").await?;
    scene.reserve("pending").await?;
    scene.mark_pending("pending", "who knows").await?;
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.clock.advance(AUDIT_RETENTION);
    assert_eq!(scene.remove().await?, (0, 0));
    scene.sweep().await?;
    assert_eq!(scene.remove().await?, (0, 0));
    assert_eq!(scene.record("processing").await?.state, State::Pending);
    assert_eq!(scene.record("pending").await?.state, State::Pending);
    assert_eq!(scene.rows("worklist where kind = 'find_out'")?, 2);
    Ok(())
}

#[tokio::test]
async fn what_was_pending_is_removed_after_it_was_closed() -> Result<()> {
    let scene = short()?;
    scene.reserve("k").await?;
    scene.mark_pending("k", "who knows").await?;
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.complete("k", content("late")).await?;
    assert_eq!(scene.rows("worklist")?, 0);
    scene.clock.advance(3700 * SECOND);
    assert_eq!(scene.remove().await?, (0, 1));
    Ok(())
}

#[tokio::test]
async fn what_is_revived_before_its_removal_survives() -> Result<()> {
    let scene = short()?;
    scene.completed("k").await?;
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.clock.advance(3700 * SECOND);
    scene.reserve("k").await?;
    assert_eq!(scene.remove().await?, (0, 0));
    assert_eq!(scene.record("k").await?.state, State::Processing);
    scene.complete("k", content("anew")).await?;
    scene.walk().await?;
    scene.clock.advance(2 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    scene.clock.advance(3700 * SECOND);
    assert_eq!(scene.remove().await?, (0, 1));
    Ok(())
}

#[tokio::test]
async fn side_rows_go_with_the_record_and_audit_rows_stay_longer() -> Result<()> {
    let scene = short()?;
    scene.reserve("k").await?;
    scene.mark_sending("k", "ch_1", "one").await?;
    scene.mark_sending("k", "ch_2", "two").await?;
    scene.fail("k", Content::of_code("BUSY")).await?;
    scene.completed("k").await?;
    let fingerprint = Fingerprint {
        digest: [9; 32],
        ..scene.record("k").await?.fingerprint
    };
    let id = scene.name("k").id();
    scene
        .store
        .note_mismatches(vec![(id, fingerprint, 1)])
        .await?;
    scene.forget("k").await?;
    for table in ["history", "mismatch", "audit"] {
        assert_eq!(scene.rows(table)?, 1, "{table}");
    }
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    assert_eq!(scene.rows("reference where kind = 'provider'")?, 2);
    scene.clock.advance(3700 * SECOND);
    assert_eq!(scene.remove().await?, (0, 1));
    for table in ["history", "replaced", "evidence", "mismatch", "reference"] {
        assert_eq!(scene.rows(table)?, 0, "{table}");
    }
    assert_eq!(scene.rows("audit")?, 1);
    scene.clock.advance(AUDIT_RETENTION - 3702 * SECOND);
    scene.remove().await?;
    assert_eq!(scene.rows("audit")?, 1);
    scene.clock.advance(TICK);
    scene.remove().await?;
    assert_eq!(scene.rows("audit")?, 0);
    Ok(())
}

#[tokio::test]
async fn many_records_have_a_short_schedule_and_go_in_small_steps() -> Result<()> {
    let scene = Scene::new()?;
    let keys: Vec<_> = (0..250).map(|at| format!("k{at}")).collect();
    for key in &keys {
        scene.completed(key).await?;
        scene.clock.advance(SECOND);
    }
    scene.reserve("held").await?;
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    // Windows of an hour, and ends that are rounded by more than an hour.
    assert!(scene.rows("removal")? <= 8, "{}", scene.rows("removal")?);
    scene.clock.advance(36 * 24 * 3600 * SECOND);
    let mut steps = Vec::new();
    loop {
        let step = scene.store.remove().await?;
        steps.push(step.records);
        if !step.more {
            break;
        }
    }
    assert_eq!(steps.iter().sum::<u64>(), 250, "{steps:?}");
    assert!(steps.iter().all(|records| *records <= 100), "{steps:?}");
    assert_eq!(scene.rows("records")?, 1);
    Ok(())
}

#[tokio::test]
async fn large_bodies_go_few_at_a_time() -> Result<()> {
    let scene = short()?;
    for at in 0..6 {
        let key = format!("k{at}");
        scene.reserve(&key).await?;
        let body = Body::Data(vec![b'x'; 500_000].into());
        let large = Content {
            body: Some(body),
            ..content(&key)
        };
        scene.complete(&key, large).await?;
    }
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.clock.advance(70 * SECOND);
    let step = scene.store.remove().await?;
    assert_eq!((step.bodies, step.more), (3, true));
    assert_eq!(scene.remove().await?, (3, 0));
    Ok(())
}

/// A window that is gone through passes records; what is closed behind it gets another.
#[tokio::test]
async fn a_record_that_is_closed_behind_a_removal_is_not_forgotten_there() -> Result<()> {
    let mut scene = short()?;
    scene.policy.result_retention = SECOND;
    scene.policy.memory_retention = SECOND;
    scene.reserve("open").await?;
    let keys: Vec<_> = (0..150).map(|at| format!("k{at}")).collect();
    for key in &keys {
        scene.completed(key).await?;
    }
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.clock.advance(28 * SECOND);
    assert!(scene.store.remove().await?.more);
    scene.complete("open", content("late")).await?;
    scene.remove().await?;
    scene.sweep().await?;
    scene.clock.advance(3 * SECOND);
    scene.remove().await?;
    assert_eq!(scene.rows("records")?, 0);
    Ok(())
}
