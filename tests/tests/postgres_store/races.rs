//! Many at once on fresh keys: exactly one grant each, and no error.

use std::sync::Arc;

use anyhow::Result;
use reprise::store::postgres::{Config, Postgres};
use reprise_domain::command::{Answer, Disposition, Outcome};
use reprise_tests::postgres::Version;

use super::caller::{Answered, Caller};
use super::{VERSIONS, database, open, session};

/// Grants among answers of which none may be an error.
fn grants(answers: impl IntoIterator<Item = Answered>) -> Result<usize> {
    let mut grants = 0;
    for answer in answers {
        match answer?? {
            Answer::Outcome(Outcome::Acquired { .. }, _) => grants += 1,
            Answer::Outcome(Outcome::Processing | Outcome::Mismatch(_), _) => {}
            other => anyhow::bail!("no answer for a race: {other:?}"),
        }
    }
    Ok(grants)
}

async fn race(store: &[Arc<Postgres>], key: &str, callers: usize) -> Result<usize> {
    let calls = (0..callers).map(|n| {
        let payload = u8::try_from(n % 2)?;
        let caller = Caller::new(&store[n % store.len()], key).with_payload(payload);
        Ok(tokio::spawn(async move { caller.reserve().await }))
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Result<Vec<_>>>()? {
        answers.push(call.await?);
    }
    grants(answers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_races_of_eight_over_two_servers_have_one_winner_each() -> Result<()> {
    for version in VERSIONS {
        let url = database(version).await?;
        let mut stores = Vec::new();
        for fast_path in [true, false] {
            let mut config = Config::new(url.clone());
            config.fast_path = fast_path;
            stores.push(Arc::new(open(config).await?));
        }
        let stores: Arc<[Arc<Postgres>]> = stores.into();
        let mut rounds = Vec::new();
        for runner in 0..8 {
            let stores = Arc::clone(&stores);
            rounds.push(tokio::spawn(async move {
                for round in 0..125 {
                    let key = format!("k{runner}-{round}");
                    assert_eq!(race(&stores, &key, 8).await?, 1, "{key}");
                }
                Ok::<_, anyhow::Error>(())
            }));
        }
        for round in rounds {
            round.await??;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_one_holder_over_two_servers_are_recorded_once() -> Result<()> {
    let url = database(Version::V15).await?;
    let stores = [
        Arc::new(open(Config::new(url.clone())).await?),
        Arc::new(open(Config::new(url)).await?),
    ];
    for round in 0..150 {
        let key = format!("k{round}");
        let holder = Caller::new(&stores[0], &key);
        let held = holder.acquire().await?;
        let reports = (0..8).map(|n| {
            let caller = Caller::new(&stores[n % 2], &key);
            tokio::spawn(async move {
                match n / 4 {
                    0 => caller.renew(held, None).await,
                    _ => caller.complete(held).await,
                }
            })
        });
        let mut recorded = 0;
        for report in reports.collect::<Vec<_>>() {
            match report.await??? {
                Answer::Reported(Disposition::Recorded, _) => recorded += 1,
                Answer::Reported(Disposition::Repeated, _)
                | Answer::Leased(_)
                | Answer::Closed(_) => {}
                other => panic!("{key}: {other:?}"),
            }
        }
        assert_eq!(recorded, 1, "{key}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_defaults_to_serializable_changes_no_outcome() -> Result<()> {
    let url = database(Version::V15).await?;
    session(&url)
        .await?
        .batch_execute(
            "create role strict login superuser;
             alter role strict set default_transaction_isolation = 'serializable'",
        )
        .await?;
    let strict = url.replace("postgres@", "strict@");
    let stores = [
        Arc::new(open(Config::new(strict.clone())).await?),
        Arc::new(open(Config::new(strict)).await?),
    ];
    for round in 0..40 {
        assert_eq!(race(&stores, &format!("k{round}"), 8).await?, 1);
    }
    // Batches of many rows, on both servers at once and in no common order.
    let lives = (0..200).map(|n| {
        let caller = Caller::new(&stores[n % 2], &format!("life-{n}"));
        tokio::spawn(async move { caller.lifecycle().await })
    });
    for life in lives.collect::<Vec<_>>() {
        life.await??;
    }
    Ok(())
}
