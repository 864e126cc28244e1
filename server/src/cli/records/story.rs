//! A record's story in words and small tables, for one screen. Knows messages, no server.

use reprise_client::proto::{
    AttemptEnding, AuditEntry, Content, EndedAttempt, GetHistoryResponse, GrantReason,
    NewestAttempt, RecordSummary, RefusedReport, ReplacedValues, SeenMismatch, content::Body,
};
use reprise_client::{Found, Reading};

use crate::cli::answer::{self, word};
use crate::cli::listing::second;
use crate::cli::table::{self, visible};
use crate::cli::words;

/// Characters of a digest that are shown.
const DIGEST_SHOWN: usize = 16;

/// All of it.
pub(super) fn tell(found: &Found, history: &GetHistoryResponse, audit: &[AuditEntry]) -> String {
    let mut told = format!("{}\n\n", words::found(found));
    told.push_str(&table::fields(&answer::identity(found)));
    for (name, lines) in [
        ("Attempts", attempts(found, history)),
        ("Replaced by newer values", replaced(&history.replaced)),
        (
            "Refused reports, each possibly a second effect",
            refused(&history.refused),
        ),
        (
            "Repeats with another payload, refused",
            mismatches(&history.mismatches),
        ),
        ("What people and rare events did", audit_lines(audit)),
        ("Stored", stored(found)),
    ] {
        section(&mut told, name, &lines);
    }
    told
}

fn section(told: &mut String, name: &str, lines: &str) {
    if lines.is_empty() {
        return;
    }
    told.push_str(&format!("\n{name}\n"));
    for line in lines.lines() {
        told.push_str(&format!("  {line}\n"));
    }
}

fn attempts(found: &Found, history: &GetHistoryResponse) -> String {
    let mut lines: Vec<_> = history.attempts.iter().map(ended).collect();
    lines.extend(history.newest.iter().map(|it| newest(it, found)));
    if lines.is_empty() {
        return String::new();
    }
    let head = ["#", "GRANTED", "TO", "ENDED", "HOW", "CODE", "REFERENCE"];
    let mut told = table::columns(head, &lines);
    let Some(newest) = &history.newest else {
        return told;
    };
    if newest.unaccounted {
        told.push_str("An earlier attempt may have had its effect and is not accounted for.\n");
    }
    if newest.contradicted {
        told.push_str("A report contradicts this record: only a resolution ends that.\n");
    }
    if let Some(until) = newest.repeat_until_time {
        let until = second(Some(until));
        told.push_str(&format!(
            "Nobody is granted another attempt after {until}.\n"
        ));
    }
    told
}

fn ended(it: &EndedAttempt) -> [String; 7] {
    [
        it.number.to_string(),
        second(it.grant_time),
        visible(&it.owner),
        second(it.end_time),
        ending(it.ending()).to_owned(),
        visible(&it.code),
        visible(&it.provider_reference),
    ]
}

fn ending(ending: AttemptEnding) -> &'static str {
    match ending {
        AttemptEnding::Lapsed => "lapsed without a word",
        AttemptEnding::FailedRetryable => "failed, to be tried again",
        AttemptEnding::GivenBack => "reached nobody, given back",
        AttemptEnding::Resolved => "ended by a resolution",
        AttemptEnding::Unspecified => "in a way that this program does not know",
    }
}

fn newest(it: &NewestAttempt, found: &Found) -> [String; 7] {
    let (ended, code) = match &found.reading {
        Reading::Completed(it) | Reading::Failed(it) => {
            (second(Some(it.time.into())), visible(&it.content.code))
        }
        Reading::ResultGone(it) => (second(it.record_time), visible(&it.code)),
        Reading::Pending(_) => (second(it.lease_expire_time), String::new()),
        Reading::Processing(_) => {
            let end = second(it.lease_expire_time);
            (format!("until {end}"), String::new())
        }
    };
    [
        it.number.to_string(),
        second(it.grant_time),
        visible(&it.owner),
        ended,
        how(it, &found.record),
        code,
        visible(&found.record.provider_reference),
    ]
}

/// How the newest attempt stands.
fn how(it: &NewestAttempt, record: &RecordSummary) -> String {
    let mut how = words::state(record).to_owned();
    if it.sent {
        how.push_str(", said it was sending");
    }
    match it.reason() {
        GrantReason::AfterLapsedLease => how.push_str(", took over"),
        GrantReason::AfterResolution => how.push_str(", granted by a resolution"),
        _ => {}
    }
    how
}

/// The attempts and how they ended, a line each, for a short look back.
pub(crate) fn endings(found: &Found, history: &GetHistoryResponse) -> Vec<String> {
    let line = |cells: [String; 7]| {
        let [number, granted, owner, _, how, ..] = cells;
        format!("{granted}  attempt {number} of {owner}: {how}")
    };
    let before = history.attempts.iter().map(ended).map(line);
    let newest = history.newest.iter().map(|it| line(newest(it, found)));
    before.chain(newest).collect()
}

fn replaced(replaced: &[ReplacedValues]) -> String {
    let line = |it: &ReplacedValues| {
        let mut parts = Vec::new();
        if !it.provider_reference.is_empty() {
            parts.push(format!("reference {}", visible(&it.provider_reference)));
        }
        if !it.instruction.is_empty() {
            parts.push(format!("an instruction of {} bytes", it.instruction.len()));
        }
        let (time, parts) = (second(it.time), parts.join(", "));
        format!("{time}  attempt {}: {parts}\n", it.attempt)
    };
    replaced.iter().map(line).collect()
}

fn refused(refused: &[RefusedReport]) -> String {
    let line = |it: &RefusedReport| {
        let kind = word(it.kind().as_str_name(), "REPORT_KIND_");
        let code = match it.code.is_empty() {
            true => String::new(),
            false => format!(" {}", visible(&it.code)),
        };
        let (time, digest) = (second(it.time), short(&it.digest));
        format!(
            "{time}  attempt {}: {kind}{code}, digest {digest}\n",
            it.attempt
        )
    };
    refused.iter().map(line).collect()
}

fn mismatches(seen: &[SeenMismatch]) -> String {
    let line = |it: &SeenMismatch| {
        let (first, last) = (second(it.first_time), second(it.last_time));
        let scheme = word(it.scheme().as_str_name(), "FINGERPRINT_SCHEME_");
        let (count, digest) = (it.count, short(&it.sha256));
        format!("{count} from {first} to {last}: {scheme} payload, digest {digest}\n")
    };
    seen.iter().map(line).collect()
}

fn short(digest: &[u8]) -> String {
    hex::encode(digest).chars().take(DIGEST_SHOWN).collect()
}

/// The audit in its order: when, what, who, by what right, why.
pub(crate) fn audit_lines(audit: &[AuditEntry]) -> String {
    let line = |it: &AuditEntry| {
        let action = word(it.action().as_str_name(), "AUDIT_ACTION_");
        let right = word(it.authority().as_str_name(), "AUDIT_AUTHORITY_").to_lowercase();
        let (time, actor) = (second(it.time), visible(&it.actor));
        let why = match it.reason.is_empty() {
            true => String::new(),
            false => format!(": {}", visible(&it.reason)),
        };
        format!("{time}  {action} by {actor} ({right}){why}\n")
    };
    audit.iter().map(line).collect()
}

/// What is kept, and until when.
fn stored(found: &Found) -> String {
    let mut told = match &found.reading {
        Reading::Completed(it) | Reading::Failed(it) => content(&it.content),
        Reading::ResultGone(_) => "bytes             no longer kept\n".to_owned(),
        Reading::Processing(_) | Reading::Pending(_) => String::new(),
    };
    for (name, time) in [
        ("replayed until", found.record.result_expire_time),
        ("remembered until", found.record.memory_expire_time),
    ] {
        if time.is_some() {
            told.push_str(&format!("{name:16}  {}\n", second(time)));
        }
    }
    told
}

fn content(content: &Content) -> String {
    let mut told = match content.code.is_empty() {
        true => String::new(),
        false => format!("code              {}\n", visible(&content.code)),
    };
    for header in &content.headers {
        let (name, value) = (&header.name, String::from_utf8_lossy(&header.value));
        let (name, value) = (visible(name), visible(&value));
        told.push_str(&format!("header            {name}: {value}\n"));
    }
    if let Some(Body::Omitted(body)) = &content.body {
        let (size, digest) = (body.size, hex::encode(&body.sha256));
        told.push_str(&format!(
            "body              {size} bytes, sha256 {digest}\n"
        ));
    }
    told
}
