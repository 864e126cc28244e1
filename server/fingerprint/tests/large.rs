//! Documents of 10 MB and of depth 100,000: they are answered, at once and on an ordinary stack.
#![allow(clippy::unwrap_used)]

use reprise_fingerprint::{CanonicalError, Flaw, Rule, canonicalize};

const BYTES: usize = 10_000_000;

fn canonical(document: &str) -> Result<String, CanonicalError> {
    let canonical = canonicalize(document.as_bytes(), &Rule::default())?;
    Ok(String::from_utf8(canonical).unwrap())
}

fn flaw(document: &str) -> Option<(Flaw, usize)> {
    canonical(document)
        .err()
        .map(|error| (error.what, error.place.offset))
}

fn unordered(pointer: &str) -> Rule {
    Rule::new(vec![], vec![pointer.parse().unwrap()]).unwrap()
}

#[test]
fn a_hundred_thousand_levels_are_refused_at_the_first_that_is_too_deep() {
    const LEVELS: usize = 100_000;
    let arrays = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    assert_eq!(flaw(&arrays), Some((Flaw::TooDeep, 128)));
    assert_eq!(flaw(&"[".repeat(LEVELS)), Some((Flaw::TooDeep, 128)));
    let objects = format!("{}0{}", "{\"a\":".repeat(LEVELS), "}".repeat(LEVELS));
    assert_eq!(flaw(&objects), Some((Flaw::TooDeep, 128 * 5)));
    assert_eq!(flaw(&"]".repeat(LEVELS)), Some((Flaw::Syntax, 0)));
}

#[test]
fn large_arrays_keep_their_order() {
    let numbers = format!("[{}1.0]", "0,".repeat(BYTES / 2));
    assert_eq!(canonical(&numbers), Ok(numbers.replace("1.0", "1")));
    let arrays = format!("[{}0]", "[ ],".repeat(BYTES / 4));
    assert_eq!(canonical(&arrays), Ok(arrays.replace(' ', "")));
}

#[test]
fn large_objects_are_sorted() {
    let member = |index: usize| format!("\"{index:07}\":{{}}");
    let members = BYTES / member(0).len();
    let join = |members: Vec<String>| format!("{{{}}}", members.join(","));
    let falling = join((0..members).rev().map(member).collect());
    let rising = join((0..members).map(member).collect());
    assert!(canonical(&falling).as_ref() == Ok(&rising), "not sorted");

    let repeated = falling.replacen("0000001", "0000000", 1);
    let second = repeated.rfind("\"0000000\"").unwrap();
    assert_eq!(flaw(&repeated), Some((Flaw::RepeatedName, second)));
}

#[test]
fn names_that_differ_only_at_their_ends_are_sorted() {
    let member = |index: usize| format!("\"{}{index:05}\":0", "x".repeat(1000));
    let members = BYTES / member(0).len();
    let join = |members: Vec<String>| format!("{{{}}}", members.join(","));
    let falling = join((0..members).rev().map(member).collect());
    let rising = join((0..members).map(member).collect());
    assert!(canonical(&falling).as_ref() == Ok(&rising), "not sorted");
}

#[test]
fn long_strings_and_blanks_are_read_through() {
    let escapes = format!("\"{}\"", "\\u0041".repeat(BYTES / 6));
    assert!(canonical(&escapes) == Ok(format!("\"{}\"", "A".repeat(BYTES / 6))));
    assert_eq!(
        flaw(&escapes[..escapes.len() - 1]),
        Some((Flaw::Syntax, escapes.len() - 1))
    );
    let blanks = " ".repeat(BYTES);
    assert_eq!(flaw(&blanks), Some((Flaw::Empty, BYTES)));
    assert_eq!(canonical(&format!("{blanks}1{blanks}")), Ok("1".to_owned()));
}

#[test]
fn large_unordered_arrays_are_sorted() {
    let element = |index: usize| format!("[\"{index:07}\"]");
    let elements = BYTES / element(0).len();
    let join = |elements: Vec<String>| format!("[{}]", elements.join(","));
    let falling = join((0..elements).rev().map(element).collect());
    let rising = join((0..elements).map(element).collect());
    let sorted = canonicalize(falling.as_bytes(), &unordered("")).unwrap();
    assert!(sorted == rising.as_bytes(), "not sorted");
}

#[test]
fn many_pointers_into_a_large_document_are_followed_once_each() {
    const POINTERS: usize = 20_000;
    let document = format!("[{}0]", "0,".repeat(BYTES / 2));
    let ignore = (0..POINTERS)
        .map(|index| format!("/{index}").parse().unwrap())
        .collect();
    let rule = Rule::new(ignore, vec![]).unwrap();
    let canonical = canonicalize(document.as_bytes(), &rule).unwrap();
    assert_eq!(canonical.len(), document.len() - 2 * POINTERS);
}
