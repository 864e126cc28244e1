//! What all parts of a run share.

use std::time::Duration;

use anyhow::{Context, Result};
use reprise_tests::postgres::{PostgresServer, Version};
use serde_json::json;

use crate::direct::{Direct, Names, Work};
use crate::generator::{Length, Load};
use crate::options::Options;
use crate::pgbench::Pace;
use crate::process_info::family_cpu_s;
use crate::progress::Progress;
use crate::report::Report;
use crate::service::{Service, checkpoint};
use crate::sql::Session;
use crate::{pgbench, stats};

/// Of the private server, for both sides alike: every commit is on disk before it is
/// answered, pages are protected against torn writes, vacuum runs.
pub(crate) const SETTINGS: [(&str, &str); 12] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("wal_level", "replica"),
    ("shared_buffers", "1GB"),
    ("max_connections", "300"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("checkpoint_completion_target", "0.9"),
    ("maintenance_work_mem", "256MB"),
    ("autovacuum", "on"),
    // Its rounds are to fall into the measurements, not between them.
    ("autovacuum_naptime", "15s"),
];

/// A private server, and what was found out so far.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) postgres: PostgresServer,
    pub(crate) report: Report,
    pub(crate) progress: Progress,
    pub(crate) names: Names,
    load: Option<(usize, usize)>,
    clients: Option<usize>,
    /// Lifecycles a second through the service on Postgres, the highest measured.
    pub(crate) highest: Option<f64>,
}

/// One measurement of the direct side.
pub(crate) struct Directly {
    pub(crate) per_second: f64,
    /// CPU of PostgreSQL in microseconds for each.
    pub(crate) postgres_cpu_us: f64,
}

impl Bench {
    /// # Errors
    /// When PostgreSQL or the service does not start.
    pub(crate) fn start(options: Options, progress: Progress) -> Result<Self> {
        let postgres = PostgresServer::start(Version::V15, &SETTINGS)?;
        let names = names(&postgres, &options.server_args)?;
        let mut report = Report::default();
        let settings: serde_json::Map<_, _> = SETTINGS
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.into()))
            .collect();
        let version: String = Session::open(&postgres.url())?.value("select version()")?;
        report.fact("quick", options.quick.into());
        report.fact("machine", crate::machine::describe());
        report.fact("reprise_version", reprise_version()?.into());
        report.fact("postgres_version", version.into());
        report.fact("postgres_settings", settings.into());
        report.fact("server_args", options.server_args.join(" ").into());
        report.fact("direct_table", crate::direct::TABLE.into());
        report.fact("direct_lifecycle", names.script(Work::Lifecycle).into());
        let (load, clients) = (options.load, options.clients);
        Ok(Self {
            options,
            postgres,
            report,
            progress,
            names,
            load,
            clients,
            highest: None,
        })
    }

    /// Length of a measurement, in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        if self.options.quick { 6 } else { 10 }
    }

    /// The load of the service: so many lifecycles at once as carry most.
    ///
    /// # Errors
    /// When the search for them fails.
    pub(crate) fn load(&mut self) -> Result<Load> {
        let (concurrency, connections) = match self.load {
            Some(found) => found,
            None => self.find_load()?,
        };
        let found = json!({"concurrency": concurrency, "connections": connections});
        self.report.fact("service_load", found);
        Ok(Load {
            mix: "lifecycle",
            connections,
            concurrency,
            length: Length::Seconds(self.seconds()),
            warm_up_s: 2,
            more: Vec::new(),
        })
    }

    /// The same on the embedded store, which may take more at once to be carried most.
    ///
    /// # Errors
    /// When the search for it fails.
    pub(crate) fn embedded_load(&mut self, args: &[String]) -> Result<Load> {
        let load = self.load()?;
        if self.options.load.is_some() {
            return Ok(load);
        }
        let service = Service::embedded(args)?;
        let mut best = (0.0, load.concurrency);
        for concurrency in [load.concurrency, 2 * load.concurrency] {
            let rate = self.try_load(&service, concurrency, load.connections)?;
            if rate > best.0 {
                best = (rate, concurrency);
            }
        }
        let found = json!({"concurrency": best.1, "connections": load.connections});
        self.report.fact("embedded_load", found);
        Ok(Load {
            concurrency: best.1,
            ..load
        })
    }

    /// Lifecycles a second under a short load.
    fn try_load(&self, service: &Service, concurrency: usize, connections: usize) -> Result<f64> {
        let load = Load {
            mix: "lifecycle",
            connections,
            concurrency,
            length: Length::Seconds(self.seconds() / 2),
            warm_up_s: 1,
            more: Vec::new(),
        };
        let measured = service.measure(&self.postgres, &load)?;
        let rate = measured.generated.per_second()?;
        self.progress.say(&format!(
            "{concurrency} callers on {connections} connections: {rate:.0} lifecycles/s"
        ));
        Ok(rate)
    }

    fn find_load(&mut self) -> Result<(usize, usize)> {
        let service = self.service()?;
        let mut tried = Vec::new();
        let mut rate = |this: &Self, concurrency, connections| {
            let rate = this.try_load(&service, concurrency, connections)?;
            tried.push(json!([concurrency, connections, stats::rounded(rate)]));
            anyhow::Ok(rate)
        };
        let mut best = (0.0, (0, 0));
        for concurrency in [64, 128, 256, 512] {
            let rate = rate(self, concurrency, 2)?;
            if rate > best.0 {
                best = (rate, (concurrency, 2));
            }
        }
        let concurrency = best.1.0;
        if rate(self, concurrency, 4)? > best.0 {
            best.1 = (concurrency, 4);
        }
        self.report.detail("service_loads_tried", tried.into());
        self.load = Some(best.1);
        Ok(best.1)
    }

    /// Clients of pgbench: so many as carry most.
    ///
    /// # Errors
    /// When the search for them fails.
    pub(crate) fn clients(&mut self) -> Result<usize> {
        if let Some(clients) = self.clients {
            self.report.fact("pgbench_clients", clients.into());
            return Ok(clients);
        }
        let direct = self.direct()?;
        let mut best = (0.0, 0);
        for clients in [32, 64] {
            let length = pgbench::Length::Seconds(self.seconds() / 2);
            checkpoint(&self.postgres)?;
            let outcome = direct.run(
                &self.postgres,
                Work::Lifecycle,
                clients,
                length,
                Pace::Closed,
            )?;
            let rate = outcome.per_second;
            self.progress.say(&format!(
                "pgbench with {clients} clients: {rate:.0} lifecycles/s"
            ));
            if rate > best.0 {
                best = (rate, clients);
            }
        }
        self.clients = Some(best.1);
        self.report.fact("pgbench_clients", best.1.into());
        Ok(best.1)
    }

    /// An empty direct table in a database of its own.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn direct(&self) -> Result<Direct> {
        Direct::create(&self.postgres, &self.names)
    }

    /// The service on an empty database of its own.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn service(&self) -> Result<Service> {
        Service::on_postgres(&self.postgres, &self.options.server_args)
    }

    /// Measures the direct side after a warm-up, from a checkpoint on.
    ///
    /// # Errors
    /// When pgbench fails.
    pub(crate) fn directly(&self, direct: &Direct, work: Work, clients: usize) -> Result<Directly> {
        let run = |seconds| {
            let length = pgbench::Length::Seconds(seconds);
            direct.run(&self.postgres, work, clients, length, Pace::Closed)
        };
        checkpoint(&self.postgres)?;
        run(2)?;
        let cpu = || family_cpu_s(self.postgres.pid()?);
        let before = cpu()?;
        let outcome = run(self.seconds())?;
        Ok(Directly {
            per_second: outcome.per_second,
            postgres_cpu_us: (cpu()? - before) * 1e6 / outcome.transactions as f64,
        })
    }

    /// Removes every database of a part, so that it leaves no load behind for the next one.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) fn clear(&self) -> Result<()> {
        let session = Session::open(&self.postgres.url())?;
        let names = "select datname::text from pg_database where datname like 'fresh\\_%'";
        for name in session.column::<String>(names)? {
            session.run(&format!("drop database {name} with (force)"))?;
        }
        session.run("checkpoint")
    }
}

/// What the names in the generator's load look like.
fn names(postgres: &PostgresServer, server_args: &[String]) -> Result<Names> {
    let service = Service::on_postgres(postgres, server_args)?;
    let server = service.start()?;
    let few = Load {
        mix: "lifecycle",
        connections: 1,
        concurrency: 16,
        length: Length::Operations(500),
        warm_up_s: 0,
        more: Vec::new(),
    };
    few.run(&server.url())?;
    server.stop()?;
    let session = service.session()?;
    let one = |what: &str| format!("select {what} from reprise.record limit 1");
    let key_bytes: i64 =
        session.value("select round(avg(octet_length(key)))::int8 from reprise.record")?;
    let body: Option<i64> =
        session.value("select max(octet_length(body))::int8 from reprise.record")?;
    anyhow::ensure!(
        body == i64::try_from(crate::direct::BODY_BYTES).ok(),
        "the load's results are not of the length that was asked for: {body:?}"
    );
    Ok(Names {
        tenant: session.value(&one("tenant"))?,
        operation: session.value(&one("operation"))?,
        key_bytes: usize::try_from(key_bytes)?,
    })
}

fn reprise_version() -> Result<String> {
    let output = std::process::Command::new(reprise_tests::reprise_bin::path()?)
        .arg("--version")
        .output()
        .context("starting reprise")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Waits until `holds`, looking ten times a second.
///
/// # Errors
/// When it does not within `limit`.
pub(crate) fn wait(
    what: &str,
    limit: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    reprise_tests::poll::until(what, limit, || {
        if holds()? {
            return Ok(Some(()));
        }
        std::thread::sleep(Duration::from_millis(100));
        Ok(None)
    })
}
