//! The walk over grants.

use super::scene::*;
use super::*;

#[tokio::test]
async fn who_completes_in_time_is_filed_nowhere_until_the_walk_comes() -> Result<()> {
    let scene = Scene::new()?;
    scene.completed("k").await?;
    for table in ["worklist", "removal", "reference"] {
        assert_eq!(scene.rows(table)?, 0, "{table}");
    }
    scene.clock.advance(2 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    assert_eq!(scene.rows("worklist")?, 0);
    // The end of the result, and that of the memory.
    assert_eq!(scene.rows("removal")?, 2);
    assert_eq!(scene.rows("reference")?, 1);
    Ok(())
}

#[tokio::test]
async fn the_walk_stays_two_seconds_behind() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("k").await?;
    scene.clock.advance(2 * SECOND - TICK);
    assert_eq!(scene.walk().await?, 0);
    assert!(scene.store.overview().await?.walked_to <= NOON);
    scene.clock.advance(TICK);
    assert_eq!(scene.walk().await?, 1);
    assert!(scene.store.overview().await?.walked_to > NOON);
    assert_eq!(scene.walk().await?, 0, "each grant is visited once");
    Ok(())
}

#[tokio::test]
async fn many_grants_of_one_moment_are_visited_in_steps() -> Result<()> {
    let scene = Scene::new()?;
    let keys: Vec<_> = (0..1_201).map(|at| format!("k{at}")).collect();
    scene.reserve_all(&keys).await?;
    scene.clock.advance(2 * SECOND);
    let mut steps = Vec::new();
    loop {
        let walked = scene.store.walk().await?;
        steps.push(walked.visited);
        if !walked.more {
            break;
        }
        assert!(
            scene.store.overview().await?.walked_to <= NOON,
            "not all of it"
        );
    }
    assert_eq!(steps, [500, 500, 201]);
    assert_eq!(scene.rows("worklist")?, 1_201);
    assert_eq!(scene.store.overview().await?.open, 1_201);
    Ok(())
}

#[tokio::test]
async fn the_walk_goes_on_after_a_restart_where_it_stood() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("before").await?;
    scene.clock.advance(2 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    let walked_to = scene.store.overview().await?.walked_to;
    scene.reserve("after").await?;
    let clock = scene.clock.clone();
    let scene = scene.reopened(clock)?;
    assert_eq!(scene.store.overview().await?.walked_to, walked_to);
    scene.clock.advance(2 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    Ok(())
}

#[tokio::test]
async fn grants_under_a_clock_that_was_set_back_are_visited() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("before").await?;
    scene.clock.advance(3600 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    let scene = scene.reopened(TestClock::at(NOON))?;
    scene.reserve("after").await?;
    scene.clock.advance(3600 * SECOND + 2 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_walk_that_is_ahead_of_the_clock_goes_back() -> Result<()> {
    let scene = Scene::new()?;
    lock(&scene.store.shared.writer)
        .execute("update meta set walked_at = ?", [Timestamp::FAR.0])?;
    assert_eq!(scene.walk().await?, 0);
    assert!(scene.store.overview().await?.walked_to < NOON);
    scene.reserve("k").await?;
    scene.clock.advance(2 * SECOND);
    assert_eq!(scene.walk().await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_is_held_is_looked_at_when_its_lease_ends() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("k").await?;
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    scene.clock.advance(28 * SECOND - TICK);
    assert_eq!(scene.sweep().await?, [""; 0]);
    scene.clock.advance(TICK);
    assert_eq!(scene.sweep().await?, ["k"]);
    let record = scene.record("k").await?;
    assert_eq!(record.state, reprise_domain::record::State::Pending);
    assert_eq!(scene.rows("worklist where kind = 'find_out'")?, 1);
    Ok(())
}

#[tokio::test]
async fn names_that_were_answered_are_put_off() -> Result<()> {
    let scene = Scene::new()?;
    for key in ["a", "b", "c"] {
        scene.reserve(key).await?;
        scene.clock.advance(SECOND);
    }
    scene.clock.advance(60 * SECOND);
    scene.walk().await?;
    let mut keys = Vec::new();
    for _ in 0..2 {
        let names = scene.store.to_look_at(2).await?;
        keys.push(
            names
                .iter()
                .map(|name| name.key().to_owned())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(keys, [vec!["a", "b"], vec!["c"]]);
    scene.clock.advance(3 * SECOND);
    assert_eq!(scene.store.to_look_at(9).await?.len(), 3);
    Ok(())
}

/// What is free for a take-over is looked at once a day; who reports late is filed at once.
#[tokio::test]
async fn who_completes_after_the_look_is_filed_for_removal() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.policy.on_lapse = reprise_domain::policy::OnLapse::TakeOverUnlessSent;
    scene.reserve("k").await?;
    scene.clock.advance(60 * SECOND);
    scene.walk().await?;
    assert_eq!(scene.sweep().await?, ["k"]);
    assert_eq!(scene.rows("worklist")?, 1);
    scene.complete("k", content("late")).await?;
    assert_eq!(scene.rows("removal")?, 2);
    Ok(())
}
