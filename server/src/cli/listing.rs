//! Lists that come in pages: as one table for people, as a line for each entry for
//! machines, printed as the pages come.

use clap::Args;

use super::args::OutputFlags;
use super::exit::{Error, Exit};
use super::output::{Output, note, print};
use super::table;
use super::value::{self, Fields};

/// Entries of one page.
const PAGE_SIZE: u32 = 500;
/// Lines of a table, unless asked for more.
const TABLE_LINES: u64 = 100;

/// How much of a list.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct LimitFlags {
    /// Most entries, 0 for all; 100 in a table unless given, all with --json and --field
    #[arg(long, value_name = "NUMBER", help_heading = "Output")]
    limit: Option<u64>,
}

impl LimitFlags {
    /// None: all.
    fn most(self, output: &Output<'_>) -> Option<u64> {
        match self.limit {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => output.is_table().then_some(TABLE_LINES),
        }
    }
}

/// A page that was asked for.
pub(crate) struct Page {
    pub(crate) size: u32,
    pub(crate) token: String,
}

/// What a page holds, and the token of the next one; empty at the end.
pub(crate) type Got<T> = (Vec<T>, String);

/// How a list is shown.
pub(crate) struct Shape<T, const N: usize> {
    pub(crate) head: [&'static str; N],
    pub(crate) cells: fn(&T) -> [String; N],
    pub(crate) fields: fn(&T) -> Fields,
    /// What is said where the list is empty.
    pub(crate) none: &'static str,
}

/// Prints a list. Ends well when standard output is closed: `| head` has seen enough.
pub(crate) async fn show<T, const N: usize>(
    flags: &OutputFlags,
    limit: LimitFlags,
    shape: Shape<T, N>,
    read: impl AsyncFnMut(Page) -> Result<Got<T>, Error>,
) -> Result<Exit, Error> {
    match print_all(flags, limit, shape, read).await {
        Err(error) if error.is_closed_output() => Ok(Exit::Done),
        Err(error) => Err(error),
        Ok(()) => Ok(Exit::Done),
    }
}

async fn print_all<T, const N: usize>(
    flags: &OutputFlags,
    limit: LimitFlags,
    shape: Shape<T, N>,
    mut read: impl AsyncFnMut(Page) -> Result<Got<T>, Error>,
) -> Result<(), Error> {
    let output = Output::new(flags);
    let most = limit.most(&output);
    let mut left = most.unwrap_or(u64::MAX);
    let mut lines = Vec::new();
    let mut token = String::new();
    loop {
        let size = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE_SIZE);
        let (entries, next) = read(Page { size, token }).await?;
        left = left.saturating_sub(entries.len() as u64);
        for entry in &entries {
            match output.is_table() {
                true => lines.push((shape.cells)(entry)),
                false => print(&line(flags, &(shape.fields)(entry)))?,
            }
        }
        token = next;
        if token.is_empty() || left == 0 {
            break;
        }
    }
    if output.is_table() {
        let table = match lines.is_empty() {
            true => format!("{}\n", shape.none),
            false => table::columns(shape.head, &lines),
        };
        print(table.as_bytes())?;
    }
    if let (Some(most), false) = (most, token.is_empty()) {
        note!("note: there may be more than these {most}; --limit 0 shows all");
    }
    Ok(())
}

/// One entry on one line. A field that it has not is an empty line.
fn line(flags: &OutputFlags, entry: &Fields) -> Vec<u8> {
    let mut line = match &flags.field {
        None => value::json(entry).into_bytes(),
        Some(path) => entry.at(path).map(value::Value::raw).unwrap_or_default(),
    };
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    line
}

/// A moment to the second, for a column.
pub(crate) fn second(time: Option<prost_types::Timestamp>) -> String {
    let whole = |time: prost_types::Timestamp| prost_types::Timestamp { nanos: 0, ..time };
    time.map(|time| whole(time).to_string()).unwrap_or_default()
}
