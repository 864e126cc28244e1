//! `reprise hold` and `reprise release`: the stop button. Each writes the mode of the
//! policy of one scope and leaves its other settings as they are.

use clap::Args;
use reprise_client::proto::{
    GetPolicyRequest, ListPoliciesRequest, Mode, Policy, PutPolicyRequest,
};
use reprise_client::{Client, Reason};

use super::answer;
use super::args::{self, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::output::{Output, note};
use super::scope::{Scope, ScopeFlags};
use super::value::Fields;

/// How often a policy that others write meanwhile is read again.
const ROUNDS: usize = 5;

/// Grant nobody an attempt, in 5 s everywhere; replays, reports and renewals go on
#[derive(Args, Debug)]
pub(crate) struct HoldFlags {
    #[command(flatten)]
    change: ChangeFlags,
}

/// Grant attempts again where they were held
#[derive(Args, Debug)]
pub(crate) struct ReleaseFlags {
    #[command(flatten)]
    change: ChangeFlags,
}

#[derive(Args, Debug)]
struct ChangeFlags {
    #[command(flatten)]
    scope: ScopeFlags,
    /// Why, for people: 1 byte to 1 KiB
    #[arg(long, value_parser = args::reason)]
    reason: String,
    /// Who does it; user@host unless given
    #[arg(long, value_parser = args::actor)]
    actor: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn hold(flags: &HoldFlags) -> Result<Exit, Error> {
    change(&flags.change, Mode::Hold).await
}

pub(crate) async fn release(flags: &ReleaseFlags) -> Result<Exit, Error> {
    change(&flags.change, Mode::Enforce).await
}

async fn change(flags: &ChangeFlags, mode: Mode) -> Result<Exit, Error> {
    let scope = flags.scope.scope()?;
    let client = flags.server.client()?;
    let actor = flags.actor.clone().unwrap_or_else(args::user_at_host);
    let mut last = None;
    for _ in 0..ROUNDS {
        let stored = stored(&client, &scope).await?;
        if stored.mode() == mode || (mode == Mode::Enforce && stored.etag.is_empty()) {
            return tell(flags, &client, &scope, mode, false).await;
        }
        let request = PutPolicyRequest {
            policy: Some(with_mode(stored, mode)),
            actor: actor.clone(),
            reason: flags.reason.clone(),
        };
        match client.put_policy(request).await {
            Ok(_) => return tell(flags, &client, &scope, mode, true).await,
            // Somebody else wrote it, or an answer was lost: read it again.
            Err(error) if error.reason() == Some(Reason::RevisionChanged) => last = Some(error),
            Err(error) if error.outcome_unknown() => last = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    match last {
        Some(error) => Err(error.into()),
        None => Err(Error::Other("the policy was not read".to_owned())),
    }
}

/// The policy that is stored for this very scope; where there is none, one that says
/// nothing.
async fn stored(client: &Client, scope: &Scope) -> Result<Policy, Error> {
    let Scope { tenant, operation } = scope.clone();
    if !tenant.is_empty() {
        let request = GetPolicyRequest { tenant, operation };
        let policy = client.get_policy(request).await?.policy;
        return Ok(policy.unwrap_or_default());
    }
    // The one of all tenants is the first in order.
    let request = ListPoliciesRequest {
        page_size: 1,
        ..ListPoliciesRequest::default()
    };
    let first = client.list_policies(request).await?.policies;
    let is_of_all = |policy: &Policy| policy.tenant.is_empty() && policy.operation.is_empty();
    Ok(first.into_iter().find(is_of_all).unwrap_or_default())
}

/// As it was but for the mode. One that is not stored yet, or has no settings of its own,
/// goes on to take those of the wider scope.
fn with_mode(stored: Policy, mode: Mode) -> Policy {
    if !stored.etag.is_empty() && !stored.inherits {
        return Policy {
            mode: mode.into(),
            ..stored
        };
    }
    Policy {
        tenant: stored.tenant,
        operation: stored.operation,
        etag: stored.etag,
        mode: mode.into(),
        inherits: true,
        ..Policy::default()
    }
}

async fn tell(
    flags: &ChangeFlags,
    client: &Client,
    scope: &Scope,
    mode: Mode,
    written: bool,
) -> Result<Exit, Error> {
    let words = match (mode, written) {
        (Mode::Hold, true) => format!(
            "HELD: {scope}. Nobody is granted an attempt any more, in 5 s on all servers.\n\
             Replays, reports and renewals go on; `reprise release` ends it."
        ),
        (Mode::Hold, false) => format!("Held before, nothing was written: {scope}."),
        (_, true) => format!("Released: {scope}. Attempts are granted again, in 5 s everywhere."),
        (_, false) => format!("Not held, nothing was written: {scope}."),
    };
    if mode != Mode::Hold && held(client, scope).await? {
        note!("warning: a wider scope is still held; `reprise status` says which");
    }
    let answer = Fields::new()
        .with("tenant", &*scope.tenant)
        .with("operation", &*scope.operation)
        .with("mode", answer::word(mode.as_str_name(), "MODE_"))
        .with("written", written);
    Output::new(&flags.output).answer(words, &answer)?;
    Ok(Exit::Done)
}

/// Whether a scope, or a wider one, is held.
async fn held(client: &Client, scope: &Scope) -> Result<bool, Error> {
    let Scope { tenant, operation } = scope.clone();
    if tenant.is_empty() {
        return Ok(false);
    }
    let request = GetPolicyRequest { tenant, operation };
    Ok(client.get_policy(request).await?.held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_its_own_stay_and_others_are_not_copied() {
        let own = Policy {
            tenant: "shop".to_owned(),
            etag: "7".to_owned(),
            result_bytes_max: Some(9),
            ..Policy::default()
        };
        let held = with_mode(own.clone(), Mode::Hold);
        assert_eq!(held.mode(), Mode::Hold);
        assert_eq!(held.result_bytes_max, Some(9));
        assert!(!held.inherits);
        // What is in force by a wider scope is answered without an etag.
        let in_force = Policy {
            etag: String::new(),
            ..own
        };
        let held = with_mode(in_force, Mode::Hold);
        assert!(held.inherits);
        assert_eq!(held.result_bytes_max, None);
    }
}
