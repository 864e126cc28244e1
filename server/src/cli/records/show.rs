//! `reprise records show`: the story of one record.

use clap::Args;
use reprise_client::proto::lookup_request::Target;
use reprise_client::proto::{Content, LookupRequest, OmittedBody, content::Body};
use reprise_client::{Client, Found, Reading, Reason};
use sha2::{Digest, Sha256};

use super::{past, story};
use crate::cli::answer;
use crate::cli::args::{OutputFlags, ServerFlags};
use crate::cli::exit::{Error, Exit};
use crate::cli::output::{Output, note, print};
use crate::cli::target::TargetFlags;
use crate::cli::value::Fields;

/// Tell the story of one record: how it reads and what to do next, each attempt, what was
/// refused, what people did, what is stored
///
/// Bodies are shown by size and digest; `lookup --with-result` prints them.
#[derive(Args, Debug)]
pub(crate) struct ShowFlags {
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn run(flags: &ShowFlags) -> Result<Exit, Error> {
    let target = flags.target.target()?;
    let client = flags.server.client()?;
    let found = found(&client, target).await?;
    let (history, audit) = past(&client, &found).await?;
    let output = Output::new(&flags.output);
    if output.is_table() {
        print(story::tell(&found, &history, &audit).as_bytes())?;
    } else {
        let audit: Vec<_> = audit.iter().map(answer::seen::audit_entry).collect();
        let Fields(mut fields) = answer::found(&found);
        fields.push(("history", answer::seen::history(&history).into()));
        fields.push(("audit", audit.into()));
        output.answer("", &Fields(fields))?;
    }
    Ok(Exit::Done)
}

/// The record with what is stored, bodies by size and digest. Damaged bytes do not hide
/// the rest.
pub(super) async fn found(client: &Client, target: Target) -> Result<Found, Error> {
    let request = LookupRequest {
        target: Some(target),
        with_result: true,
        ..LookupRequest::default()
    };
    let found = match client.lookup(request.clone()).await {
        Err(error) if error.reason() == Some(Reason::StoredResultDamaged) => {
            note!("warning: the stored bytes are damaged; headers are not shown");
            let without = LookupRequest {
                with_result: false,
                ..request
            };
            client.lookup(without).await?
        }
        found => found?,
    };
    Ok(measured(found))
}

fn measured(mut found: Found) -> Found {
    if let Reading::Completed(it) | Reading::Failed(it) = &mut found.reading {
        measure(&mut it.content);
    }
    found
}

fn measure(content: &mut Content) {
    if let Some(Body::Data(data)) = &content.body {
        content.body = Some(Body::Omitted(OmittedBody {
            size: data.len() as u64,
            sha256: Sha256::digest(data).to_vec().into(),
        }));
    }
}
