//! Tables for people: aligned, plain text, safe to show on a terminal.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::duration;
use super::value::{Fields, Value};

/// Lines of one text that are shown; the rest is counted.
const LINES_MAX: usize = 20;

/// The fields of one answer, one on a line, nested ones under the name of their parent.
pub(crate) fn fields(fields: &Fields) -> String {
    let mut rows = Vec::new();
    collect(fields, 0, &mut rows);
    let labels = rows.iter().map(|row| row.label.chars().count());
    let width = labels.max().unwrap_or_default();
    let mut table = String::new();
    for Row { label, value } in rows {
        let mut label = label.as_str();
        for line in value.split('\n') {
            let line = format!("{label:width$}  {line}");
            let _ = writeln!(table, "{}", line.trim_end());
            label = "";
        }
    }
    table
}

/// Many things of one kind, one on a line below `head`.
pub(crate) fn columns<const N: usize>(head: [&str; N], lines: &[[String; N]]) -> String {
    let mut widths = head.map(|cell| cell.chars().count());
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut table = String::new();
    let head = head.map(str::to_owned);
    for line in std::iter::once(&head).chain(lines) {
        let cells = line.iter().zip(widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(table, "{}", padded.join("  ").trim_end());
    }
    table
}

struct Row {
    label: String,
    value: String,
}

fn collect(fields: &Fields, depth: usize, rows: &mut Vec<Row>) {
    for (name, value) in &fields.0 {
        if value.is_blank() {
            continue;
        }
        let label = format!(
            "{:indent$}{}",
            "",
            name.replace('_', " "),
            indent = depth * 2
        );
        match value {
            Value::Fields(nested) => {
                rows.push(Row {
                    label,
                    value: String::new(),
                });
                collect(nested, depth + 1, rows);
            }
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(show).collect();
                rows.push(Row {
                    label,
                    value: items.join("\n"),
                });
            }
            value => rows.push(Row {
                label,
                value: show(value),
            }),
        }
    }
}

/// One value in words.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::None => String::new(),
        Value::Text(text) => visible(text),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Duration(span) => duration::show(*span),
        Value::Time(time) => time.to_string(),
        Value::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok("") => "(empty)".to_owned(),
            Ok(text) => first_lines(text),
            Err(_) => format!("({} bytes that are not text)", bytes.len()),
        },
        Value::Opaque(bytes) => STANDARD.encode(bytes),
        Value::Hex(bytes) => hex::encode(bytes),
        Value::List(items) => items.iter().map(show).collect::<Vec<_>>().join(", "),
        Value::Fields(fields) => {
            let shown = fields.0.iter().filter(|(_, value)| !value.is_blank());
            let shown =
                shown.map(|(name, value)| format!("{} {}", name.replace('_', " "), show(value)));
            shown.collect::<Vec<_>>().join(", ")
        }
    }
}

fn first_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
    let mut shown: Vec<String> = lines
        .iter()
        .take(LINES_MAX)
        .map(|line| visible(line))
        .collect();
    if lines.len() > LINES_MAX {
        shown.push(format!("... ({} lines, {} bytes)", lines.len(), text.len()));
    }
    shown.join("\n")
}

/// Without what a terminal would obey rather than show.
pub(crate) fn visible(text: &str) -> String {
    let show = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
    text.chars().map(show).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn fields_are_aligned_and_nested_and_blank_ones_left_out() {
        let answer = Fields::new()
            .with("outcome", "completed")
            .with("owner", "")
            .with(
                "result",
                Fields::new()
                    .with("code", "201")
                    .with("data", Value::Bytes(Bytes::from_static(b"one\ntwo\n"))),
            )
            .with("lease_remaining", Duration::from_secs(30));
        assert_eq!(
            fields(&answer),
            "outcome          completed\n\
             result\n\
             \x20 code           201\n\
             \x20 data           one\n\
             \x20                two\n\
             lease remaining  30 s\n"
        );
    }

    #[test]
    fn a_terminal_is_told_nothing_by_a_value() {
        assert_eq!(show(&"\u{1b}[2Jgone".into()), "\u{FFFD}[2Jgone");
        let long = Value::Bytes(Bytes::from("x\n".repeat(30)));
        assert!(show(&long).ends_with("... (30 lines, 60 bytes)"));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [["ch_1", "42.00"], ["ch_10", "9.00"]].map(|line| line.map(str::to_owned));
        assert_eq!(
            columns(["id", "amount"], &lines),
            "id     amount\nch_1   42.00\nch_10  9.00\n"
        );
    }
}
