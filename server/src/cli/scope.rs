//! Which tenant and operation, or all: what a hold or an audit is about.

use std::fmt;

use clap::Args;

use super::args;
use super::exit::Error;
use super::target;

/// The flags of a scope.
#[derive(Args, Debug)]
pub(crate) struct ScopeFlags {
    /// Whose: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word)]
    tenant: Option<String>,
    /// Of this operation only
    #[arg(long, value_parser = args::word, conflicts_with = "all_tenants")]
    operation: Option<String>,
    /// Of no tenant alone: what is about all of them
    #[arg(long)]
    all_tenants: bool,
}

/// A tenant and operation. An empty operation stands for all of the tenant, an empty
/// tenant for all tenants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scope {
    pub(crate) tenant: String,
    pub(crate) operation: String,
}

impl ScopeFlags {
    pub(crate) fn scope(&self) -> Result<Scope, Error> {
        if !self.all_tenants {
            return Ok(Scope {
                tenant: target::tenant(self.tenant.as_deref())?,
                operation: self.operation.clone().unwrap_or_default(),
            });
        }
        // The variable stands for whoever names nobody.
        let variable = std::env::var("REPRISE_TENANT").ok();
        if self.tenant.is_some() && self.tenant != variable {
            let told = "--tenant and --all-tenants exclude each other";
            return Err(Error::Usage(told.to_owned()));
        }
        Ok(Scope {
            tenant: String::new(),
            operation: String::new(),
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.tenant, &*self.operation) {
            ("", _) => f.write_str("all tenants"),
            (tenant, "") => write!(f, "{tenant}, all operations"),
            (tenant, operation) => write!(f, "{tenant} {operation}"),
        }
    }
}
