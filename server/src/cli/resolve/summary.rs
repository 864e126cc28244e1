//! What became of the lines of a file, counted and told.

use std::collections::BTreeMap;

use reprise_client::Error as CallError;

use crate::cli::args::OutputFlags;
use crate::cli::exit::{self, Error, Exit};
use crate::cli::output::{Output, print};
use crate::cli::table::visible;
use crate::cli::value::Fields;

/// Lines of one reason that are named in a table; --json names all.
const LINES_MAX: usize = 20;

/// What became of one line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It was, or in a dry run would be, told to the record.
    Resolved,
    /// The record was so before.
    Before,
    Refused {
        reason: &'static str,
        why: String,
    },
    /// Not reached, or nobody knows whether it was carried out.
    Unknown {
        reason: &'static str,
        why: String,
    },
}

impl Verdict {
    pub(super) fn of(error: &CallError) -> Verdict {
        let (reason, why) = exit::reason_and_text(error);
        match exit::call_exit(error) {
            Exit::Unknown => Verdict::Unknown { reason, why },
            _ => Verdict::Refused { reason, why },
        }
    }

    pub(super) fn no_longer_pending(why: String) -> Verdict {
        let reason = "NOT_PENDING";
        Verdict::Refused { reason, why }
    }

    /// What is pending now is another attempt than the line is about.
    pub(super) fn other_attempt(about: u32, newest: u32) -> Verdict {
        let reason = "OTHER_ATTEMPT";
        let why = format!(
            "attempt {newest} is pending now, and the line is about attempt {about}: find out \
             about the new one, and name it in the column attempt"
        );
        Verdict::Refused { reason, why }
    }

    pub(super) fn not_tried() -> Verdict {
        let why = "the lines before did not get through".to_owned();
        let reason = "NOT_TRIED";
        Verdict::Unknown { reason, why }
    }
}

/// What became of all lines.
#[derive(Debug, Default)]
pub(super) struct Tally {
    resolved: usize,
    before: usize,
    /// By line.
    refused: BTreeMap<u64, (&'static str, String)>,
    unknown: BTreeMap<u64, (&'static str, String)>,
}

impl Tally {
    pub(super) fn add(&mut self, line: u64, verdict: Verdict) {
        match verdict {
            Verdict::Resolved => self.resolved += 1,
            Verdict::Before => self.before += 1,
            Verdict::Refused { reason, why } => {
                self.refused.insert(line, (reason, why));
            }
            Verdict::Unknown { reason, why } => {
                self.unknown.insert(line, (reason, why));
            }
        }
    }

    pub(super) fn lines(&self) -> usize {
        self.resolved + self.before + self.refused.len() + self.unknown.len()
    }

    /// What goes wrong, for the line of progress.
    pub(super) fn short(&self) -> String {
        match (self.refused.len(), self.unknown.len()) {
            (0, 0) => String::new(),
            (refused, unknown) => format!("({refused} refused, {unknown} unknown)"),
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match (self.unknown.is_empty(), self.refused.is_empty()) {
            (false, _) => Exit::Unknown,
            (true, false) => Exit::Refused,
            (true, true) => Exit::Done,
        }
    }

    pub(super) fn tell(&self, flags: &OutputFlags, dry_run: bool) -> Result<(), Error> {
        let output = Output::new(flags);
        match output.is_table() {
            true => print(self.table(dry_run).as_bytes()),
            false => output.answer("", &self.fields(dry_run)),
        }
    }

    fn fields(&self, dry_run: bool) -> Fields {
        let lines = |of: &BTreeMap<u64, (&'static str, String)>| -> Vec<Fields> {
            let line = |(line, (reason, why)): (&u64, &(&'static str, String))| {
                Fields::new()
                    .with("line", *line)
                    .with("reason", *reason)
                    .with("why", &**why)
            };
            of.iter().map(line).collect()
        };
        Fields::new()
            .with("dry_run", dry_run)
            .with("lines", self.lines() as u64)
            .with("resolved", self.resolved as u64)
            .with("repeated_before", self.before as u64)
            .with("refused", self.refused.len() as u64)
            .with("unknown", self.unknown.len() as u64)
            .with("refused_lines", lines(&self.refused))
            .with("unknown_lines", lines(&self.unknown))
    }

    fn table(&self, dry_run: bool) -> String {
        let resolved = match dry_run {
            true => "would be resolved",
            false => "resolved",
        };
        let mut told = String::new();
        for (name, count) in [
            (resolved, self.resolved),
            ("repeated before", self.before),
            ("refused", self.refused.len()),
            ("unknown", self.unknown.len()),
        ] {
            told.push_str(&format!("{name:17}  {count}\n"));
        }
        reasons(&mut told, "refused", &self.refused);
        reasons(&mut told, "unknown", &self.unknown);
        if !self.unknown.is_empty() {
            told.push_str("\nRun the same file again: what is done stays as it is.\n");
        }
        told
    }
}

/// Each reason with its words and lines.
fn reasons(told: &mut String, name: &str, of: &BTreeMap<u64, (&'static str, String)>) {
    let mut lines_of: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for (line, (reason, why)) in of {
        lines_of.entry((reason, why)).or_default().push(*line);
    }
    for ((reason, why), lines) in lines_of {
        let named: Vec<_> = lines.iter().take(LINES_MAX).map(u64::to_string).collect();
        let more = match lines.len() > LINES_MAX {
            true => format!(" and {} more, all in --json", lines.len() - LINES_MAX),
            false => String::new(),
        };
        let lines = match lines.len() {
            1 => "line",
            _ => "lines",
        };
        let (named, why) = (named.join(", "), visible(why));
        told.push_str(&format!(
            "\n{name}: {reason}: {why}\n  {lines} {named}{more}\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_outweighs_what_is_refused() {
        let mut tally = Tally::default();
        tally.add(2, Verdict::Resolved);
        tally.add(3, Verdict::Before);
        assert_eq!(tally.exit(), Exit::Done);
        tally.add(
            4,
            Verdict::no_longer_pending("the record is COMPLETED".to_owned()),
        );
        assert_eq!(tally.exit(), Exit::Refused);
        tally.add(5, Verdict::not_tried());
        assert_eq!(tally.exit(), Exit::Unknown);
        assert_eq!(tally.lines(), 4);
    }

    #[test]
    fn refusals_are_told_by_reason_with_their_lines() {
        let mut tally = Tally::default();
        for line in 2..30 {
            tally.add(
                line,
                Verdict::no_longer_pending("the record is COMPLETED".to_owned()),
            );
        }
        let told = tally.table(false);
        let expected = "refused: NOT_PENDING: the record is COMPLETED\n  lines 2, 3, 4, ";
        assert!(told.contains(expected), "{told}");
        assert!(
            told.ends_with("20, 21 and 8 more, all in --json\n"),
            "{told}"
        );
    }
}
