//! What a record is called: every part counts, byte by byte.

use reprise_domain::RecordName;

use super::case::Case;

stamp![
    keys_that_look_alike_are_different,
    every_part_of_a_name_counts,
    parts_do_not_run_into_each_other,
    an_empty_subject_is_one_of_its_own,
    the_longest_names_are_kept,
    keys_with_special_meaning_elsewhere_are_plain,
    unicode_forms_are_not_folded,
];

fn name(case: &Case, operation: &str, subject: &str, key: &str) -> RecordName {
    RecordName::new(&case.tenant, operation, subject, key).expect("a valid name")
}

/// Each is granted, and each grant is its own.
async fn all_differ(case: &Case, names: &[RecordName]) {
    for name in names {
        case.reserve_name(name.clone()).await.granted();
    }
    for name in names {
        let view = case.reserve_name(name.clone()).await.processing();
        assert_eq!(view.record.name, *name);
    }
}

async fn keys_that_look_alike_are_different(case: &Case) {
    let keys = ["k", "K", "k ", " k", "kk", "k\u{a0}", "к", "k\u{200b}"];
    let names = keys.map(|key| case.name(key));
    all_differ(case, &names).await;
}

async fn every_part_of_a_name_counts(case: &Case) {
    let other = RecordName::new(format!("{}x", case.tenant), "charge", "s", "k");
    let names = [
        name(case, "charge", "s", "k"),
        name(case, "charge", "s", "k2"),
        name(case, "charge", "S", "k"),
        name(case, "refund", "s", "k"),
        other.expect("a valid name"),
    ];
    all_differ(case, &names).await;
}

async fn parts_do_not_run_into_each_other(case: &Case) {
    let names = [
        name(case, "ab", "c", "d"),
        name(case, "a", "bc", "d"),
        name(case, "a", "b", "cd"),
        name(case, "abc", "", "d"),
        name(case, "a", "b/c", "d"),
        name(case, "a/b", "c", "d"),
    ];
    all_differ(case, &names).await;
}

async fn an_empty_subject_is_one_of_its_own(case: &Case) {
    let names = [
        name(case, "charge", "", "k"),
        name(case, "charge", "k", "k"),
    ];
    all_differ(case, &names).await;
    let found = case.reserve_name(names[0].clone()).await.processing();
    assert_eq!(found.record.name.subject(), "");
}

async fn the_longest_names_are_kept(case: &Case) {
    // 63 characters of four bytes and three of one: 255 bytes.
    let key = "\u{1f511}".repeat(63) + "abc";
    let part = "x".repeat(128);
    let tenant = case.tenant.clone() + &"t".repeat(128 - case.tenant.len());
    let subject = "\u{1f464}".repeat(32);
    let long = RecordName::new(tenant, part, subject, &key).expect("a valid name");
    let near = RecordName::new(
        long.tenant(),
        long.operation(),
        long.subject(),
        "\u{1f511}".repeat(63) + "abd",
    );
    all_differ(case, &[long, near.expect("a valid name")]).await;
}

async fn keys_with_special_meaning_elsewhere_are_plain(case: &Case) {
    let keys = [
        "'; drop table records; --",
        "%",
        "_",
        "\\",
        "\\x00",
        "null",
        "\u{fffd}",
        "{\"a\":1}",
        "$1",
    ];
    let names = keys.map(|key| case.name(key));
    all_differ(case, &names).await;
}

async fn unicode_forms_are_not_folded(case: &Case) {
    let keys = ["\u{e9}", "e\u{301}", "\u{df}", "ss", "\u{130}", "i\u{307}"];
    let names = keys.map(|key| case.name(key));
    all_differ(case, &names).await;
}
