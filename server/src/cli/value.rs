//! An answer as a tree of named values: one source for the table that people read, the
//! JSON that machines read, and the single field that a shell reads. Knows nothing of
//! what the fields mean.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// There is none. `null` in JSON, left out of tables.
    None,
    Text(String),
    Number(u64),
    Flag(bool),
    /// Seconds in JSON.
    Duration(Duration),
    /// RFC 3339.
    Time(prost_types::Timestamp),
    /// Base64 in JSON, and beside it `<name>_text` when it is UTF-8.
    Bytes(Bytes),
    /// Base64; nothing to read in it.
    Opaque(Bytes),
    /// Digests and attempt ids: hexadecimal, as other tools write and read them.
    Hex(Bytes),
    List(Vec<Value>),
    Fields(Fields),
}

impl Value {
    /// Nothing to show to people.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Value::None => true,
            Value::Text(text) => text.is_empty(),
            Value::List(items) => items.is_empty(),
            Value::Fields(fields) => fields.0.iter().all(|(_, value)| value.is_blank()),
            _ => false,
        }
    }

    /// As a shell wants it: no quotes, bytes as they are; what has parts as JSON.
    pub(crate) fn raw(&self) -> Vec<u8> {
        match self {
            Value::None => Vec::new(),
            Value::Text(text) => line(text),
            Value::Number(number) => line(number),
            Value::Flag(flag) => line(flag),
            Value::Duration(duration) => line(duration.as_secs_f64()),
            Value::Time(time) => line(time),
            Value::Bytes(bytes) => bytes.to_vec(),
            Value::Opaque(bytes) => line(STANDARD.encode(bytes)),
            Value::Hex(bytes) => line(hex::encode(bytes)),
            Value::List(_) | Value::Fields(_) => line(json(self)),
        }
    }
}

fn line(value: impl ToString) -> Vec<u8> {
    let mut line = value.to_string();
    line.push('\n');
    line.into_bytes()
}

/// The JSON form, on one line.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names are texts and no value is a float that JSON lacks")
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => serializer.serialize_none(),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Number(number) => serializer.serialize_u64(*number),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Duration(duration) => serializer.serialize_f64(duration.as_secs_f64()),
            Value::Time(time) => serializer.collect_str(time),
            Value::Bytes(bytes) | Value::Opaque(bytes) => {
                serializer.serialize_str(&STANDARD.encode(bytes))
            }
            Value::Hex(bytes) => serializer.serialize_str(&hex::encode(bytes)),
            Value::List(items) => serializer.collect_seq(items),
            Value::Fields(fields) => fields.serialize(serializer),
        }
    }
}

/// Named values, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields(pub(crate) Vec<(&'static str, Value)>);

impl Fields {
    pub(crate) fn new() -> Fields {
        Fields::default()
    }

    /// Adds a value.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Fields {
        self.0.push((name, value.into()));
        self
    }

    /// Puts `value` in the place of every value called `name`, at any depth, that is not
    /// blank.
    pub(crate) fn replace(&mut self, name: &str, value: &Value) {
        for (known, place) in &mut self.0 {
            if let Value::Fields(nested) = place {
                nested.replace(name, value);
            } else if *known == name && !place.is_blank() {
                place.clone_from(value);
            }
        }
    }

    /// The value at a path of names with dots between, e.g. `completed.result.data`. An
    /// item of a list is named by its number, from 0.
    pub(crate) fn at(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let mut found = self.get(names.next()?)?;
        for name in names {
            found = match found {
                Value::Fields(fields) => fields.get(name)?,
                Value::List(items) => items.get(name.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(found)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let entry = self.0.iter().find(|(known, _)| *known == name);
        entry.map(|(_, value)| value)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
            if let Value::Bytes(bytes) = value
                && let Ok(text) = str::from_utf8(bytes)
            {
                map.serialize_entry(&format!("{name}_text"), text)?;
            }
        }
        map.end()
    }
}

macro_rules! from {
    ($($source:ty => $make:expr),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(source: $source) -> Value {
                $make(source)
            }
        })*
    };
}

from! {
    &str => |text: &str| Value::Text(text.to_owned()),
    String => Value::Text,
    u64 => Value::Number,
    u32 => |number: u32| Value::Number(number.into()),
    bool => Value::Flag,
    Duration => Value::Duration,
    prost_types::Timestamp => Value::Time,
    // A span that a server sent is never negative; one that is says nothing.
    prost_types::Duration => |span: prost_types::Duration| {
        Duration::try_from(span).map_or(Value::None, Value::Duration)
    },
    Fields => Value::Fields,
    Vec<Fields> => |items: Vec<Fields>| Value::List(items.into_iter().map(Value::Fields).collect()),
    Vec<String> => |items: Vec<String>| Value::List(items.into_iter().map(Value::Text).collect()),
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::None, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Fields {
        Fields::new()
            .with("state", "COMPLETED")
            .with(
                "result",
                Fields::new().with("data", Value::Bytes(Bytes::from_static(b"{}\n"))),
            )
            .with("binary", Value::Bytes(Bytes::from_static(&[0xff])))
            .with("digest", Value::Hex(Bytes::from_static(&[0xab])))
            .with("lease", Duration::from_millis(1500))
            .with(
                "at",
                prost_types::Timestamp {
                    seconds: 0,
                    nanos: 0,
                },
            )
            .with("names", vec!["a".to_owned()])
            .with("absent", Value::None)
    }

    #[test]
    fn json_has_base64_with_text_beside_it_seconds_and_rfc_3339() {
        assert_eq!(
            json(&answer()),
            r#"{"state":"COMPLETED","result":{"data":"e30K","data_text":"{}\n"},"#.to_owned()
                + r#""binary":"/w==","digest":"ab","lease":1.5,"#
                + r#""at":"1970-01-01T00:00:00Z","names":["a"],"absent":null}"#
        );
    }

    #[test]
    fn a_field_is_found_by_its_path_and_printed_raw() {
        let answer = answer();
        let raw = |path: &str| answer.at(path).map(Value::raw);
        assert_eq!(raw("state"), Some(b"COMPLETED\n".to_vec()));
        assert_eq!(raw("result.data"), Some(b"{}\n".to_vec()));
        assert_eq!(raw("binary"), Some(vec![0xff]));
        assert_eq!(raw("names.0"), Some(b"a\n".to_vec()));
        for absent in [
            "",
            "nothing",
            "names.1",
            "state.x",
            "result.data.x",
            "result.",
        ] {
            assert_eq!(raw(absent), None, "{absent}");
        }
    }
}
