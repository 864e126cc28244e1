//! `reprise policy`: reads and writes the settings of operations.

mod document;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reprise_client::Client;
use reprise_client::proto::{
    self, GetPolicyRequest, GetPolicyResponse, ListPoliciesRequest, PutPolicyRequest,
};
use reprise_domain::policy::Mode;
use reprise_domain::{Policy, Timestamp};

use super::args::{self, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::output::{self, Output, note};
use super::value::{Fields, Value};
use super::{answer, table};
use crate::grpc::convert;
use crate::store::StoredPolicy;
use document::{Document, Named};

/// Policies of one page.
const PAGE_SIZE: u32 = 100;

/// Read and write the settings of operations
#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    Get(GetFlags),
    Put(Box<PutFlags>),
    List(ListFlags),
    Apply(ApplyFlags),
}

/// Show the policy in force for an operation, and where it comes from
#[derive(Args, Debug)]
pub(crate) struct GetFlags {
    /// Whose policy
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word)]
    tenant: String,
    /// Leave out for the tenant's default
    #[arg(long, value_parser = args::word)]
    operation: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Change settings of one policy; what no flag names stays as it is in force
#[derive(Args, Debug)]
pub(crate) struct PutFlags {
    #[command(flatten)]
    document: Document,
    /// Why, for people: 1 byte to 1 KiB
    #[arg(long, value_parser = args::reason)]
    reason: String,
    #[command(flatten)]
    write: WriteFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Show the stored policies of a tenant
#[derive(Args, Debug)]
pub(crate) struct ListFlags {
    /// Whose policies
    #[arg(long, env = "REPRISE_TENANT", value_parser = args::word)]
    tenant: String,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Make the policies of a TOML file the stored ones; writes only what differs
///
/// The file holds one policy, or many as [[policy]]. What it leaves out takes the
/// default that `reprise policy put --help` names.
#[derive(Args, Debug)]
pub(crate) struct ApplyFlags {
    /// The file
    file: PathBuf,
    /// Why, for people: 1 byte to 1 KiB; the file's name unless given
    #[arg(long, value_parser = args::reason)]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Args, Debug)]
struct WriteFlags {
    /// Who writes it; user@host unless given
    #[arg(long, value_parser = args::actor)]
    actor: Option<String>,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(command: &PolicyCommand) -> Result<Exit, Error> {
    match command {
        PolicyCommand::Get(flags) => get(flags).await,
        PolicyCommand::Put(flags) => put(flags).await,
        PolicyCommand::List(flags) => list(flags).await,
        PolicyCommand::Apply(flags) => apply(flags).await,
    }
}

async fn get(flags: &GetFlags) -> Result<Exit, Error> {
    let operation = flags.operation.as_deref().unwrap_or_default();
    let stored = read(&flags.server.client()?, &flags.tenant, operation).await?;
    let source = answer::word(stored.source().as_str_name(), "POLICY_SOURCE_");
    let words = match stored.source() {
        proto::PolicySource::Operation => "Stored for this operation.",
        proto::PolicySource::Tenant => "The tenant's default.",
        _ => "The default that is built in.",
    };
    let policy = stored.policy.clone().unwrap_or_default();
    let answer = Fields::new()
        .with("source", source)
        .with("held", stored.held)
        .with("policy", answer::policy(&policy));
    let held = match (stored.held, policy.mode()) {
        (false, _) => "",
        (true, proto::Mode::Hold) => "\nHELD: nobody is granted an attempt.",
        (true, _) => "\nHELD by a wider scope: nobody is granted an attempt.",
    };
    Output::new(&flags.output).answer(format!("{words}{held}"), &answer)?;
    Ok(Exit::Done)
}

async fn list(flags: &ListFlags) -> Result<Exit, Error> {
    let client = flags.server.client()?;
    let mut policies = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListPoliciesRequest {
            tenant: flags.tenant.clone(),
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = client.list_policies(request).await?;
        policies.extend(page.policies.iter().map(answer::policy));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let output = Output::new(&flags.output);
    if output.is_table() {
        output::print(list_table(&flags.tenant, &policies).as_bytes())?;
    } else {
        output.answer("", &Fields::new().with("policies", policies))?;
    }
    Ok(Exit::Done)
}

fn list_table(tenant: &str, policies: &[Fields]) -> String {
    if policies.is_empty() {
        return format!("{tenant} has no policy of its own: the built-in default rules.\n");
    }
    let cell = |policy: &Fields, name| policy.at(name).map(table::show).unwrap_or_default();
    let line = |policy: &Fields| {
        let operation = cell(policy, "operation");
        let is_default = operation.is_empty();
        [
            if is_default {
                "(default)".to_owned()
            } else {
                operation
            },
            cell(policy, "on_lapse"),
            cell(policy, "lease"),
            cell(policy, "result_retention"),
            cell(policy, "memory_retention"),
            cell(policy, "mode"),
            cell(policy, "update_time"),
        ]
    };
    // What inherits says nothing of its own.
    let line = |policy: &Fields| match policy.at("inherits") {
        Some(Value::Flag(true)) => {
            let [operation, .., mode, written] = line(policy);
            let wider = || "(wider)".to_owned();
            [operation, wider(), wider(), wider(), wider(), mode, written]
        }
        _ => line(policy),
    };
    let lines: Vec<_> = policies.iter().map(line).collect();
    let head = [
        "OPERATION",
        "ON LAPSE",
        "LEASE",
        "RESULT KEPT",
        "REMEMBERED",
        "MODE",
        "WRITTEN",
    ];
    table::columns(head, &lines)
}

async fn put(flags: &PutFlags) -> Result<Exit, Error> {
    let client = flags.server.client()?;
    let document = &flags.document;
    let stored = read(&client, &document.tenant, &document.operation).await?;
    let stored = Stored::read(&stored)?;
    let policy = document.applied_to(stored.policy.clone());
    let policy = policy.map_err(|error| error.for_flags())?;
    // The mode alone makes no settings of its own.
    let inherits = document.inherits() || (stored.inherits && !document.has_settings());
    let named = document.with(policy, inherits);
    let named = named.map_err(|error| error.for_flags())?;
    let plan = vec![Step::new(named, stored)];
    carry_out(&client, plan, &flags.write, &flags.reason, &flags.output).await
}

async fn apply(flags: &ApplyFlags) -> Result<Exit, Error> {
    let file = flags.file.display().to_string();
    let text = std::fs::read_to_string(&flags.file).map_err(Error::io(file.clone()))?;
    let policies = document::read(&text).map_err(|why| Error::Usage(format!("{file}: {why}")))?;
    let client = flags.server.client()?;
    let mut plan = Vec::new();
    for named in policies {
        let stored = read(&client, &named.tenant, &named.operation).await?;
        plan.push(Step::new(named, Stored::read(&stored)?));
    }
    let mut adjusted = Vec::new();
    let reason = flags.reason.clone();
    let reason = reason.unwrap_or_else(|| {
        reprise_domain::text::adjust("", format!("applied {file}"), &mut adjusted)
    });
    carry_out(&client, plan, &flags.write, &reason, &flags.output).await
}

async fn read(client: &Client, tenant: &str, operation: &str) -> Result<GetPolicyResponse, Error> {
    let (tenant, operation) = (tenant.to_owned(), operation.to_owned());
    Ok(client
        .get_policy(GetPolicyRequest { tenant, operation })
        .await?)
}

/// The policy in force under a name, with mode and etag of what is stored there.
struct Stored {
    policy: Policy,
    /// It has no settings of its own; also where nothing is stored.
    inherits: bool,
    etag: String,
}

impl Stored {
    fn read(answer: &GetPolicyResponse) -> Result<Stored, Error> {
        let message = answer.policy.clone().unwrap_or_default();
        let unreadable =
            |error| Error::Other(format!("the server's policy cannot be read: {error}"));
        let policy = convert::policy(&message, &Policy::default()).map_err(unreadable)?;
        Ok(Stored {
            policy: Policy {
                mode: match message.mode() {
                    proto::Mode::Hold => Mode::Hold,
                    _ => Mode::Enforce,
                },
                ..policy
            },
            inherits: message.inherits || message.etag.is_empty(),
            etag: message.etag,
        })
    }
}

/// One policy to store, and what would change.
struct Step {
    wanted: Named,
    etag: String,
    differences: Vec<Difference>,
}

struct Difference {
    setting: &'static str,
    from: Value,
    to: Value,
}

impl Step {
    fn new(mut wanted: Named, stored: Stored) -> Step {
        // Who holds an operation means it: what says nothing of the mode leaves it.
        if !wanted.has_mode {
            wanted.policy.mode = stored.policy.mode;
        }
        let mut differences = Vec::new();
        let mut compare = |setting, from: Value, to: Value| {
            if from != to {
                differences.push(Difference { setting, from, to });
            }
        };
        let mode = |policy: &Policy| document::mode(policy.mode).into();
        compare("mode", mode(&stored.policy), mode(&wanted.policy));
        if !stored.etag.is_empty() {
            let (from, to) = (stored.inherits, wanted.inherits);
            compare("inherits", from.into(), to.into());
        }
        if !wanted.inherits {
            let before = document::settings(&stored.policy).0.into_iter();
            let after = document::settings(&wanted.policy).0;
            for ((setting, from), (_, to)) in before.zip(after) {
                compare(setting, from, to);
            }
        }
        Step {
            differences,
            wanted,
            etag: stored.etag,
        }
    }

    fn message(&self) -> proto::Policy {
        let Named {
            tenant,
            operation,
            inherits,
            policy,
            ..
        } = &self.wanted;
        convert::policy_as_stored(&StoredPolicy {
            tenant: tenant.clone(),
            operation: operation.clone(),
            policy: (!inherits).then(|| policy.clone()),
            mode: policy.mode,
            etag: self.etag.clone(),
            updated_at: Timestamp(0),
        })
    }

    fn change(&self) -> &'static str {
        match (self.etag.is_empty(), self.differences.is_empty()) {
            (true, _) => "created",
            (false, false) => "changed",
            (false, true) => "equal",
        }
    }

    fn fields(&self) -> Fields {
        let difference = |it: &Difference| {
            Fields::new()
                .with("setting", it.setting)
                .with("from", it.from.clone())
                .with("to", it.to.clone())
        };
        let differences: Vec<_> = self.differences.iter().map(difference).collect();
        Fields::new()
            .with("tenant", &*self.wanted.tenant)
            .with("operation", &*self.wanted.operation)
            .with("change", self.change())
            .with("differences", differences)
    }

    fn told(&self, dry_run: bool) -> String {
        let would = if dry_run { "would be " } else { "" };
        let what = match self.change() {
            "equal" => "equal, not written".to_owned(),
            change => format!("{would}{change}"),
        };
        let mut told = format!("{}: {what}\n", self.wanted);
        let or_none = |value: &Value| match table::show(value) {
            shown if shown.is_empty() => "(none)".to_owned(),
            shown => shown,
        };
        for it in &self.differences {
            let (from, to) = (or_none(&it.from), or_none(&it.to));
            told.push_str(&format!("  {:18}{from} -> {to}\n", it.setting));
        }
        told
    }
}

/// Writes what differs. What was written before an error is told all the same.
async fn carry_out(
    client: &Client,
    plan: Vec<Step>,
    write: &WriteFlags,
    reason: &str,
    output: &OutputFlags,
) -> Result<Exit, Error> {
    let actor = write.actor.clone().unwrap_or_else(args::user_at_host);
    let mut done = Vec::new();
    let mut failure = None;
    for step in plan {
        if !write.dry_run && step.change() != "equal" {
            let request = PutPolicyRequest {
                policy: Some(step.message()),
                actor: actor.clone(),
                reason: reason.to_owned(),
            };
            if let Err(error) = client.put_policy(request).await {
                note!("{}: not written", step.wanted);
                failure = Some(error);
                break;
            }
        }
        done.push(step);
    }
    let output = Output::new(output);
    if output.is_table() {
        for step in &done {
            output::print(step.told(write.dry_run).as_bytes())?;
        }
    } else {
        let policies: Vec<_> = done.iter().map(Step::fields).collect();
        let answer = Fields::new()
            .with("dry_run", write.dry_run)
            .with("policies", policies);
        output.answer("", &answer)?;
    }
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Done),
    }
}
