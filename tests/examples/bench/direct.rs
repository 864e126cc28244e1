//! The other side of the comparison: the table that a careful team would make in its own
//! database for the same job, and the two statements that it would run.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use reprise_tests::postgres::PostgresServer;
use tempfile::TempDir;

use crate::pgbench::{Length, Outcome, Pace, Run};
use crate::sql::Session;

/// Holds the facts that the service holds about the same life. Fixed widths first, so that
/// rows carry no padding; default fillfactor. Old rows are found by `created_at`: an index
/// over `expires_at` would end HOT updates, and cost this side more.
pub(crate) const TABLE: &str = "create table direct (
    created_at timestamptz not null,
    updated_at timestamptz not null,
    lease_end timestamptz not null,
    expires_at timestamptz not null,
    fence bigint not null,
    state smallint not null,
    tenant text collate \"C\" not null,
    operation text collate \"C\" not null,
    subject text collate \"C\" not null,
    key text collate \"C\" not null,
    fingerprint bytea not null,
    attempt_id bytea not null,
    code text,
    body bytea,
    primary key (tenant, operation, subject, key)
);
create index direct_created_at on direct (created_at);
";

/// Bytes of a result, on both sides.
pub(crate) const BODY_BYTES: usize = 70;

/// How long the texts of a record's name are, on both sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Names {
    pub(crate) tenant: String,
    pub(crate) operation: String,
    pub(crate) key_bytes: usize,
}

/// What pgbench does in one transaction of the script; each statement commits by itself.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Insert a fresh key, then store the result.
    Lifecycle,
    /// Insert a fresh key.
    Insert,
    /// Read one of so many completed keys.
    Select { keys: u64 },
}

impl Names {
    /// Key texts: something fixed, and then digits that pgbench draws. It has no texts of its
    /// own, so joining the two is the database's work, a fraction of a microsecond.
    fn key(&self) -> (String, u32) {
        let digits = self.key_bytes.clamp(1, 18);
        let fixed = "k".repeat(self.key_bytes - digits);
        (fixed, u32::try_from(digits).unwrap_or(18))
    }

    /// The script. What is the same in every call stands in the statement as a constant: to
    /// send it would cost this side more.
    pub(crate) fn script(&self, work: Work) -> String {
        let (fixed, digits) = self.key();
        let key = format!("'{fixed}' || :n");
        let (tenant, operation) = (&self.tenant, &self.operation);
        let low = 10_u64.pow(digits - 1);
        let insert = format!(
            "insert into direct (created_at, updated_at, lease_end, expires_at, fence, state, \
             tenant, operation, subject, key, fingerprint, attempt_id) values (now(), now(), \
             now() + interval '30 seconds', now() + interval '35 days', 1, 1, '{tenant}', \
             '{operation}', '', {key}, '\\x{}', '\\x{}') on conflict do nothing;\n",
            "5a".repeat(32),
            "c3".repeat(16),
        );
        let name = format!(
            "tenant = '{tenant}' and operation = '{operation}' and subject = '' and key = {key}"
        );
        let update = format!(
            "update direct set state = 3, updated_at = now(), \
             expires_at = now() + interval '35 days', code = '200', body = '\\x{}' \
             where {name} and fence = 1 and state = 1;\n",
            "78".repeat(BODY_BYTES),
        );
        let fresh = format!("\\set n random({low}, {})\n", low * 10 - 1);
        match work {
            Work::Lifecycle => format!("{fresh}{insert}{update}"),
            Work::Insert => format!("{fresh}{insert}"),
            Work::Select { keys } => format!(
                "\\set n random({low}, {})\nselect state, fingerprint, attempt_id, fence, \
                 expires_at, code, body from direct where {name};\n",
                low + keys - 1,
            ),
        }
    }

    /// Inserts completed rows with the keys that [`Work::Select`] reads.
    pub(crate) fn fill(&self, keys: u64) -> String {
        let (fixed, digits) = self.key();
        let low = 10_u64.pow(digits - 1);
        format!(
            "insert into direct (created_at, updated_at, lease_end, expires_at, fence, state, \
             tenant, operation, subject, key, fingerprint, attempt_id, code, body) \
             select now(), now(), now(), now() + interval '35 days', 1, 3, '{}', '{}', '', \
             '{fixed}' || n, sha256(n::text::bytea), decode(md5(n::text), 'hex'), '200', \
             '\\x{}' from generate_series({low}, {}) n",
            self.tenant,
            self.operation,
            "78".repeat(BODY_BYTES),
            low + keys - 1,
        )
    }
}

/// A database with the table in it, and scripts for pgbench.
pub(crate) struct Direct {
    database: String,
    url: String,
    names: Names,
    scripts: TempDir,
}

impl Direct {
    /// # Errors
    /// When the database cannot be made.
    pub(crate) fn create(postgres: &PostgresServer, names: &Names) -> Result<Self> {
        let url = postgres.fresh_database()?;
        let database = url.rsplit('/').next().unwrap_or_default().to_owned();
        Session::open(&url)?.run(TABLE)?;
        Ok(Self {
            database,
            url,
            names: names.clone(),
            scripts: tempfile::tempdir()?,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn run(
        &self,
        postgres: &PostgresServer,
        work: Work,
        clients: usize,
        length: Length,
        pace: Pace,
    ) -> Result<Outcome> {
        let script: PathBuf = self.scripts.path().join("direct.sql");
        fs::write(&script, self.names.script(work))?;
        let run = Run {
            script: &script,
            database: &self.database,
            clients,
            length,
            pace,
        };
        run.run(postgres)
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, Work};

    fn names(key_bytes: usize) -> Names {
        Names {
            tenant: "bench".to_owned(),
            operation: "charge".to_owned(),
            key_bytes,
        }
    }

    #[test]
    fn keys_are_as_long_as_those_of_the_service() {
        for key_bytes in [1, 12, 18, 36] {
            let (fixed, digits) = names(key_bytes).key();
            assert_eq!(fixed.len() + digits as usize, key_bytes);
        }
        let script = names(21).script(Work::Insert);
        // More digits are more than pgbench's numbers hold.
        let range = "random(100000000000000000, 999999999999999999)";
        assert!(script.contains(range), "{script}");
    }

    #[test]
    fn a_lifecycle_is_two_statements_and_a_fresh_key() {
        let script = names(12).script(Work::Lifecycle);
        let starts: Vec<_> = script
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(starts, ["\\set", "insert", "update"]);
        assert!(
            script.contains("random(100000000000, 999999999999)"),
            "{script}"
        );
    }

    #[test]
    fn what_is_read_is_what_was_filled_in() {
        let script = names(12).script(Work::Select { keys: 500 });
        assert!(
            script.contains("random(100000000000, 100000000499)"),
            "{script}"
        );
        assert!(
            names(12)
                .fill(500)
                .contains("generate_series(100000000000, 100000000499)")
        );
    }
}
