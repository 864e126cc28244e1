//! Finding records: by id, by effect key, for one tenant; and cheap reads of revisions.

use reprise::store::{Error, Target};
use reprise_domain::command::FailureKind;
use reprise_domain::{EffectKey, Record, RecordId};

use super::case::{Case, error, result, secs, soon};

stamp![
    a_record_is_found_by_id,
    a_record_is_found_with_the_clock,
    a_record_is_found_by_effect_key,
    a_record_is_found_by_keys_of_all_its_generations,
    a_key_of_a_generation_to_come_finds_nothing,
    a_strange_effect_key_finds_nothing,
    records_of_other_tenants_are_not_found,
    what_is_not_there_is_not_found,
    an_acknowledged_change_is_found_at_once,
    a_find_changes_nothing,
    revisions_are_those_of_records_that_exist,
    a_revision_rises_with_every_change,
    a_change_is_announced,
    a_store_is_there,
    a_closed_store_answers_that_it_is,
];

async fn find(case: &Case, tenant: &str, target: Target) -> Option<Record> {
    let found = case.store.find(tenant, target, soon()).await;
    found.expect("the store answers").map(|(record, _)| record)
}

async fn by_key(case: &Case, key: EffectKey) -> Option<Record> {
    find(case, &case.tenant, Target::EffectKey(key)).await
}

async fn a_record_is_found_by_id(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.reserve("other").await.granted();
    let target = Target::Id(grant.name.id());
    let found = find(case, &case.tenant, target).await;
    assert_eq!(found.as_ref(), Some(grant.record()));
}

async fn a_record_is_found_with_the_clock(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.advance(secs(12));
    let target = Target::Id(grant.name.id());
    let found = case.store.find(&case.tenant, target, soon()).await;
    let (_, now) = found.expect("the store answers").expect("the record");
    assert_eq!(now, case.now());
}

async fn a_record_is_found_by_effect_key(case: &Case) {
    let grant = case.reserve("k").await.granted();
    case.reserve("other").await.granted();
    let found = by_key(case, grant.record().effect_key()).await;
    assert_eq!(found.as_ref(), Some(grant.record()));
}

async fn a_record_is_found_by_keys_of_all_its_generations(case: &Case) {
    let name = case.name("k");
    for _ in 1..4 {
        let grant = case.reserve("k").await.granted();
        let told = case
            .fail_spent(&grant, FailureKind::Retryable, error())
            .await;
        told.recorded();
    }
    case.reserve("k").await.granted();
    for generation in 1..=4 {
        let found = by_key(case, name.effect_key(generation)).await;
        assert_eq!(found.map(|record| record.generation), Some(4));
    }
}

async fn a_key_of_a_generation_to_come_finds_nothing(case: &Case) {
    let grant = case.reserve("k").await.granted();
    assert_eq!(by_key(case, grant.name.effect_key(2)).await, None);
}

async fn a_strange_effect_key_finds_nothing(case: &Case) {
    case.reserve("k").await.granted();
    let strange = RecordId(rand::random()).effect_key(1);
    assert_eq!(by_key(case, strange).await, None);
}

async fn records_of_other_tenants_are_not_found(case: &Case) {
    let grant = case.reserve("k").await.granted();
    for target in [
        Target::Id(grant.name.id()),
        Target::EffectKey(grant.record().effect_key()),
    ] {
        assert_eq!(find(case, "somebody-else", target).await, None);
        assert_eq!(find(case, &case.tenant.to_uppercase(), target).await, None);
    }
}

async fn what_is_not_there_is_not_found(case: &Case) {
    assert_eq!(case.find("k").await, None);
    assert_eq!(by_key(case, case.name("k").effect_key(1)).await, None);
    assert_eq!(case.traces("k").await, []);
}

async fn an_acknowledged_change_is_found_at_once(case: &Case) {
    for at in 0..20 {
        let key = format!("k{at}");
        let grant = case.reserve(&key).await.granted();
        assert_eq!(case.record(&key).await, *grant.record());
        let view = case.complete(&grant, result()).await.recorded();
        assert_eq!(case.record(&key).await, *view.record);
    }
}

async fn a_find_changes_nothing(case: &Case) {
    case.reserve("k").await.granted();
    case.advance(secs(100));
    let before = case.record("k").await;
    assert_eq!(case.record("k").await, before);
    assert_eq!(before.revision, 1);
}

async fn revisions_are_those_of_records_that_exist(case: &Case) {
    let a = case.reserve("a").await.granted().name.id();
    let b = case.completed("b").await.name.id();
    let missing = case.name("missing").id();
    let found = case.store.revisions(vec![missing, b, a]).await;
    let mut found = found.expect("the store answers");
    found.sort_unstable();
    let mut expected = vec![(a, 1), (b, 2)];
    expected.sort_unstable();
    assert_eq!(found, expected);
    let none = case.store.revisions(Vec::new()).await;
    assert_eq!(none.expect("the store answers"), []);
}

async fn a_revision_rises_with_every_change(case: &Case) {
    let grant = case.reserve("k").await.granted();
    let id = grant.name.id();
    let mut last = 1;
    for step in 0..4 {
        match step {
            0 => drop(case.renew(&grant, None).await.leased()),
            1 => drop(case.mark_sending(&grant).await.leased()),
            2 => drop(case.mark_pending(&grant, "").await.recorded()),
            _ => drop(case.complete(&grant, result()).await.recorded()),
        }
        let found = case.store.revisions(vec![id]).await;
        let now = found.expect("the store answers")[0].1;
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}

async fn a_change_is_announced(case: &Case) {
    let grant = case.reserve("k").await.granted();
    assert_eq!(case.next_change().await, grant.name.id());
    // What only reads is not; the next change is that of the other key.
    case.reserve("k").await.processing();
    let other = case.reserve("other").await.granted();
    assert_eq!(case.next_change().await, other.name.id());
}

async fn a_store_is_there(case: &Case) {
    case.store.ping().await.expect("the store answers");
}

async fn a_closed_store_answers_that_it_is(case: &Case) {
    case.completed("k").await;
    case.store.close().await.expect("the store closes");
    case.store.close().await.expect("and stays closed");
    let call = case.reserve("k");
    let command = reprise_domain::Command::Reserve(call.reserve.clone());
    let executed = case.hand_in(&call.name, command).await;
    assert!(matches!(executed, Err(Error::Closed)));
    let target = Target::Id(case.name("k").id());
    let found = case.store.find(&case.tenant, target, soon()).await;
    assert!(matches!(found, Err(Error::Closed)), "{found:?}");
}
