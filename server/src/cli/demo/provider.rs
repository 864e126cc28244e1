//! The card provider of the demo: charges whenever it is asked to, and keeps a ledger of
//! it. It refuses nothing and remembers no key, so that one charge for an intent is not
//! its merit.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use reprise_client::content;
use reprise_client::proto::Content;
use serde::{Deserialize, Serialize};

use super::euros;
use crate::cli::exit::Error;

/// A provider whose ledger is a file that several processes append to.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    ledger: PathBuf,
}

/// One line of the ledger.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct Charge {
    pub(super) id: String,
    pub(super) order: String,
    pub(super) cents: u64,
    /// The process that asked for it.
    pub(super) pid: u32,
    pub(super) effect_key: String,
}

impl Charge {
    pub(super) fn amount(&self) -> String {
        euros(self.cents)
    }

    /// What the caller records as result.
    pub(super) fn result(&self) -> Content {
        let receipt = format!(
            r#"{{"charge":"{}","order":"{}","amount":"{}"}}"#,
            self.id,
            self.order,
            self.amount()
        );
        let mut result = content("201", receipt);
        result.provider_reference.clone_from(&self.id);
        result
    }
}

impl Provider {
    pub(super) fn new(ledger: PathBuf) -> Provider {
        Provider { ledger }
    }

    pub(super) fn ledger(&self) -> &Path {
        &self.ledger
    }

    /// Charges a card.
    pub(super) fn charge(&self, order: &str, cents: u64, effect_key: &str) -> io::Result<Charge> {
        let charge = Charge {
            id: format!("ch_{:06x}", rand::random::<u32>() >> 8),
            order: order.to_owned(),
            cents,
            pid: std::process::id(),
            effect_key: effect_key.to_owned(),
        };
        let mut line = serde_json::to_vec(&charge)?;
        line.push(b'\n');
        let mut ledger = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.ledger)?;
        // One write, so that lines of several processes do not mix.
        ledger.write_all(&line)?;
        Ok(charge)
    }

    /// Everything that it did, in order.
    pub(super) fn charges(&self) -> Result<Vec<Charge>, Error> {
        let failed = || Error::io("the demo's ledger");
        let lines = match std::fs::read_to_string(&self.ledger) {
            Ok(lines) => lines,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed()(error)),
        };
        let charges = lines.lines().map(serde_json::from_str);
        charges
            .collect::<Result<_, _>>()
            .map_err(|error| failed()(error.into()))
    }
}
