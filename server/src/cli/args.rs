//! Flags that several commands share, and how their values are checked. A value that is
//! parsed here is one that the service accepts.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use clap::Args;
use reprise_client::Client;
use reprise_client::proto::{Content, Header, RecordName};
use reprise_domain::content::BODY_BYTES_MAX;
use reprise_domain::text::{FieldError, TEXT_BYTES_MAX};
use reprise_domain::{name, policy, text};

use super::duration;
use super::exit::Error;
use super::input::{self, Source};

/// Where the server listens by default.
const SERVER_DEFAULT: &str = "http://127.0.0.1:7077";

/// How to reach the server.
#[derive(Args, Debug)]
pub(crate) struct ServerFlags {
    /// Address of the server
    #[arg(long, env = "REPRISE_SERVER", default_value = SERVER_DEFAULT, value_name = "URL", help_heading = "Server")]
    pub(crate) server: String,
    /// How long the command tries, beside --wait: 100ms to 1h
    #[arg(long, env = "REPRISE_TIMEOUT", default_value = "5s", value_name = "DURATION", help_heading = "Server",
          value_parser = duration::within(Duration::from_millis(100)..=Duration::from_hours(1)))]
    pub(crate) timeout: Duration,
}

impl ServerFlags {
    /// A client with these settings. Connects nowhere yet.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        let client = Client::builder(&self.server).deadline(self.timeout).build();
        client.map_err(|error| Error::Usage(format!("--server: {error}")))
    }
}

/// How the answer is printed.
#[derive(Args, Debug, Default)]
pub(crate) struct OutputFlags {
    /// Print the answer as one line of JSON
    #[arg(long, conflicts_with = "field", help_heading = "Output")]
    pub(crate) json: bool,
    /// Print one field of the answer as it is, e.g. record.effect_key or
    /// completed.result.data; names are those of --json
    #[arg(long, value_name = "PATH", help_heading = "Output")]
    pub(crate) field: Option<String>,
}

/// Which record.
#[derive(Args, Debug)]
pub(crate) struct NameFlags {
    /// Whose: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, env = "REPRISE_TENANT", value_parser = word, help_heading = "Record")]
    pub(crate) tenant: String,
    /// What is to be done once: 1 to 128 bytes of A-Z a-z 0-9 . _ - : / %
    #[arg(long, value_parser = word, help_heading = "Record")]
    pub(crate) operation: String,
    /// On whose behalf, empty for the tenant itself: 0 to 128 bytes
    #[arg(long, default_value = "", hide_default_value = true, value_parser = subject, help_heading = "Record")]
    pub(crate) subject: String,
    /// The key of the intent: 1 to 255 bytes
    #[arg(long, value_parser = key, help_heading = "Record")]
    pub(crate) key: String,
}

impl NameFlags {
    pub(crate) fn message(&self) -> RecordName {
        RecordName {
            tenant: self.tenant.clone(),
            operation: self.operation.clone(),
            subject: self.subject.clone(),
            key: self.key.clone(),
        }
    }

    /// The record's id, computed from its name.
    pub(crate) fn record_id(&self) -> String {
        let (tenant, operation) = (&self.tenant, &self.operation);
        let name = reprise_domain::RecordName::new(tenant, operation, &self.subject, &self.key);
        // The flags' parsers checked each part.
        name.map(|name| name.id().to_string()).unwrap_or_default()
    }
}

/// The environment variable that a token is taken from.
pub(crate) const TOKEN_VARIABLE: &str = "REPRISE_TOKEN";

/// The token of the attempt.
#[derive(Args, Debug)]
pub(crate) struct TokenFlags {
    /// Read the token from this file, as reserve --token-file wrote it
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "token",
        help_heading = "Token"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// The token; `-` reads it from standard input. Others see a command line: rather
    /// use --token-file or the environment variable REPRISE_TOKEN
    #[arg(long, allow_hyphen_values = true, help_heading = "Token")]
    pub(crate) token: Option<String>,
}

impl TokenFlags {
    /// Refuses a token beside another right.
    pub(crate) fn refuse_beside(&self, other: &str) -> Result<(), Error> {
        match self.token.is_some() || self.token_file.is_some() {
            true => Err(Error::Usage(format!(
                "{other} and a token exclude each other"
            ))),
            false => Ok(()),
        }
    }

    /// The token's bytes.
    pub(crate) fn read(&self, stdin: &mut input::Stdin) -> Result<Bytes, Error> {
        let (name, text) = match (&self.token_file, &self.token) {
            (Some(path), _) => ("--token-file", stdin.text(&Source::File(path.clone()))?),
            (None, Some(token)) if token == "-" => ("--token", stdin.text(&Source::Stdin)?),
            (None, Some(token)) => ("--token", token.clone()),
            (None, None) => match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => (TOKEN_VARIABLE, token),
                Err(_) => {
                    let ways = "--token-file, --token or the environment variable REPRISE_TOKEN";
                    return Err(Error::Usage(format!("no token: use {ways}")));
                }
            },
        };
        input::base64(&text)
            .filter(|token| !token.is_empty())
            .ok_or_else(|| {
                Error::Usage(format!(
                    "{name}: must be the base64 text that reserve printed"
                ))
            })
    }
}

/// What is replayed: a result, or an error.
#[derive(Args, Debug, Default)]
pub(crate) struct ContentFlags {
    /// Your word for the outcome, e.g. 201 or card_declined
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        help_heading = "Content"
    )]
    pub(crate) code: String,
    /// The body, from a file; `-` reads standard input. None given: no body. One over
    /// 4128768 bytes is recorded by its size and digest
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub(crate) body_file: Option<Source>,
    /// A header, `Name: value`; may be repeated
    #[arg(long = "header", value_name = "HEADER", value_parser = header, help_heading = "Content")]
    pub(crate) headers: Vec<Header>,
    /// What the effect created, in your words
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "ID",
        help_heading = "Content"
    )]
    pub(crate) resource_id: String,
}

impl ContentFlags {
    /// The content, its body read.
    pub(crate) fn read(
        &self,
        provider_reference: &str,
        stdin: &mut input::Stdin,
    ) -> Result<Content, Error> {
        let body = self.body_file.as_ref();
        let body = body.map(|source| stdin.body(source, BODY_BYTES_MAX));
        Ok(Content {
            code: self.code.clone(),
            headers: self.headers.clone(),
            body: body.transpose()?,
            resource_id: self.resource_id.clone(),
            provider_reference: provider_reference.to_owned(),
        })
    }

    /// Whether anything was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.code.is_empty()
            && self.body_file.is_none()
            && self.headers.is_empty()
            && self.resource_id.is_empty()
    }
}

/// A lease: 100 ms to 15 min.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    duration::within(policy::LEASE)(text)
}

/// Checks a tenant or an operation.
pub(crate) fn word(text: &str) -> Result<String, String> {
    name::check_word("", text).map_err(allowed)?;
    Ok(text.to_owned())
}

/// Checks a subject.
pub(crate) fn subject(text: &str) -> Result<String, String> {
    reprise_domain::RecordName::new("t", "o", text, "k").map_err(allowed)?;
    Ok(text.to_owned())
}

/// Checks a key.
pub(crate) fn key(text: &str) -> Result<String, String> {
    reprise_domain::RecordName::new("t", "o", "", text).map_err(allowed)?;
    Ok(text.to_owned())
}

/// Checks an owner, a correlation id or a reference.
pub(crate) fn short_text(text: &str) -> Result<String, String> {
    text::check("", text.to_owned()).map_err(allowed)
}

/// As [`short_text`], and not empty.
pub(crate) fn actor(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(format!("must be 1 to {TEXT_BYTES_MAX} bytes"));
    }
    short_text(text)
}

fn allowed(error: FieldError) -> String {
    format!("must be {}", error.allowed)
}

fn header(text: &str) -> Result<Header, String> {
    let form = || "must be `Name: value`".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(form)?;
    if name.trim().is_empty() {
        return Err(form());
    }
    Ok(Header {
        name: name.trim().to_owned(),
        value: Bytes::copy_from_slice(value.trim().as_bytes()),
    })
}

/// Reads `name=value`, which counts as part of a payload.
pub(crate) fn context(text: &str) -> Result<Header, String> {
    let form = || "must be name=value".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    if name.is_empty() {
        return Err(form());
    }
    Ok(Header {
        name: name.to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    })
}

/// Reads an attempt id.
pub(crate) fn attempt_id(text: &str) -> Result<[u8; 16], String> {
    fixed_hex(text).ok_or_else(|| "must be 32 hexadecimal digits, random for this one try".into())
}

/// Reads a SHA-256.
pub(crate) fn sha256(text: &str) -> Result<[u8; 32], String> {
    fixed_hex(text).ok_or_else(|| "must be 64 hexadecimal digits".into())
}

fn fixed_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

/// Reads a moment.
pub(crate) fn moment(text: &str) -> Result<prost_types::Timestamp, String> {
    text.parse()
        .map_err(|_| "must be a time as in RFC 3339, e.g. 2026-07-01T12:00:00Z".into())
}

/// Reads a moment, or how long ago it was.
pub(crate) fn moment_or_ago(text: &str) -> Result<prost_types::Timestamp, String> {
    if let Ok(ago) = duration::parse(text) {
        let then = SystemTime::now().checked_sub(ago);
        return Ok(then.unwrap_or(SystemTime::UNIX_EPOCH).into());
    }
    moment(text).map_err(|allowed| format!("{allowed}, or how long ago, e.g. 2h"))
}

/// Longest reason, in bytes.
const REASON_BYTES_MAX: usize = 1024;

/// Checks why something is done.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.len() > REASON_BYTES_MAX {
        return Err(format!("must be 1 to {REASON_BYTES_MAX} bytes"));
    }
    Ok(text.to_owned())
}

/// `user@host`, for people who read a record later.
pub(crate) fn user_at_host() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let host = host.or_else(|_| std::env::var("HOSTNAME"));
    let user = user.unwrap_or_else(|_| "unknown".into());
    let host = host.unwrap_or_else(|_| "unknown".into());
    let mut adjusted = Vec::new();
    text::adjust("", format!("{user}@{}", host.trim()), &mut adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_colons_in_their_value() {
        let header = header("Location: http://a/b").map(|it| (it.name, it.value));
        let expected = ("Location".to_owned(), Bytes::from_static(b"http://a/b"));
        assert_eq!(header, Ok(expected));
        assert!(super::header("no colon").is_err() && super::header(": x").is_err());
    }

    #[test]
    fn what_the_service_would_refuse_is_refused_here() {
        assert!(word("shop eu").is_err() && word("").is_err() && word(&"x".repeat(129)).is_err());
        assert!(key(" ").is_err() && key("a\tb").is_err() && key(&"x".repeat(256)).is_err());
        assert!(subject("").is_ok() && subject(" ").is_err());
        assert!(attempt_id("00").is_err() && attempt_id(&"0f".repeat(16)).is_ok());
        assert!(moment("yesterday").is_err() && moment("2026-07-01T12:00:00Z").is_ok());
        assert!(context("=x").is_err() && context("a=").is_ok());
    }
}
