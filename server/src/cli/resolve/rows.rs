//! The file of `resolve --from`: what was found out about many records, as CSV with a
//! header or as lines of JSON. Checked whole before anything is written. Knows no server.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reprise_client::proto::content::Body;
use reprise_client::proto::lookup_request::Target;
use reprise_client::proto::resolve_request::Outcome;
use reprise_client::proto::{
    Applied, Content, NotApplied, RecordId, RecordName, ResolvedFailed, StillUnknown,
};
use reprise_domain::content::BODY_BYTES_MAX;
use reprise_domain::text::INSTRUCTION_BYTES_MAX;

use super::csv;
use super::json::Members;
use crate::cli::{args, duration, input, report, wire_duration};

/// The columns, or members, that a file may have.
const FIELDS: [&str; 15] = [
    "tenant",
    "record_id",
    "operation",
    "subject",
    "key",
    "attempt",
    "outcome",
    "code",
    "body",
    "resource_id",
    "provider_reference",
    "evidence",
    "effect_key_spent",
    "check_after",
    "claim",
];

const OUTCOMES: &str = "must be applied, not_applied, failed or still_unknown";

/// What counts where a line does not say it.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) tenant: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) evidence: Option<String>,
}

/// What was found out about one record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Where the file says it.
    pub(super) line: u64,
    pub(super) target: Target,
    /// Number of the attempt that it was found out about; none: of the newest.
    pub(super) attempt: Option<u32>,
    pub(super) outcome: Outcome,
    pub(super) effect_key_spent: bool,
    pub(super) evidence: String,
    /// By what right; none: as operator.
    pub(super) claim: Option<Bytes>,
}

/// A place in the file; both from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    pub(super) fn wrong(self, field: &'static str, told: impl Into<String>) -> Wrong {
        let told = told.into();
        Wrong {
            place: self,
            field,
            told,
        }
    }
}

/// What cannot be as it stands in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wrong {
    place: Place,
    /// Empty: the line as such.
    field: &'static str,
    told: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        write!(f, "line {line}, column {column}")?;
        if !self.field.is_empty() {
            write!(f, " ({})", self.field)?;
        }
        write!(f, ": {}", self.told)
    }
}

/// Reads a file. One that begins with `{` holds lines of JSON, another one CSV.
///
/// # Errors
/// Every line that is wrong, with what is allowed there.
pub(super) fn read(text: &str, defaults: &Defaults) -> Result<Vec<Row>, Vec<Wrong>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = match text.trim_start().starts_with('{') {
        true => json_lines(text),
        false => csv_lines(text).map_err(|wrong| vec![wrong])?,
    };
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    let mut seen = HashMap::new();
    for line in lines {
        let row = line.and_then(|line| line.row(defaults));
        let row = row.and_then(|(row, place)| {
            let first = seen.entry(identity(&row.target)).or_insert(row.line);
            match *first == row.line {
                true => Ok(row),
                false => Err(place.wrong("", format!("is the record of line {first} again"))),
            }
        });
        match row {
            Ok(row) => rows.push(row),
            Err(error) => wrong.push(error),
        }
    }
    match wrong.is_empty() {
        true => Ok(rows),
        false => Err(wrong),
    }
}

/// The same for all ways to name one record.
fn identity(target: &Target) -> (String, String) {
    match target {
        Target::Record(name) => {
            let RecordName {
                tenant,
                operation,
                subject,
                key,
            } = name;
            let id = reprise_domain::RecordName::new(tenant, operation, subject, key)
                .map(|name| name.id().to_string());
            // Its parts were checked one by one.
            (tenant.clone(), id.unwrap_or_default())
        }
        Target::RecordId(id) => (id.tenant.clone(), id.id.clone()),
        Target::EffectKey(key) => (key.tenant.clone(), key.key.clone()),
    }
}

/// One line before its values are understood.
struct Line {
    place: Place,
    cells: Vec<(&'static str, csv::Cell)>,
}

fn field(name: &str) -> Option<&'static str> {
    let name = name.trim();
    FIELDS.into_iter().find(|known| *known == name)
}

fn unknown_field(place: Place) -> Wrong {
    place.wrong(
        "",
        format!("is no known column: there are {}", FIELDS.join(", ")),
    )
}

fn csv_lines(text: &str) -> Result<Vec<Result<Line, Wrong>>, Wrong> {
    let mut records = csv::read(text)?.into_iter();
    let mut head = Vec::new();
    for cell in records.next().unwrap_or_default() {
        let name = field(&cell.text).ok_or_else(|| unknown_field(cell.place))?;
        if head.contains(&name) {
            return Err(cell.place.wrong(name, "is there twice"));
        }
        head.push(name);
    }
    let line = |record: Vec<csv::Cell>| {
        let place = record
            .first()
            .map_or(Place { line: 1, column: 1 }, |it| it.place);
        if record.len() != head.len() {
            let (cells, columns) = (record.len(), head.len());
            let told = format!("has {cells} cells, the header has {columns}");
            return Err(place.wrong("", told));
        }
        let cells = head.iter().copied().zip(record).collect();
        Ok(Line { place, cells })
    };
    Ok(records.map(line).collect())
}

fn json_lines(text: &str) -> Vec<Result<Line, Wrong>> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, text)| !text.trim().is_empty());
    lines.map(|(line, text)| json_line(line, text)).collect()
}

fn json_line(line: u64, text: &str) -> Result<Line, Wrong> {
    use serde_json::Value;
    let start = Place { line, column: 1 };
    let Members(members) = serde_json::from_str(text).map_err(|error| {
        let column = u64::try_from(error.column()).unwrap_or(1).max(1);
        Place { line, column }.wrong("", format!("is no JSON object: {error}"))
    })?;
    let mut cells = Vec::new();
    for (name, value) in members {
        let at = text.find(&format!("\"{name}\"")).unwrap_or_default();
        let column = text[..at].chars().count() as u64 + 1;
        let place = Place { line, column };
        let name = field(&name).ok_or_else(|| unknown_field(place))?;
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text,
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) if ["code", "attempt"].contains(&name) => number.to_string(),
            _ => return Err(place.wrong(name, "must be a string")),
        };
        cells.push((name, csv::Cell { place, text }));
    }
    Ok(Line {
        place: start,
        cells,
    })
}

impl Line {
    /// Where a field is, and what it says; nothing said is the same as no such field.
    fn get(&self, name: &'static str) -> Option<(Place, &str)> {
        let (_, cell) = self.cells.iter().find(|(known, _)| *known == name)?;
        (!cell.text.is_empty()).then_some((cell.place, &cell.text))
    }

    fn text(&self, name: &'static str) -> Result<String, Wrong> {
        let checked = self.checked(name, args::short_text)?;
        Ok(checked.unwrap_or_default())
    }

    /// A field's value as `check` reads it.
    fn checked<T>(
        &self,
        name: &'static str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        let read = |(place, text): (Place, &str)| {
            check(text).map_err(|allowed| place.wrong(name, allowed))
        };
        self.get(name).map(read).transpose()
    }

    /// Refuses fields that say nothing beside this outcome.
    fn none_of(&self, names: &[&'static str], needs: &str) -> Result<(), Wrong> {
        match names
            .iter()
            .find_map(|name| Some((*name, self.get(name)?.0)))
        {
            None => Ok(()),
            Some((name, place)) => Err(place.wrong(name, format!("needs the outcome {needs}"))),
        }
    }

    fn row(self, defaults: &Defaults) -> Result<(Row, Place), Wrong> {
        let row = Row {
            line: self.place.line,
            target: self.target(defaults)?,
            attempt: self.checked("attempt", attempt)?,
            outcome: self.outcome()?,
            effect_key_spent: self.checked("effect_key_spent", flag)?.unwrap_or(false),
            evidence: self.evidence(defaults)?,
            claim: self.checked("claim", claim)?,
        };
        Ok((row, self.place))
    }

    fn target(&self, defaults: &Defaults) -> Result<Target, Wrong> {
        let tenant = self.checked("tenant", args::word)?;
        let Some(tenant) = tenant.or_else(|| defaults.tenant.clone()) else {
            let told = "is needed, here or as --tenant";
            return Err(self.place.wrong("tenant", told));
        };
        let id = self.checked("record_id", |text| {
            let id = reprise_domain::RecordId::parse(text);
            id.map_err(|error| format!("must be {}", error.allowed))
        })?;
        if let Some(id) = id {
            let name = ["operation", "subject", "key"];
            if let Some((name, place)) = name
                .into_iter()
                .find_map(|name| Some((name, self.get(name)?.0)))
            {
                let told = "must be empty beside a record_id, which says it all";
                return Err(place.wrong(name, told));
            }
            let id = id.to_string();
            return Ok(Target::RecordId(RecordId { tenant, id }));
        }
        let Some(key) = self.checked("key", args::key)? else {
            let told = "is needed, or a record_id";
            return Err(self.place.wrong("key", told));
        };
        let operation = self.checked("operation", args::word)?;
        let Some(operation) = operation.or_else(|| defaults.operation.clone()) else {
            let told = "is needed, here or as --operation";
            return Err(self.place.wrong("operation", told));
        };
        let subject = self.checked("subject", args::subject)?.unwrap_or_default();
        Ok(Target::Record(RecordName {
            tenant,
            operation,
            subject,
            key,
        }))
    }

    fn outcome(&self) -> Result<Outcome, Wrong> {
        let Some((place, outcome)) = self.get("outcome") else {
            return Err(self.place.wrong("outcome", OUTCOMES));
        };
        let (applied, failed, unknown) = match outcome {
            "applied" => (true, false, false),
            "failed" => (false, true, false),
            "still_unknown" => (false, false, true),
            "not_applied" => (false, false, false),
            _ => return Err(place.wrong("outcome", OUTCOMES)),
        };
        if !applied && !failed {
            self.none_of(&["code", "body", "resource_id"], "applied or failed")?;
        }
        if !applied && !failed && !unknown {
            let needs = "applied, failed or still_unknown";
            self.none_of(&["provider_reference"], needs)?;
        }
        if applied || unknown {
            self.none_of(&["effect_key_spent"], "not_applied or failed")?;
        }
        if !unknown {
            self.none_of(&["check_after"], "still_unknown")?;
        }
        if applied || failed {
            let content = Some(self.content()?);
            return Ok(match applied {
                true => Outcome::Applied(Applied { result: content }),
                false => Outcome::Failed(ResolvedFailed { error: content }),
            });
        }
        if !unknown {
            return Ok(Outcome::NotApplied(NotApplied {}));
        }
        let range = Duration::ZERO..=report::CHECK_AFTER_MAX;
        let check_after = self.checked("check_after", duration::within(range))?;
        Ok(Outcome::StillUnknown(StillUnknown {
            check_after: check_after.map(wire_duration),
            provider_reference: self.text("provider_reference")?,
        }))
    }

    fn content(&self) -> Result<Content, Wrong> {
        let body = self.checked("body", |text| match text.len() as u64 <= BODY_BYTES_MAX {
            true => Ok(Body::Data(Bytes::copy_from_slice(text.as_bytes()))),
            false => Err(format!("must have at most {BODY_BYTES_MAX} bytes")),
        })?;
        Ok(Content {
            code: self.text("code")?,
            headers: Vec::new(),
            body,
            resource_id: self.text("resource_id")?,
            provider_reference: self.text("provider_reference")?,
        })
    }

    fn evidence(&self, defaults: &Defaults) -> Result<String, Wrong> {
        let own = self.checked("evidence", |text| {
            match text.len() <= INSTRUCTION_BYTES_MAX {
                true => Ok(text.to_owned()),
                false => Err(format!("must be 1 to {INSTRUCTION_BYTES_MAX} bytes")),
            }
        })?;
        own.or_else(|| defaults.evidence.clone()).ok_or_else(|| {
            let told = "is needed, here or as --evidence";
            self.place.wrong("evidence", told)
        })
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

fn attempt(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "must be the number of an attempt, from 1".to_owned())
}

fn claim(text: &str) -> Result<Bytes, String> {
    let claim = input::base64(text).filter(|claim| !claim.is_empty());
    claim.ok_or_else(|| "must be the base64 text that `pending claim` printed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        Defaults {
            tenant: Some("shop".to_owned()),
            operation: Some("charge".to_owned()),
            evidence: Some("asked".to_owned()),
        }
    }

    fn told(text: &str) -> Vec<String> {
        let wrong = read(text, &defaults()).unwrap_err();
        wrong.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_member_that_is_there_twice_is_refused() {
        let told = told("{\"key\":\"a\",\"outcome\":\"applied\",\"outcome\":\"not_applied\"}");
        assert!(told[0].contains("\"outcome\" is there twice"), "{told:?}");
    }

    #[test]
    fn csv_and_json_lines_say_the_same() {
        let csv = "key,outcome,code,body,effect_key_spent,evidence,check_after\n\
                   a,applied,201,\"{\"\"id\"\": 1}\",,seen,\n\
                   b,not_applied,,,true,,\n\
                   c,still_unknown,,,,,1h\n";
        let json = r#"{"key": "a", "outcome": "applied", "code": 201, "body": "{\"id\": 1}", "evidence": "seen"}
            {"key": "b", "outcome": "not_applied", "effect_key_spent": true, "code": null}

            {"key": "c", "outcome": "still_unknown", "check_after": "1h"}"#;
        let from_csv = read(csv, &defaults()).unwrap();
        let mut from_json = read(json, &defaults()).unwrap();
        for (line, row) in (2..).zip(&mut from_json) {
            row.line = line;
        }
        assert_eq!(from_csv, from_json);
        assert_eq!(from_csv[0].evidence, "seen");
        assert_eq!(from_csv[1].evidence, "asked");
        assert!(from_csv[1].effect_key_spent);
    }

    #[test]
    fn every_wrong_line_is_named_with_column_and_what_is_allowed() {
        let csv = "key,outcome,code,check_after\n\
                   a,done,,\n\
                   b,not_applied,201,\n\
                   c,applied,,1h\n\
                   d,still_unknown,,31d\n\
                   e,applied\n\
                   ,applied,,\n\
                   g,applied,,\n\
                   g,not_applied,,\n";
        let expected = [
            "line 2, column 3 (outcome): must be applied, not_applied, failed or still_unknown",
            "line 3, column 15 (code): needs the outcome applied or failed",
            "line 4, column 12 (check_after): needs the outcome still_unknown",
            "line 5, column 18 (check_after): must be 0s to 30d",
            "line 6, column 1: has 2 cells, the header has 4",
            "line 7, column 1 (key): is needed, or a record_id",
            "line 9, column 1: is the record of line 8 again",
        ];
        assert_eq!(told(csv), expected);
        assert!(told("key,outcom\n")[0].starts_with("line 1, column 5: is no known column"));
        let json = "{\"key\": \"a\", \"outcome\": \"applied\"}\n{\"key\": [1]}\n{\"key\": \"a\",}";
        let wrong = told(json);
        assert_eq!(wrong[0], "line 2, column 2 (key): must be a string");
        assert!(wrong[1].starts_with("line 3, column 13: is no JSON object"));
    }

    #[test]
    fn a_record_is_known_again_by_name_and_by_id() {
        let name = reprise_domain::RecordName::new("shop", "charge", "", "a").unwrap();
        let csv = format!(
            "record_id,key,outcome\n,a,applied\n{},,applied\n",
            name.id()
        );
        assert_eq!(
            told(&csv),
            ["line 3, column 1: is the record of line 2 again"]
        );
        let both = format!("record_id,key,outcome\n{},a,applied\n", name.id());
        assert!(told(&both)[0].contains("(key): must be empty beside a record_id"));
    }

    #[test]
    fn what_no_line_and_no_flag_says_is_needed() {
        let none = Defaults::default();
        let wrong = read("key,outcome\na,applied\n", &none).unwrap_err();
        assert_eq!(
            wrong[0].to_string(),
            "line 2, column 1 (tenant): is needed, here or as --tenant"
        );
        assert_eq!(read("", &none), Ok(Vec::new()));
    }
}
