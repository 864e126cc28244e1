//! `reprise reserve`: asks to carry an intent out.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::{ArgGroup, Args};
use reprise_client::proto::{FingerprintDigest, FingerprintPayload, FingerprintScheme, Header};
use reprise_client::{AttemptId, Client, Identity, Outcome, Reserve, Reserved};
use reprise_domain::policy;
use reprise_domain::text::INSTRUCTION_BYTES_MAX;
use tempfile::NamedTempFile;

use super::args::{self, NameFlags, OutputFlags, ServerFlags};
use super::exit::{Error, Exit};
use super::input::{Source, Stdin};
use super::output::{Output, note};
use super::{answer, duration, words};

/// Most that is sent as a payload: a message of 4 MiB less what goes beside it.
const PAYLOAD_BYTES_MAX: u64 = 4 * 1024 * 1024 - 64 * 1024;
/// How long a grant whose answer was lost is given back before the program ends.
const GIVE_BACK_LIMIT: Duration = Duration::from_secs(5);

/// Ask to carry an intent out, before its effect
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).args(["payload", "payload_file", "digest"]))]
#[command(group = ArgGroup::new("scheme").args(["raw", "json_payload"]))]
pub(crate) struct ReserveFlags {
    #[command(flatten)]
    name: NameFlags,
    /// What is to be done, to tell whether a repeat carries the same
    #[arg(long, value_name = "TEXT", help_heading = "Payload")]
    payload: Option<String>,
    /// The same from a file; `-` reads standard input. At most 4128768 bytes
    #[arg(long, value_name = "FILE", help_heading = "Payload")]
    payload_file: Option<Source>,
    /// A ready fingerprint in place of a payload: 64 hexadecimal digits
    #[arg(long, value_name = "SHA256", value_parser = args::sha256, help_heading = "Payload")]
    digest: Option<[u8; 32]>,
    /// The rule that --digest was made under, where it is not the empty one
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["payload", "payload_file"],
        default_value = "",
        hide_default_value = true,
        help_heading = "Payload"
    )]
    rule_id: String,
    /// Compare byte by byte (the default unless the media type is JSON)
    #[arg(long, help_heading = "Payload")]
    raw: bool,
    /// Compare as JSON: order of members, blanks and spelling do not count
    #[arg(long, help_heading = "Payload")]
    json_payload: bool,
    /// Counts as part of the payload, without its parameters
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "digest",
        help_heading = "Payload"
    )]
    media_type: String,
    /// name=value that counts as part of the payload; may be repeated, order counts
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::context, conflicts_with = "digest", help_heading = "Payload")]
    context: Vec<Header>,
    /// How long you need: 100ms to 15m; the policy's unless given
    #[arg(long, value_name = "DURATION", value_parser = args::lease)]
    lease: Option<Duration>,
    /// How long to wait while somebody else is at it: 0 to 30s
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::within(Duration::ZERO..=policy::WAIT_MAX))]
    wait: Duration,
    /// Who asks, for people; user@host unless given
    #[arg(long, value_parser = args::short_text)]
    owner: Option<String>,
    /// Ties the record to your logs, at most 255 bytes
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true, value_parser = args::short_text)]
    correlation_id: String,
    /// The request that will be sent, kept for those who finish it; at most 16 KiB
    #[arg(long, value_name = "FILE")]
    instruction_file: Option<Source>,
    /// When the key was made, as in RFC 3339: refused when the record may be forgotten
    #[arg(long, value_name = "TIME", value_parser = args::moment)]
    intent_time: Option<prost_types::Timestamp>,
    /// 32 hexadecimal digits, random for this one try; to repeat a try that had no answer
    #[arg(long, value_name = "HEX", value_parser = args::attempt_id)]
    attempt_id: Option<[u8; 16]>,
    /// Write the token to this file, which only you may read
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(crate) async fn run(flags: &ReserveFlags) -> Result<Exit, Error> {
    let client = flags.server.client()?;
    let request = request(flags)?;
    // Before anything is granted: a token that cannot be written is of no use.
    let token_file = flags
        .token_file
        .as_deref()
        .map(TokenFile::create)
        .transpose()?;
    let reserved = match flags.attempt_id {
        // The caller repeats this id by itself, so nothing is given back behind it.
        Some(id) => client.reserve_as(&request, AttemptId::from_bytes(id)).await,
        None => reserve_or_give_back(&client, &request).await,
    }?;
    if let (Some(file), Some(token)) = (token_file, token(&reserved)) {
        let written = file.keep(token);
        if let (Err(_), Outcome::Acquired(_)) = (&written, &reserved.outcome) {
            client
                .give_back(request.record, reserved.attempt_id)
                .await?;
        }
        written?;
    }
    let words = words::reserved(&reserved);
    let token_file = flags.token_file.as_deref();
    Output::new(&flags.output).grant(words, answer::reserved(&reserved), token_file)?;
    Ok(exit(&reserved.outcome))
}

/// What the outcome is to a script.
fn exit(outcome: &Outcome) -> Exit {
    match outcome {
        Outcome::Acquired(_) => Exit::Done,
        Outcome::Completed(_) => Exit::Completed,
        Outcome::Failed(_) => Exit::Failed,
        Outcome::Processing(_) => Exit::Processing,
        Outcome::Pending(_) => Exit::Pending,
        Outcome::Mismatch(_) => Exit::Mismatch,
        Outcome::ResultGone(_) => Exit::ResultGone,
    }
}

async fn reserve_or_give_back(
    client: &Client,
    request: &Reserve,
) -> Result<Reserved, reprise_client::Error> {
    let reserved = client.reserve(request).await;
    if matches!(&reserved, Err(error) if error.outcome_unknown())
        && !client.close(GIVE_BACK_LIMIT).await
    {
        note!("warning: what may have been granted could not be given back, it will lapse");
    }
    reserved
}

fn request(flags: &ReserveFlags) -> Result<Reserve, Error> {
    let mut stdin = Stdin::default();
    let instruction = flags.instruction_file.as_ref();
    let instruction = instruction.map(|source| stdin.bytes(source, INSTRUCTION_BYTES_MAX as u64));
    let owner = flags.owner.clone().unwrap_or_else(args::user_at_host);
    let identity = identity(flags, &mut stdin)?;
    let mut request = Reserve::new(flags.name.message(), identity)
        .wait(flags.wait)
        .owner(owner)
        .correlation_id(&flags.correlation_id)
        .instruction(instruction.transpose()?.unwrap_or_default());
    request.lease = flags.lease;
    request.intent_time = flags.intent_time.map(system_time).transpose()?;
    Ok(request)
}

fn identity(flags: &ReserveFlags, stdin: &mut Stdin) -> Result<Identity, Error> {
    let is_json = flags.json_payload || !flags.raw && is_json(&flags.media_type);
    let scheme = if is_json {
        FingerprintScheme::Json
    } else {
        FingerprintScheme::Raw
    };
    if let Some(digest) = flags.digest {
        return Ok(Identity::Digest(FingerprintDigest {
            scheme: scheme.into(),
            rule_id: flags.rule_id.clone(),
            sha256: Bytes::copy_from_slice(&digest),
        }));
    }
    let content = match (&flags.payload, &flags.payload_file) {
        (Some(text), _) => Bytes::copy_from_slice(text.as_bytes()),
        (None, Some(source)) => stdin.bytes(source, PAYLOAD_BYTES_MAX)?,
        (None, None) => Bytes::new(),
    };
    Ok(Identity::Payload(FingerprintPayload {
        scheme: scheme.into(),
        media_type: flags.media_type.clone(),
        context: flags.context.clone(),
        content,
    }))
}

fn is_json(media_type: &str) -> bool {
    let plain = media_type.split(';').next().unwrap_or_default().trim();
    let plain = plain.to_ascii_lowercase();
    plain == "application/json" || plain.ends_with("+json")
}

fn system_time(time: prost_types::Timestamp) -> Result<SystemTime, Error> {
    let wrong = |_| Error::Usage("--intent-time: must be a time that a clock can show".into());
    SystemTime::try_from(time).map_err(wrong)
}

fn token(reserved: &Reserved) -> Option<&Bytes> {
    match &reserved.outcome {
        Outcome::Acquired(grant) => Some(&grant.token),
        Outcome::Pending(pending) if !pending.token.is_empty() => Some(&pending.token),
        _ => None,
    }
}

/// A file for a token: begun beside its place, so that an earlier token stays until
/// there is a new one.
pub(crate) struct TokenFile {
    begun: NamedTempFile,
    path: PathBuf,
}

impl TokenFile {
    /// Begins the file, readable for its owner alone.
    pub(crate) fn create(path: &Path) -> Result<TokenFile, Error> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let begun = tempfile::Builder::new()
            .prefix(".reprise-token-")
            .tempfile_in(directory)
            .map_err(Error::io(path.display().to_string()))?;
        let path = path.to_owned();
        Ok(TokenFile { begun, path })
    }

    /// Writes the token and puts the file in its place.
    pub(crate) fn keep(self, token: &Bytes) -> Result<(), Error> {
        self.keep_text(&format!("{}\n", STANDARD.encode(token)))
    }

    /// Writes a text that holds tokens and puts the file in its place.
    pub(crate) fn keep_text(mut self, text: &str) -> Result<(), Error> {
        let failed = || Error::io(self.path.display().to_string());
        self.begun.write_all(text.as_bytes()).map_err(failed())?;
        self.begun.as_file().sync_all().map_err(failed())?;
        let persisted = self.begun.persist(&self.path);
        persisted.map_err(|error| Error::io(self.path.display().to_string())(error.error))?;
        Ok(())
    }
}
