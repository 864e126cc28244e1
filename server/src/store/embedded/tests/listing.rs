//! Lists: that they are found by an index.

use reprise_domain::command::Claim;
use reprise_domain::record::{PendingReason, State};
use reprise_domain::{Command, Content};

use super::scene::*;
use super::*;
use crate::store::{AuditQuery, MISMATCHES_MAX, RecordsQuery};

fn of_tenant() -> RecordsQuery {
    RecordsQuery {
        tenant: "t".to_owned(),
        max: 100,
        ..RecordsQuery::default()
    }
}

async fn keys(scene: &Scene, query: RecordsQuery) -> Result<Vec<String>> {
    let page = scene.store.records(query).await?;
    let keys = page
        .records
        .iter()
        .map(|record| record.name.key().to_owned());
    Ok(keys.collect())
}

#[tokio::test]
async fn pages_go_on_where_the_one_before_ended_and_end() -> Result<()> {
    let scene = Scene::new()?;
    for key in ["a", "b", "c", "d", "e"] {
        scene.completed(key).await?;
        scene.clock.advance(SECOND);
    }
    let mut query = RecordsQuery {
        max: 2,
        ..of_tenant()
    };
    let mut pages = Vec::new();
    loop {
        let page = scene.store.records(query.clone()).await?;
        pages.push(
            page.records
                .iter()
                .map(|record| record.name.key().to_owned())
                .collect::<Vec<_>>(),
        );
        assert!(
            page.records
                .iter()
                .all(|record| !record.has_bytes() || !record.instruction.is_empty())
        );
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec!["e", "d"], vec!["c", "b"], vec!["a"]]);
    Ok(())
}

#[tokio::test]
async fn records_are_found_by_what_people_know() -> Result<()> {
    let scene = Scene::new()?;
    scene.completed("order-1").await?;
    scene.clock.advance(SECOND);
    let from = scene.clock.now();
    scene.reserve("order-2").await?;
    scene.mark_sending("order-2", "ch_1", "").await?;
    scene.mark_sending("order-2", "ch_2", "").await?;
    scene.clock.advance(SECOND);
    scene.reserve("other").await?;
    scene.fail("other", Content::of_code("BUSY")).await?;
    scene.clock.advance(2 * SECOND);
    scene.walk().await?;
    let found = async |change: fn(&mut RecordsQuery)| {
        let mut query = of_tenant();
        change(&mut query);
        keys(&scene, query).await
    };
    assert_eq!(found(|_| ()).await?, ["other", "order-2", "order-1"]);
    assert_eq!(
        found(|query| query.key_prefix = "order-".to_owned()).await?,
        ["order-2", "order-1"]
    );
    assert_eq!(
        found(|query| query.state = Some(State::Completed)).await?,
        ["order-1"]
    );
    assert_eq!(found(|query| query.tenant = "u".to_owned()).await?, [""; 0]);
    assert_eq!(
        found(|query| query.subject = Some("s".to_owned())).await?,
        [""; 0]
    );
    for reference in ["ch_1", "ch_2"] {
        let query = RecordsQuery {
            provider_reference: reference.to_owned(),
            ..of_tenant()
        };
        assert_eq!(keys(&scene, query).await?, ["order-2"], "{reference}");
    }
    let both = RecordsQuery {
        provider_reference: "ch_1".to_owned(),
        resource_id: "order-7".to_owned(),
        ..of_tenant()
    };
    assert_eq!(keys(&scene, both).await?, [""; 0]);
    let resource = RecordsQuery {
        resource_id: "order-7".to_owned(),
        ..of_tenant()
    };
    assert_eq!(keys(&scene, resource).await?, ["order-1"]);
    let since = RecordsQuery {
        created_from: Some(from),
        ..of_tenant()
    };
    assert_eq!(keys(&scene, since).await?, ["other", "order-2"]);
    let before = RecordsQuery {
        created_before: Some(from),
        ..of_tenant()
    };
    assert_eq!(keys(&scene, before).await?, ["order-1"]);
    Ok(())
}

#[tokio::test]
async fn audit_rows_come_newest_first_in_pages() -> Result<()> {
    let scene = Scene::new()?;
    for key in ["a", "b", "c"] {
        scene.completed(key).await?;
    }
    for key in ["a", "b", "c"] {
        scene.forget(key).await?;
        if key == "b" {
            scene.clock.advance(SECOND);
        }
    }
    let all = AuditQuery {
        tenant: "t".to_owned(),
        max: 2,
        ..AuditQuery::default()
    };
    let first = scene.store.audit(all.clone()).await?;
    let second = scene
        .store
        .audit(AuditQuery {
            after: first.next,
            ..all.clone()
        })
        .await?;
    assert_eq!(second.next, None);
    let rows = first.rows.iter().chain(&second.rows);
    let ids: Vec<_> = rows.map(|row| row.record).collect();
    let expected = ["c", "b", "a"].map(|key| Some((scene.name(key).id(), 1)));
    assert_eq!(ids, expected);
    let audit = async |query: AuditQuery| -> Result<usize> {
        Ok(scene.store.audit(query).await?.rows.len())
    };
    let of_a = AuditQuery {
        record: Some(scene.name("a").id()),
        ..all.clone()
    };
    assert_eq!(audit(of_a).await?, 1);
    let late = AuditQuery {
        from: Some(scene.clock.now()),
        ..all.clone()
    };
    assert_eq!(audit(late).await?, 1);
    let early = AuditQuery {
        before: Some(scene.clock.now()),
        ..all
    };
    assert_eq!(audit(early).await?, 2);
    Ok(())
}

#[tokio::test]
async fn mismatches_are_counted_and_bounded() -> Result<()> {
    let scene = Scene::new()?;
    scene.reserve("k").await?;
    let own = scene.record("k").await?.fingerprint;
    let other = |digest: u8| Fingerprint {
        digest: [digest; 32],
        ..own.clone()
    };
    let id = scene.name("k").id();
    let seen = (0..20).map(|digest| (id, other(digest), 5)).collect();
    scene.store.note_mismatches(seen).await?;
    scene.clock.advance(SECOND);
    let nobody = scene.name("nobody").id();
    let seen = vec![(id, other(3), 2), (id, other(19), 1), (nobody, other(1), 1)];
    scene.store.note_mismatches(seen).await?;
    let kept = scene.store.mismatches(id).await?;
    assert_eq!(kept.len(), MISMATCHES_MAX);
    assert_eq!((kept[3].fingerprint.clone(), kept[3].count), (other(3), 7));
    assert_eq!(
        (kept[3].first_at, kept[3].last_at),
        (NOON, scene.clock.now())
    );
    assert_eq!(scene.rows("mismatch")?, MISMATCHES_MAX as i64);
    Ok(())
}

#[tokio::test]
async fn a_claim_is_kept_and_found_by_its_call() -> Result<()> {
    let scene = Scene::new()?;
    for key in ["a", "b"] {
        scene.reserve(key).await?;
        scene.mark_pending(key, "who knows").await?;
        scene.clock.advance(SECOND);
    }
    scene.clock.advance(120 * SECOND);
    let due = |only_due| PendingQuery {
        tenant: "t".to_owned(),
        operation: String::new(),
        only_due,
        after: None,
        max: 10,
    };
    let keys = async |only_due| -> Result<Vec<String>> {
        let page = scene.store.pending(due(only_due)).await?;
        let keys = page.entries.iter().map(|(_, record)| record.name.key());
        Ok(keys.map(str::to_owned).collect())
    };
    assert_eq!(keys(true).await?, ["a", "b"]);
    let claim = Claim {
        id: ClaimId([7; 16]),
        lease: 30 * SECOND,
        owner: "worker".to_owned(),
    };
    scene.tell("a", Command::Claim(claim)).await??;
    let kept = scene.record("a").await?.claim.context("a claim")?;
    assert_eq!((kept.taken_at, kept.over), (scene.clock.now(), false));
    assert_eq!((kept.lease, &*kept.owner), (30 * SECOND, "worker"));
    let claimed = scene.store.claimed("t", ClaimId([7; 16])).await?;
    assert_eq!(claimed, [scene.name("a")]);
    assert_eq!(scene.store.claimed("u", ClaimId([7; 16])).await?, []);
    assert_eq!(keys(true).await?, ["b"]);
    assert_eq!(keys(false).await?, ["a", "b"]);
    let counts = scene.store.count_pending("t", "").await?;
    let expected = PendingCount {
        operation: "charge".to_owned(),
        reason: PendingReason::Reported,
        total: 2,
        due: 1,
        claimed: 1,
        oldest: NOON,
    };
    assert_eq!(counts, [expected]);
    scene.clock.advance(30 * SECOND);
    assert_eq!(keys(true).await?, ["a", "b"], "its lease is over");
    Ok(())
}

/// A file may have millions of records.
#[tokio::test]
async fn no_list_reads_a_whole_table() -> Result<()> {
    let scene = Scene::new()?;
    let statements = [
        lists::ALL.as_str(),
        lists::REFERRED.as_str(),
        audit::OF_TENANT,
        audit::OF_RECORD,
        worklist::PENDING.as_str(),
        walk::GRANTED.as_str(),
        row::SELECT.as_str(),
    ];
    let reader = lock(&scene.store.shared.reader);
    for statement in statements {
        let mut explain = reader.prepare(&format!("explain query plan {statement}"))?;
        let nulls = vec![rusqlite::types::Null; explain.parameter_count()];
        let plan = explain
            .query_map(rusqlite::params_from_iter(nulls), |row| row.get(3))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        let scans = plan.iter().any(|step| step.starts_with("SCAN"));
        assert!(!scans, "{statement}: {plan:#?}");
    }
    Ok(())
}
