//! What texts are allowed. Before the effect a bad text is refused by field; after the
//! effect it is adjusted, since no state change may fail for a formality.

/// Bytes of an owner, a correlation id, a code or a reference.
pub const TEXT_BYTES_MAX: usize = 255;
/// Bytes of an instruction or of evidence.
pub const INSTRUCTION_BYTES_MAX: usize = 16 * 1024;

/// A field that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {allowed}")]
pub struct FieldError {
    /// Path of the field, e.g. `record.key`.
    pub field: String,
    /// What is allowed there. Never repeats what was sent.
    pub allowed: String,
}

impl FieldError {
    /// `field` accepts only `allowed`.
    pub fn new(field: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            allowed: allowed.into(),
        }
    }
}

/// A text of at most [`TEXT_BYTES_MAX`] bytes without control characters.
///
/// # Errors
/// Names the field and what is allowed.
pub fn check(field: &str, text: String) -> Result<String, FieldError> {
    if !fits(&text) {
        return Err(FieldError::new(
            field,
            "at most 255 bytes of UTF-8 without control characters",
        ));
    }
    Ok(text)
}

/// Is `text` accepted as it is, before the effect and after it?
pub(crate) fn fits(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX && !has_control(text)
}

/// Is there a control character? Texts of ASCII alone are looked through byte by byte.
pub(crate) fn has_control(text: &str) -> bool {
    if text.is_ascii() {
        return text.bytes().any(|byte| byte.is_ascii_control());
    }
    text.chars().any(char::is_control)
}

/// What was done to a part of a report that could not be kept as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjustmentKind {
    /// Shortened to the limit.
    Cut,
    /// Left out; a body is recorded by size and digest.
    Dropped,
    /// Control characters became U+FFFD.
    Replaced,
}

/// One part of a report that was not kept as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjustment {
    /// Path of the field, e.g. `result.headers[2]`.
    pub field: String,
    /// What was done.
    pub kind: AdjustmentKind,
    /// The limit or rule that applied, in words.
    pub description: &'static str,
}

/// Makes `text` acceptable to [`check`], noting what was done.
pub fn adjust(field: &str, text: String, adjusted: &mut Vec<Adjustment>) -> String {
    let mut text = text;
    if has_control(&text) {
        text = text
            .chars()
            .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
            .collect();
        adjusted.push(Adjustment {
            field: field.to_owned(),
            kind: AdjustmentKind::Replaced,
            description: "control characters are replaced by U+FFFD",
        });
    }
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        adjusted.push(Adjustment {
            field: field.to_owned(),
            kind: AdjustmentKind::Cut,
            description: "at most 255 bytes are kept",
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_before_the_effect_is_checked() {
        assert_eq!(check("owner", String::new()), Ok(String::new()));
        assert!(check("owner", "x".repeat(TEXT_BYTES_MAX)).is_ok());
        for text in [
            "x".repeat(TEXT_BYTES_MAX + 1),
            "a\nb".to_owned(),
            "\u{9f}".to_owned(),
        ] {
            assert_eq!(check("owner", text).expect_err("refused").field, "owner");
        }
    }

    #[test]
    fn text_after_the_effect_is_adjusted_until_it_would_pass() {
        let cut = format!("{}é", "x".repeat(TEXT_BYTES_MAX - 1));
        let controls = "\n".repeat(TEXT_BYTES_MAX);
        for (text, kinds) in [
            ("fine ü".to_owned(), vec![]),
            ("a\nb".to_owned(), vec![AdjustmentKind::Replaced]),
            (cut, vec![AdjustmentKind::Cut]),
            (
                controls,
                vec![AdjustmentKind::Replaced, AdjustmentKind::Cut],
            ),
        ] {
            let mut adjusted = Vec::new();
            let kept = adjust("result.code", text.clone(), &mut adjusted);
            assert_eq!(kept == text, kinds.is_empty());
            assert!(adjusted.iter().all(|done| done.field == "result.code"));
            let done: Vec<_> = adjusted.iter().map(|done| done.kind).collect();
            assert_eq!(done, kinds);
            assert_eq!(check("result.code", kept.clone()), Ok(kept));
        }
    }
}
