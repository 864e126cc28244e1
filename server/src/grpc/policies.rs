//! The policies in force, at hand for every call: read whole at the start, again every
//! two seconds, and at once after this server wrote one. While the database is away the
//! last known ones rule on.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rand::RngExt;
use reprise_domain::Policy;
use reprise_domain::policy::Mode;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::status::Causes;
use crate::store::{self, Store, StoredPolicy};

/// Longest pause between two readings. Policies reach all servers within 5 s.
const REFRESH: Duration = Duration::from_secs(2);

/// By older ones nobody is granted an attempt.
const AGE_MAX: Duration = Duration::from_secs(4);

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

/// What rules, by tenant and operation. An empty operation is the tenant's default, an
/// empty tenant stands for all that have nothing of their own.
type InForce = HashMap<String, HashMap<String, Arc<Policy>>>;

/// The policies in force.
pub(crate) struct Policies {
    store: Arc<dyn Store>,
    built_in: Arc<Policy>,
    in_force: RwLock<InForce>,
    /// One reading at a time, so that an older one never replaces a newer one. When the last
    /// one that succeeded began.
    reading: Mutex<()>,
    read_at: RwLock<Option<Instant>>,
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
            in_force: RwLock::default(),
            reading: Mutex::new(()),
            read_at: RwLock::new(None),
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
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        let of_tenant = in_force.get(tenant).or_else(|| in_force.get(""));
        of_tenant
            .and_then(|of_tenant| of_tenant.get(operation).or_else(|| of_tenant.get("")))
            .map_or_else(|| Arc::clone(&self.built_in), Arc::clone)
    }

    /// Reads what is stored where the last reading is too old to grant by: this process may
    /// have been stopped, and an operator holds something since.
    pub(crate) async fn fresh(&self) -> Result<(), store::Error> {
        if self.is_fresh() {
            return Ok(());
        }
        let _reading = self.reading.lock().await;
        match self.is_fresh() {
            true => Ok(()),
            false => self.read().await,
        }
    }

    fn is_fresh(&self) -> bool {
        let read_at = self.read_at.read().unwrap_or_else(PoisonError::into_inner);
        read_at.is_some_and(|at| at.elapsed() < AGE_MAX)
    }

    /// Reads what is stored, again.
    pub(crate) async fn refresh(&self) -> Result<(), store::Error> {
        let _reading = self.reading.lock().await;
        self.read().await
    }

    async fn read(&self) -> Result<(), store::Error> {
        let began = Instant::now();
        let stored = self.store.policies().await?;
        let mut in_force = InForce::new();
        let stored = Stored::of(&stored);
        let tenants: BTreeSet<&str> = stored.0.keys().map(|(tenant, _)| *tenant).collect();
        // A tenant without a default of its own has the one that rules all.
        let scopes = stored
            .0
            .keys()
            .copied()
            .chain(tenants.into_iter().map(|tenant| (tenant, "")))
            .chain([("", "")]);
        for (tenant, operation) in scopes {
            let found = stored.find(&self.built_in, tenant, operation);
            let of_tenant = in_force.entry(tenant.to_owned()).or_default();
            of_tenant.insert(operation.to_owned(), Arc::new(found.policy));
        }
        *self
            .in_force
            .write()
            .unwrap_or_else(PoisonError::into_inner) = in_force;
        *self.read_at.write().unwrap_or_else(PoisonError::into_inner) = Some(began);
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

/// What rules an operation, and where it comes from.
pub(crate) struct Found<'a> {
    /// With the mode in force.
    pub(crate) policy: Policy,
    /// The stored policy that the settings are from; none: the server's configuration.
    pub(crate) settings_of: Option<&'a StoredPolicy>,
    /// The stored policy of this very name.
    pub(crate) of_name: Option<&'a StoredPolicy>,
    pub(crate) source: Source,
}

/// All stored policies, by tenant and operation.
pub(crate) struct Stored<'a>(HashMap<(&'a str, &'a str), &'a StoredPolicy>);

impl<'a> Stored<'a> {
    /// Of all rows.
    pub(crate) fn of(rows: &'a [StoredPolicy]) -> Self {
        let rows = rows.iter();
        Self(
            rows.map(|row| ((row.tenant.as_str(), row.operation.as_str()), row))
                .collect(),
        )
    }

    /// Finds what rules `operation` of `tenant`: settings from the narrowest scope that
    /// has some, and HOLD where any scope says so.
    pub(crate) fn find(&self, built_in: &Policy, tenant: &str, operation: &str) -> Found<'a> {
        let named = |tenant: &str, operation: &str| self.0.get(&(tenant, operation)).copied();
        let scopes = [named(tenant, operation), named(tenant, ""), named("", "")];
        let settings_of = scopes
            .into_iter()
            .flatten()
            .find(|row| row.policy.is_some());
        let held = scopes
            .into_iter()
            .flatten()
            .any(|row| row.mode == Mode::Hold);
        let settings = settings_of.and_then(|row| row.policy.as_ref());
        Found {
            policy: Policy {
                mode: if held { Mode::Hold } else { Mode::Enforce },
                ..settings.unwrap_or(built_in).clone()
            },
            settings_of,
            of_name: scopes[0],
            source: match settings_of {
                None => Source::BuiltIn,
                Some(row) if row.operation.is_empty() => Source::Tenant,
                Some(_) => Source::Operation,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::PutPolicy;
    use crate::store::embedded::{Embedded, Options};

    #[tokio::test]
    async fn what_was_read_too_long_ago_is_read_again_before_anybody_is_granted() {
        let home = tempfile::tempdir().unwrap();
        let store = Embedded::open(&home.path().join("store"), Options::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let policies = Policies::load(Arc::clone(&store), Arc::default());
        let policies = policies.await.unwrap();
        let hold = PutPolicy {
            tenant: "t1".to_owned(),
            operation: String::new(),
            policy: None,
            mode: Mode::Hold,
            etag: String::new(),
            actor: "ann".to_owned(),
            reason: "stop".to_owned(),
        };
        store.put_policy(hold).await.unwrap();
        policies.fresh().await.unwrap();
        assert_eq!(
            policies.of("t1", "charge").mode,
            Mode::Enforce,
            "read lately"
        );
        // As after a pause of the whole process.
        *policies.read_at.write().unwrap() = Instant::now().checked_sub(AGE_MAX);
        policies.fresh().await.unwrap();
        assert_eq!(policies.of("t1", "charge").mode, Mode::Hold);
    }
}
