//! What holds for every document: spelling never matters, values always do, nothing panics.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use reprise_fingerprint::{Context, Flaw, MediaType, Pointer, Rule, canonicalize, json};

#[derive(Clone, Debug, PartialEq)]
enum Doc {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Array(Vec<Doc>),
    Object(BTreeMap<String, Doc>),
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-1000_i32..1000).prop_map(f64::from),
        (-100_000_i32..100_000).prop_map(|cents| f64::from(cents) / 100.0),
        any::<f64>().prop_filter("JSON has no infinity", |number| number.is_finite()),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,2}",
        "[\\x00-\\x7f]{0,6}",
        "\\PC{0,4}",
        any::<String>()
    ]
}

fn doc() -> impl Strategy<Value = Doc> {
    let leaf = prop_oneof![
        Just(Doc::Null),
        any::<bool>().prop_map(Doc::Bool),
        number().prop_map(Doc::Number),
        text().prop_map(Doc::Text),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Doc::Array),
            prop::collection::btree_map(text(), inner, 0..6).prop_map(Doc::Object),
        ]
    })
}

/// Writes a document in one of its many spellings, as `choices` decides.
struct Speller<'c> {
    choices: std::iter::Cycle<std::slice::Iter<'c, u8>>,
    out: String,
}

fn spell(doc: &Doc, choices: &[u8]) -> Vec<u8> {
    let mut speller = Speller {
        choices: choices.iter().cycle(),
        out: String::new(),
    };
    speller.value(doc);
    speller.out.into_bytes()
}

/// Moves the decimal point of the shortest form, which leaves the decimal value as it is.
fn spell_number(value: f64, choice: usize) -> String {
    let shortest = serde_json::to_string(&value).unwrap();
    let (sign, magnitude) = shortest
        .strip_prefix('-')
        .map_or(("", &*shortest), |rest| ("-", rest));
    let (mantissa, exponent) = magnitude.split_once('e').unwrap_or((magnitude, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().unwrap();
    match choice {
        0 => shortest,
        1 => format!("{sign}{whole}.{fraction}00E{exponent:+}"),
        2 => format!("{sign}0.{whole:0>30}{fraction}e{}", exponent + 30),
        _ if value == 0.0 => format!("{sign}0e{}", i32::MAX),
        _ => {
            let digits = format!("{whole}{fraction}000");
            let digits = digits.trim_start_matches('0');
            format!("{sign}{digits}e{}", exponent - fraction.len() as i32 - 3)
        }
    }
}

impl Speller<'_> {
    fn choose(&mut self, options: u8) -> usize {
        usize::from(self.choices.next().unwrap() % options)
    }

    fn blanks(&mut self) {
        let blanks = ["", "", " ", "\n\t", "\r\n  "][self.choose(5)];
        self.out.push_str(blanks);
    }

    fn value(&mut self, doc: &Doc) {
        self.blanks();
        match doc {
            Doc::Null => self.out.push_str("null"),
            Doc::Bool(value) => self.out.push_str(&value.to_string()),
            Doc::Number(value) => self.number(*value),
            Doc::Text(value) => self.text(value),
            Doc::Array(elements) => self.list('[', ']', elements, Self::value),
            Doc::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for end in (1..members.len()).rev() {
                    let other = self.choose(6) % (end + 1);
                    members.swap(end, other);
                }
                self.list('{', '}', &members, |speller, (name, value)| {
                    speller.blanks();
                    speller.text(name);
                    speller.blanks();
                    speller.out.push(':');
                    speller.value(value);
                });
            }
        }
        self.blanks();
    }

    fn list<T>(&mut self, open: char, close: char, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.out.push(open);
        self.blanks();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            write(self, item);
        }
        self.out.push(close);
    }

    fn number(&mut self, value: f64) {
        let choice = self.choose(4);
        self.out.push_str(&spell_number(value, choice));
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for char in text.chars() {
            let short = match char {
                '"' => "\\\"",
                '\\' => "\\\\",
                '/' => "\\/",
                '\u{8}' => "\\b",
                '\u{c}' => "\\f",
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                _ => "",
            };
            let must_escape = char < ' ' || matches!(char, '"' | '\\');
            match self.choose(4) {
                0 if !short.is_empty() => self.out.push_str(short),
                choice if must_escape || choice == 0 => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        let escape = if choice == 1 {
                            format!("\\u{unit:04X}")
                        } else {
                            format!("\\u{unit:04x}")
                        };
                        self.out.push_str(&escape);
                    }
                }
                _ => self.out.push(char),
            }
        }
        self.out.push('"');
    }
}

/// Changes one value or name somewhere in `doc`.
fn change(doc: &mut Doc, choices: &mut impl Iterator<Item = usize>) {
    let choice = choices.next().unwrap_or(0);
    match doc {
        Doc::Null => *doc = Doc::Bool(false),
        Doc::Bool(value) => *value = !*value,
        Doc::Number(value) => *value = if *value == 1.0 { 1.5 } else { 1.0 },
        Doc::Text(value) => value.push(['x', '\0', '"', '\u{1f600}'][choice % 4]),
        Doc::Array(elements) if choice.is_multiple_of(4) || elements.is_empty() => {
            elements.push(Doc::Null);
        }
        Doc::Array(elements) => {
            let len = elements.len();
            change(&mut elements[choice % len], choices);
        }
        Doc::Object(members) if choice.is_multiple_of(4) || members.is_empty() => {
            let name = members
                .last_key_value()
                .map_or(String::new(), |(name, _)| format!("{name}!"));
            members.insert(name, Doc::Null);
        }
        Doc::Object(members) => {
            let len = members.len();
            let member = members.values_mut().nth(choice % len);
            change(member.expect("the number is below the length"), choices);
        }
    }
}

fn canonical(document: &[u8]) -> Vec<u8> {
    canonicalize(document, &Rule::default()).unwrap()
}

fn digest(document: &[u8]) -> [u8; 32] {
    let media_type = MediaType::parse("application/json").unwrap();
    json(&media_type, &Context::default(), document, &Rule::default())
        .unwrap()
        .digest
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..64)
}

const PIECES: [&str; 27] = [
    "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"b\":", "\\", "\\u", "\\ud83d", "\\ude00", "0",
    "-", "1", ".", "e", "+", "99", "true", "null", "fals", " ", "\n", "\u{e9}", "\u{feff}",
];

/// Bytes that are nearly JSON, so that the parser's depths are reached.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        30 => prop::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spelling_never_matters(doc in doc(), one in choices(), other in choices()) {
        let (one, other) = (spell(&doc, &one), spell(&doc, &other));
        prop_assert_eq!(String::from_utf8(canonical(&one)), String::from_utf8(canonical(&other)));
        prop_assert_eq!(digest(&one), digest(&other));
    }

    #[test]
    fn a_changed_value_always_matters(
        doc in doc(),
        at in prop::collection::vec(any::<usize>(), 8),
        one in choices(),
        other in choices(),
    ) {
        let mut changed = doc.clone();
        change(&mut changed, &mut at.into_iter());
        prop_assert_ne!(digest(&spell(&doc, &one)), digest(&spell(&changed, &other)));
    }

    #[test]
    fn documents_are_equal_when_their_canonical_forms_are(a in doc(), b in doc(), one in choices()) {
        prop_assert_eq!(a == b, canonical(&spell(&a, &one)) == canonical(&spell(&b, &one)));
    }

    #[test]
    fn the_canonical_form_is_its_own_and_means_the_same(doc in doc(), one in choices()) {
        let document = spell(&doc, &one);
        let canonical = canonical(&document);
        prop_assert_eq!(&canonicalize(&canonical, &Rule::default()).unwrap(), &canonical);
        let meaning = |bytes: &[u8]| -> BTreeMap<String, serde_json::Value> {
            let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            leaves(value)
        };
        prop_assert_eq!(meaning(&document), meaning(&canonical));
    }

    #[test]
    fn nothing_panics_and_what_is_json_is_told_from_what_is_not(
        document in prop_oneof![nearly_json(), prop::collection::vec(any::<u8>(), 0..64)],
    ) {
        let is_json = serde_json::from_slice::<serde_json::Value>(&document).is_ok();
        match canonicalize(&document, &Rule::default()) {
            Ok(canonical) => {
                prop_assert!(is_json);
                prop_assert_eq!(canonicalize(&canonical, &Rule::default()), Ok(canonical));
            }
            Err(error) => {
                prop_assert!(error.place.offset <= document.len());
                let stricter_than_json = matches!(error.what, Flaw::RepeatedName | Flaw::InexactNumber);
                prop_assert!(stricter_than_json || !is_json, "{error}");
            }
        }
    }

    #[test]
    fn no_rule_panics_or_refuses(
        doc in doc(),
        one in choices(),
        ignore in prop::collection::vec("(/([a-c]|[0-3]|~0|~1|-|)){1,4}", 0..4),
        unordered in prop::collection::vec("(/([a-c]|[0-3]|~0|~1|-|)){0,4}", 0..4),
    ) {
        let document = spell(&doc, &one);
        let parse = |texts: Vec<String>| -> Vec<Pointer> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let rule = Rule::new(parse(ignore), parse(unordered)).unwrap();
        let ruled = canonicalize(&document, &rule).unwrap();
        prop_assert!(ruled.len() <= canonical(&document).len());
        prop_assert!(canonicalize(&ruled, &Rule::default()).is_ok());
    }

    #[test]
    fn an_unordered_array_is_a_multiset(
        elements in prop::collection::vec(doc(), 0..6),
        turn in any::<usize>(),
        one in choices(),
    ) {
        let rule = Rule::new(vec![], vec!["/list".parse().unwrap()]).unwrap();
        let document = |elements: Vec<Doc>| {
            let members = BTreeMap::from([("list".to_owned(), Doc::Array(elements))]);
            canonicalize(&spell(&Doc::Object(members), &one), &rule).unwrap()
        };
        let mut turned = elements.clone();
        turned.rotate_left(turn % elements.len().max(1));
        prop_assert_eq!(document(turned), document(elements.clone()));
        let mut longer = elements.clone();
        longer.extend(elements.first().cloned().or(Some(Doc::Null)));
        prop_assert_ne!(document(longer), document(elements));
    }

    #[test]
    fn every_double_is_accepted_in_its_shortest_form(bits in any::<u64>(), choice in 0_usize..4) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        let written = canonical(spell_number(double, choice).as_bytes());
        let read: f64 = String::from_utf8(written).unwrap().parse().unwrap();
        prop_assert_eq!(read, double);
    }
}

/// The leaves of a document by their path, numbers as doubles.
fn leaves(value: serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    use serde_json::Value;
    let mut leaves = BTreeMap::new();
    let mut open = vec![(String::new(), value)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Array(elements) => {
                leaves.insert(format!("{path} array"), elements.len().into());
                let named = elements.into_iter().enumerate();
                open.extend(named.map(|(index, value)| (format!("{path}/{index}"), value)));
            }
            Value::Object(members) => {
                leaves.insert(format!("{path} object"), members.len().into());
                open.extend(
                    members
                        .into_iter()
                        .map(|(name, value)| (format!("{path}/{name:?}"), value)),
                );
            }
            Value::Number(number) => {
                // Adding zero takes the sign from a negative zero, which JSON text may have.
                leaves.insert(path, (number.as_f64().unwrap() + 0.0).into());
            }
            leaf => {
                leaves.insert(path, leaf);
            }
        }
    }
    leaves
}
