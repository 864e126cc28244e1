//! The policies in force, at hand for every call: read whole at the start, again every
//! two seconds, and at once after this server wrote one. While the database is away the
//! last known ones rule on.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rand::RngExt;
use reprise_domain::Policy;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::status::Causes;
use crate::store::{self, Store, StoredPolicy};

/// Longest pause between two readings. Policies reach all servers within 5 s.
const REFRESH: Duration = Duration::from_secs(2);

/// Where a policy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Stored for the operation.
    Operation,
    /// Stored as the tenant's default.
    Tenant,
    /// The server's configuration.
    BuiltIn,
}

type ByOperation = HashMap<String, Arc<Policy>>;

/// The policies in force.
pub(crate) struct Policies {
    store: Arc<dyn Store>,
    built_in: Arc<Policy>,
    stored: RwLock<HashMap<String, ByOperation>>,
    /// One reading at a time, so that an older one never replaces a newer one.
    reading: Mutex<()>,
}

impl Policies {
    /// Reads what is stored.
    pub(crate) async fn load(
        store: Arc<dyn Store>,
        built_in: Arc<Policy>,
    ) -> Result<Self, store::Error> {
        let policies = Self {
            store,
            built_in,
            stored: RwLock::default(),
            reading: Mutex::new(()),
        };
        policies.refresh().await?;
        Ok(policies)
    }

    /// What rules where nothing is stored.
    pub(crate) fn built_in(&self) -> &Policy {
        &self.built_in
    }

    /// What rules an operation now.
    pub(crate) fn of(&self, tenant: &str, operation: &str) -> Arc<Policy> {
        let stored = self.stored.read().unwrap_or_else(PoisonError::into_inner);
        stored
            .get(tenant)
            .and_then(|of_tenant| of_tenant.get(operation).or_else(|| of_tenant.get("")))
            .map_or_else(|| Arc::clone(&self.built_in), Arc::clone)
    }

    /// Reads what is stored, again.
    pub(crate) async fn refresh(&self) -> Result<(), store::Error> {
        let _reading = self.reading.lock().await;
        let mut stored: HashMap<String, ByOperation> = HashMap::new();
        for row in self.store.policies().await? {
            let of_tenant = stored.entry(row.tenant).or_default();
            of_tenant.insert(row.operation, Arc::new(row.policy));
        }
        *self.stored.write().unwrap_or_else(PoisonError::into_inner) = stored;
        Ok(())
    }

    /// Reads again and again, until `closing`.
    pub(crate) async fn keep_fresh(self: Arc<Self>, closing: CancellationToken) {
        let mut known = true;
        loop {
            let pause = REFRESH.mul_f64(rand::rng().random_range(0.75..=1.0));
            tokio::select! {
                () = closing.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            match self.refresh().await {
                Ok(()) => known = true,
                Err(error) if known => {
                    known = false;
                    tracing::warn!(causes = %Causes(&error), "policies cannot be read; the last known ones rule on");
                }
                // Said once; what is down is said by others too.
                Err(_) => {}
            }
        }
    }
}

/// The stored policy that rules an operation, and the one of this very name.
pub(crate) struct Found<'a> {
    pub(crate) in_force: Option<&'a StoredPolicy>,
    pub(crate) of_name: Option<&'a StoredPolicy>,
    pub(crate) source: Source,
}

/// Finds what rules `operation` of `tenant` among all stored policies.
pub(crate) fn find<'a>(stored: &'a [StoredPolicy], tenant: &str, operation: &str) -> Found<'a> {
    let named = |operation: &str| {
        let is = |row: &&StoredPolicy| row.tenant == tenant && row.operation == operation;
        stored.iter().find(is)
    };
    let (of_name, of_tenant) = (named(operation), named(""));
    let in_force = of_name.or(of_tenant);
    Found {
        in_force,
        of_name,
        source: match in_force {
            None => Source::BuiltIn,
            Some(row) if row.operation.is_empty() => Source::Tenant,
            Some(_) => Source::Operation,
        },
    }
}
