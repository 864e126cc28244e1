//! Old records, as a database that has long been in use has them: inserted beside the
//! service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use reprise_domain::Timestamp;
use reprise_tests::bulk::Bulk;

use crate::service::Service;

const DAY: Duration = Duration::from_hours(24);
/// From the first grant to the last.
const SPREAD: Duration = DAY;
/// Share of a page that is filled: what pages hold whose rows were inserted and then
/// completed, and B-trees whose keys came in no order.
const FULL: u32 = 70;
/// Sessions that insert at once.
const SESSIONS: i64 = 2;
/// Their keys begin with one of these, and are as long as those of the load.
const PREFIXES: [&str; 2] = [
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];
/// Most numbers behind them have so many digits.
const DIGITS: usize = 7;
const BODY: &[u8] = &[b'x'; crate::direct::BODY_BYTES];

/// What old records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Completed yesterday, far from their ends.
    Kept,
    /// Completed forty days ago, and due for removal.
    Over,
}

/// Inserts `count` of them into an empty database, with nothing left to do about them but
/// the removal of those that are over. Indexes are made afterwards, which takes a fraction
/// of the time.
///
/// # Errors
/// What the database says.
pub(crate) fn load(service: &Service, age: Age, count: i64, key_bytes: usize) -> Result<()> {
    let session = service.session()?;
    let usual: Option<String> = session.value(
        "select (select option_value from pg_options_to_table(reloptions)
            where option_name = 'fillfactor')
        from pg_class where oid = 'reprise.record'::regclass",
    )?;
    let drops: Vec<String> = session.column(DROP_INDEXES)?;
    let makes: Vec<String> = session.column(&make_indexes())?;
    session.run(&format!(
        "alter table reprise.record set (fillfactor = {FULL}, autovacuum_enabled = off)"
    ))?;
    drops.iter().try_for_each(|sql| session.run(sql))?;
    insert(service, age, count, key_bytes)?;
    session.run("set maintenance_work_mem = '1GB'")?;
    makes.iter().try_for_each(|sql| session.run(sql))?;
    session.run("alter table reprise.record reset (autovacuum_enabled)")?;
    session.run(&match usual {
        Some(share) => format!("alter table reprise.record set (fillfactor = {share})"),
        None => "alter table reprise.record reset (fillfactor)".to_owned(),
    })?;
    session.run(
        "update reprise.walk set granted_at = newest.at, id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
        from (select max(granted_at) as at from reprise.record) newest",
    )?;
    if age == Age::Over {
        session.run(
            "insert into reprise.removal (due, granted_from, granted_to)
            select now(), hour, hour + interval '1 hour'
            from (select min(granted_at) as first, max(granted_at) as last
                from reprise.record) r,
            generate_series(date_trunc('hour', r.first), r.last, '1 hour') hour",
        )?;
    }
    session.run("vacuum (freeze, analyze)")?;
    session.run("checkpoint")
}

const DROP_INDEXES: &str = "select coalesce(
        'alter table reprise.record drop constraint ' || quote_ident(c.conname),
        'drop index ' || i.indexrelid::regclass)
    from pg_index i left join pg_constraint c on c.conindid = i.indexrelid
        and c.conrelid = i.indrelid
    where i.indrelid = 'reprise.record'::regclass
    order by i.indexrelid";

/// The statements that bring back what [`DROP_INDEXES`] drops. The primary key is over ids,
/// which come in no order.
fn make_indexes() -> String {
    format!(
        "select coalesce(
            'alter table reprise.record add constraint ' || quote_ident(c.conname) || ' '
                || pg_get_constraintdef(c.oid) || ' with (fillfactor = {FULL})',
            pg_get_indexdef(i.indexrelid))
        from pg_index i left join pg_constraint c on c.conindid = i.indexrelid
            and c.conrelid = i.indrelid
        where i.indrelid = 'reprise.record'::regclass
        order by i.indexrelid"
    )
}

fn insert(service: &Service, age: Age, count: i64, key_bytes: usize) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let first = match age {
        Age::Kept => now - DAY - Duration::from_hours(6),
        Age::Over => now - 40 * DAY,
    };
    let each = (count / SESSIONS).max(1);
    let letters = key_bytes.saturating_sub(DIGITS).clamp(1, PREFIXES[0].len());
    let bulk = |prefix: &'static str| Bulk {
        tenant: "bench",
        prefix,
        count: each,
        state: 3,
        granted_from: Timestamp(i64::try_from(first.as_micros()).unwrap_or(i64::MAX)),
        every: SPREAD / u32::try_from(each).unwrap_or(u32::MAX),
        lease: Duration::from_secs(30),
        result_retention: 3 * DAY,
        memory_retention: 35 * DAY,
        body: BODY,
    };
    // Letters are one byte each.
    let bulks = PREFIXES.map(|prefix| bulk(&prefix[..letters]));
    std::thread::scope(|scope| {
        let inserts = bulks.map(|bulk| scope.spawn(move || service.session()?.insert(&bulk)));
        inserts.into_iter().try_for_each(|insert| {
            let inserted = insert
                .join()
                .ok()
                .context("inserting old records panicked")?;
            inserted.context("inserting old records")
        })
    })
}
