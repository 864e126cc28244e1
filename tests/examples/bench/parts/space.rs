//! Bytes on disk for one completed record, tables and indexes, after vacuum: as many
//! lifecycles on both sides, through the service and by pgbench.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::bench::{Bench, wait};
use crate::direct::Work;
use crate::generator::{Length, Load};
use crate::pgbench::{self, Pace};
use crate::sql::Session;

const RECORDS: u64 = 320_000;
const WALK_LIMIT: Duration = Duration::from_secs(300);
const WALKED: &str = "select w.granted_at >= (select max(granted_at) from reprise.record)
    from reprise.walk w";

/// Of all tables of a schema, with indexes and what is stored apart.
pub(super) fn bytes_of(schema: &str) -> String {
    format!(
        "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = '{schema}' and c.relkind in ('r', 'm')"
    )
}

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let service = bench.service()?;
    let session = service.session()?;
    let empty: i64 = session.value(&bytes_of("reprise"))?;
    let load = Load {
        length: Length::Operations(RECORDS),
        warm_up_s: 0,
        ..bench.load()?
    };
    let server = service.start()?;
    load.run(&server.url())?;
    bench.progress.say("waiting until all is filed");
    wait("the walk over all grants", WALK_LIMIT, || {
        session.value(WALKED)
    })?;
    server.stop()?;
    session.run("vacuum")?;
    let ours = bytes_a_row(&session, "reprise", "reprise.record", empty)?;
    bench
        .report
        .detail("service_sizes", sizes(&session, "reprise")?);

    let clients = bench.clients()?;
    let direct = bench.direct()?;
    let session = Session::open(direct.url())?;
    let empty: i64 = session.value(&bytes_of("public"))?;
    let each = RECORDS / u64::try_from(clients)?;
    let length = pgbench::Length::Transactions(each);
    direct.run(
        &bench.postgres,
        Work::Lifecycle,
        clients,
        length,
        Pace::Closed,
    )?;
    session.run("vacuum")?;
    let theirs = bytes_a_row(&session, "public", "direct", empty)?;
    bench
        .report
        .detail("direct_sizes", sizes(&session, "public")?);

    bench.progress.say(&format!(
        "{ours:.0} bytes a record, {theirs:.0} a row directly"
    ));
    bench
        .report
        .figure("bytes_per_record_ratio", vec![ours / theirs])?;
    bench.report.raw("bytes_per_record", &[ours])?;
    bench.report.raw("direct_bytes_per_row", &[theirs])
}

fn bytes_a_row(session: &Session, schema: &str, table: &str, empty: i64) -> Result<f64> {
    let rows: i64 = session.value(&format!("select count(*) from {table}"))?;
    ensure!(rows > 0, "{table} is empty");
    let bytes: i64 = session.value(&bytes_of(schema))?;
    Ok((bytes - empty) as f64 / rows as f64)
}

/// How the bytes are spread over tables and indexes.
fn sizes(session: &Session, schema: &str) -> Result<Value> {
    let text: String = session.value(&format!(
        "select coalesce(json_object_agg(c.relname, pg_relation_size(c.oid)), '{{}}')::text
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = '{schema}' and pg_relation_size(c.oid) > 65536"
    ))?;
    Ok(serde_json::from_str(&text)?)
}
