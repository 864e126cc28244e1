//! The claim by which a record is resolved: a token, or a file of them.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use serde_json::Value;

use crate::cli::exit::Error;
use crate::cli::input::{self, Source, Stdin};

/// Largest file of claims.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// By a claim, in place of an operator's right.
#[derive(Args, Debug)]
pub(crate) struct ClaimFlags {
    /// The claim that `pending claim` printed; `-` reads it from standard input. Others
    /// see a command line: rather use --claim-file
    #[arg(
        long,
        value_name = "TOKEN",
        allow_hyphen_values = true,
        help_heading = "Claim",
        conflicts_with = "claim_file"
    )]
    claim: Option<String>,
    /// Read it from this file: the token alone, or what `pending claim --claims-file` wrote
    #[arg(long, value_name = "FILE", help_heading = "Claim")]
    claim_file: Option<PathBuf>,
}

impl ClaimFlags {
    pub(crate) fn is_given(&self) -> bool {
        self.claim.is_some() || self.claim_file.is_some()
    }

    /// The claim on the record of this id.
    pub(crate) fn read(&self, record_id: &str, stdin: &mut Stdin) -> Result<Bytes, Error> {
        let (name, text) = match (&self.claim_file, &self.claim) {
            (Some(path), _) => {
                let bytes = stdin.bytes(&Source::File(path.clone()), FILE_BYTES_MAX)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                ("--claim-file", of_record(&text, record_id)?)
            }
            (None, Some(token)) if token == "-" => ("--claim", stdin.text(&Source::Stdin)?),
            (None, token) => ("--claim", token.clone().unwrap_or_default()),
        };
        let claim = input::base64(&text).filter(|claim| !claim.is_empty());
        claim.ok_or_else(|| {
            let allowed = "must be the base64 text that `pending claim` printed";
            Error::Usage(format!("{name}: {allowed}"))
        })
    }
}

/// A file that holds a token alone, or lines of JSON, of which one is about the record.
fn of_record(text: &str, record_id: &str) -> Result<String, Error> {
    if !text.trim_start().starts_with('{') {
        return Ok(text.to_owned());
    }
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty()) {
        let claim: Value = serde_json::from_str(line).map_err(|error| {
            Error::Usage(format!("--claim-file: line {number} is no JSON: {error}"))
        })?;
        if claim["record"]["record_id"] == record_id {
            return Ok(claim["claim"].as_str().unwrap_or_default().to_owned());
        }
    }
    let told = format!("--claim-file: has no claim on the record {record_id}");
    Err(Error::Usage(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_claims_is_searched_for_the_record() {
        let file = "{\"claim\":\"AAA=\",\"record\":{\"record_id\":\"1\"}}\n\
                    {\"claim\":\"BBB=\",\"record\":{\"record_id\":\"2\"}}\n";
        assert_eq!(of_record(file, "2").unwrap(), "BBB=");
        assert!(of_record(file, "3").is_err());
        assert_eq!(of_record("CCC=\n", "3").unwrap(), "CCC=\n");
    }
}
