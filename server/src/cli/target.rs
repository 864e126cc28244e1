//! Which record a command is about: by its name, its id, or an effect key.

use clap::Args;
use reprise_client::proto::{EffectKey, RecordId, RecordName, lookup_request::Target};

use super::args;
use super::exit::Error;

/// One record, by any of its names.
#[derive(Args, Debug)]
pub(crate) struct TargetFlags {
    /// Whose: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word, help_heading = "Record")]
    pub(crate) tenant: Option<String>,
    /// What is to be done once; with --key
    #[arg(long, value_parser = args::word, help_heading = "Record")]
    pub(crate) operation: Option<String>,
    /// On whose behalf, empty for the tenant itself
    #[arg(long, default_value = "", hide_default_value = true, value_parser = args::subject, help_heading = "Record", requires = "key")]
    pub(crate) subject: String,
    /// The key of the intent; with --operation
    #[arg(long, value_parser = args::key, help_heading = "Record")]
    pub(crate) key: Option<String>,
    /// In place of operation, subject and key: the record's id, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", help_heading = "Record", conflicts_with_all = ["operation", "key", "subject", "effect_key"])]
    pub(crate) record_id: Option<String>,
    /// In place of operation, subject and key: an effect key, as the provider knows it
    #[arg(long, value_name = "UUID", help_heading = "Record", conflicts_with_all = ["operation", "key", "subject"])]
    pub(crate) effect_key: Option<String>,
}

impl TargetFlags {
    /// The record that was named.
    pub(crate) fn target(&self) -> Result<Target, Error> {
        let tenant = tenant(self.tenant.as_deref())?;
        let wrong =
            |flag: &str, allowed: String| Error::Usage(format!("{flag}: must be {allowed}"));
        if let Some(id) = &self.record_id {
            let id = reprise_domain::RecordId::parse(id)
                .map_err(|error| wrong("--record-id", error.allowed))?;
            let id = id.to_string();
            return Ok(Target::RecordId(RecordId { tenant, id }));
        }
        if let Some(key) = &self.effect_key {
            let key = reprise_domain::EffectKey::parse(key)
                .map_err(|error| wrong("--effect-key", error.allowed))?;
            let key = key.to_string();
            return Ok(Target::EffectKey(EffectKey { tenant, key }));
        }
        let (Some(operation), Some(key)) = (&self.operation, &self.key) else {
            let ways = "--operation with --key, --record-id or --effect-key";
            return Err(Error::Usage(format!("no record: use {ways}")));
        };
        Ok(Target::Record(RecordName {
            tenant,
            operation: operation.clone(),
            subject: self.subject.clone(),
            key: key.clone(),
        }))
    }
}

/// A tenant that must have been given.
pub(crate) fn tenant(given: Option<&str>) -> Result<String, Error> {
    let ways = "--tenant or the environment variable REPRISE_TENANT";
    let given = given.ok_or_else(|| Error::Usage(format!("no tenant: use {ways}")))?;
    Ok(given.to_owned())
}
