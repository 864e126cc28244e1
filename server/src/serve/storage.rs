//! Which store the settings name, and how it is opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use crate::config::{Config, DatabaseUrl};
use crate::grpc::Rooms;
use crate::store::Store;
use crate::store::embedded::{self, Embedded};
use crate::store::postgres::{self, Postgres};

/// The embedded store's file in its directory.
const EMBEDDED_FILE: &str = "reprise.sqlite";

/// Opens the store; it tells `rooms` about its changes.
pub(super) async fn open(config: &Config, rooms: &Rooms) -> anyhow::Result<Arc<dyn Store>> {
    if let Some(url) = &config.database_url {
        let postgres = open_postgres(config, url, rooms).await;
        let opened = postgres.with_context(|| format!("cannot use the {}", url.place()));
        return Ok(Arc::new(opened?));
    }
    let directory = config.data_dir.clone();
    let options = embedded::Options {
        on_change: Some(rooms.on_change()),
        ..embedded::Options::default()
    };
    let opening = tokio::task::spawn_blocking(move || open_embedded(&directory, options));
    Ok(Arc::new(opening.await??))
}

async fn open_postgres(
    config: &Config,
    url: &DatabaseUrl,
    rooms: &Rooms,
) -> Result<Postgres, postgres::OpenError> {
    if config.migrate {
        let migrated = postgres::migrate(url.reveal()).await?;
        tracing::info!(applied = ?migrated.applied, version = migrated.version, "migrated");
    }
    let settings = postgres::Config {
        pool_size: config.pool_size,
        writers: config.writers,
        prepared: config.prepared,
        allow_unsafe_durability: config.allow_unsafe_durability,
        ..postgres::Config::new(url.reveal())
    };
    let options = postgres::Options {
        on_change: Some(rooms.on_change()),
        ..postgres::Options::default()
    };
    Postgres::connect(settings, options).await
}

fn open_embedded(directory: &Path, options: embedded::Options) -> anyhow::Result<Embedded> {
    std::fs::create_dir_all(directory).with_context(|| {
        let shown = directory.display();
        format!("the directory {shown} cannot be made; another is chosen by --data-dir DIR")
    })?;
    let path = directory.join(EMBEDDED_FILE);
    Ok(Embedded::open(&path, options)?)
}
