//! Documents of several shapes and sizes, made anew and the same each time.

use std::fmt;
use std::fmt::Write as _;

/// What a document is to consist of, and about how many bytes it is to have.
pub(crate) struct Document {
    shape: Shape,
    size: Size,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// One object, its members in no order.
    Flat,
    /// Objects in arrays in objects, as an order with its lines.
    Nested,
    /// Amounts, counts and measurements of up to 17 digits.
    Numbers,
    /// Long strings, escaped at every few characters.
    Escapes,
    /// Long strings of several scripts without escapes.
    Texts,
    /// Many short elements.
    Array,
}

#[derive(Clone, Copy)]
enum Size {
    Small,
    Large,
}

const SHAPES: [Shape; 6] = [
    Shape::Flat,
    Shape::Nested,
    Shape::Numbers,
    Shape::Escapes,
    Shape::Texts,
    Shape::Array,
];

/// Every shape in either size.
pub(crate) const DOCUMENTS: [Document; 12] = {
    let mut documents = [const {
        Document {
            shape: Shape::Flat,
            size: Size::Small,
        }
    }; 12];
    let mut at = 0;
    while at < 12 {
        documents[at].shape = SHAPES[at / 2];
        documents[at].size = [Size::Small, Size::Large][at % 2];
        at += 1;
    }
    documents
};

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = match self.size {
            Size::Small => "1 kB",
            Size::Large => "1 MB",
        };
        write!(f, "{:?}, {size}", self.shape)
    }
}

impl Document {
    /// The document's bytes.
    pub(crate) fn write(&self) -> Vec<u8> {
        let bytes = match self.size {
            Size::Small => 1_000,
            Size::Large => 1_000_000,
        };
        let mut random = Random(0x5eed);
        let (open, close) = match self.shape {
            Shape::Flat => ('{', '}'),
            _ => ('[', ']'),
        };
        let mut out = String::from(open);
        while out.len() < bytes {
            if out.len() > 1 {
                out.push(',');
            }
            self.shape.write_item(&mut random, &mut out);
        }
        out.push(close);
        out.into_bytes()
    }
}

impl Shape {
    fn write_item(self, random: &mut Random, out: &mut String) {
        let written = match self {
            Self::Flat => {
                let (name, at) = (random.word(), random.below(1 << 40));
                match random.below(4) {
                    0 => write!(out, r#""{name}_{at}":{}"#, random.below(100_000)),
                    1 => write!(out, r#""{name}_{at}":true"#),
                    _ => write!(out, r#""{name}_{at}":"{}""#, random.word()),
                }
            }
            Self::Nested => write!(
                out,
                r#"{{"order":{{"id":"{}","customer":{{"name":"{}","city":"{}"}},"lines":[{{"sku":"{}","count":{},"price":{{"amount":"{}.{:02}","currency":"EUR"}}}},{{"sku":"{}","count":1,"price":null}}]}},"paid":false}}"#,
                random.below(1 << 40),
                random.word(),
                random.word(),
                random.word(),
                random.below(10),
                random.below(1000),
                random.below(100),
                random.word(),
            ),
            Self::Numbers => match random.below(6) {
                0 => write!(out, "{}", random.below(100)),
                1 => write!(out, "-{}", random.below(1 << 50)),
                2 => write!(out, "{}.{:02}", random.below(10_000), random.below(100)),
                3 => write!(out, "{}.5e{}", random.below(10), random.below(40)),
                // A double's own form: up to 17 digits, of which the standard library picks others.
                _ => {
                    let double = random.below(1 << 53) as f64 / 8191.0;
                    let form = serde_json::to_string(&double).expect("a number");
                    out.push_str(&form);
                    Ok(())
                }
            },
            Self::Escapes => {
                out.push('"');
                for _ in 0..8 {
                    out.push_str(random.word());
                    out.push_str(random.one_of(&[
                        r"\n",
                        r"\t",
                        r#"\""#,
                        r"\\",
                        r"\/",
                        r"\u00e4",
                        r"\u20AC",
                        r"\ud83d\ude00",
                    ]));
                }
                out.push('"');
                Ok(())
            }
            Self::Texts => {
                out.push('"');
                for _ in 0..12 {
                    out.push_str(random.word());
                    out.push_str(random.one_of(&[" ", " ", ", ", " ü ", " € ", " 東京 "]));
                }
                out.push('"');
                Ok(())
            }
            Self::Array => match random.below(4) {
                0 => write!(out, "[]"),
                1 => write!(out, "null"),
                2 => write!(out, "{}", random.below(100)),
                _ => write!(out, r#""{}""#, random.word()),
            },
        };
        written.expect("a String takes everything");
    }
}

/// A linear congruential generator (Knuth's MMIX): the same sequence each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The low bits repeat soon.
        (self.0 >> 11) % bound
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len() as u64) as usize]
    }

    fn word(&mut self) -> &'static str {
        self.one_of(&[
            "amount",
            "currency",
            "receipt",
            "customer",
            "address",
            "street",
            "note",
            "id",
            "reference",
            "quantity",
            "tax",
            "delivery",
            "country",
            "total",
            "position",
            "card",
        ])
    }
}
