//! Prints an answer the way that was asked for. Answers go to standard output, all else
//! to standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use super::args::OutputFlags;
use super::exit::Error;
use super::table;
use super::value::{self, Fields};

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output<'a> {
    flags: &'a OutputFlags,
}

impl<'a> Output<'a> {
    pub(crate) fn new(flags: &'a OutputFlags) -> Output<'a> {
        Output { flags }
    }

    /// Whether people read along.
    pub(crate) fn is_table(&self) -> bool {
        !self.flags.json && self.flags.field.is_none()
    }

    /// As [`Output::answer`], for one that may hold a token. Tables end up in mails and
    /// logs: they do not show a token that is in a file.
    pub(crate) fn grant(
        &self,
        words: impl AsRef<str>,
        mut answer: Fields,
        token_file: Option<&Path>,
    ) -> Result<(), Error> {
        if let (Some(path), true) = (token_file, self.is_table()) {
            answer.replace("token", &format!("in {}", path.display()).into());
        }
        self.answer(words, &answer)
    }

    /// Prints one answer; `words` say to people what it means.
    pub(crate) fn answer(&self, words: impl AsRef<str>, answer: &Fields) -> Result<(), Error> {
        let printed = if self.flags.json {
            value::json(answer).into_bytes()
        } else if let Some(path) = &self.flags.field {
            let Some(value) = answer.at(path) else {
                note!("note: the answer has no field {path}");
                return Ok(());
            };
            return print(&value.raw());
        } else {
            format!("{}\n\n{}", words.as_ref(), table::fields(answer)).into_bytes()
        };
        print(printed.trim_ascii_end())?;
        print(b"\n")
    }
}

/// Writes a line to standard error, as `eprintln!` does, but for a closed one: who closed
/// it does not want to know, and what goes on must not end by that.
macro_rules! note {
    ($($line:tt)*) => {
        $crate::cli::output::print_note(format_args!($($line)*))
    };
}
pub(crate) use note;

pub(crate) fn print_note(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes to standard output.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(Error::io("standard output"))
}

/// Emphasis for people: bold where standard output is a terminal and `NO_COLOR` is not
/// set, else plain.
pub(crate) fn bold(text: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    format!("\u{1b}[1m{text}\u{1b}[0m")
}
