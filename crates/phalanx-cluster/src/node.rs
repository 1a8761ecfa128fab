//! JSON values with their spans in the text, and Python's view of them.

use std::ops::Range;

use crate::Json;

/// A range of bytes of the text.
pub(crate) type Span = Range<usize>;

/// A value and its span.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: JsonValue,
}

/// A value as Python's `json.loads` sees it.
#[derive(Clone, Debug)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    /// The digits, with a sign if there is one.
    Int(String),
    /// Digits with a fraction or an exponent.
    Float(String),
    /// `NaN`, `Infinity`, `-Infinity`.
    NotFinite,
    Text(Text),
    List(Vec<Node>),
    Object(Vec<Entry>),
}

/// A string. Python's may contain half of a surrogate pair, Rust's cannot: `broken` is then set, and the text has
/// U+FFFD.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) broken: bool,
}

/// One entry of an object. A repeated key has the position of the first and the value of the last.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Text,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    /// Returns the value of a key, if this is an object that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key.text == key).map(|entry| &entry.value)
    }

    /// Returns the entries of an object; empty for other values.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            JsonValue::Object(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the string, if it is one and valid.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            JsonValue::Text(Text { text, broken: false }) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, JsonValue::Null)
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.value, JsonValue::Object(_))
    }

    /// Python's `bool(value)`.
    pub(crate) fn truthy(&self) -> bool {
        match &self.value {
            JsonValue::Null => false,
            JsonValue::Bool(truth) => *truth,
            JsonValue::Int(digits) => digits.bytes().any(|b| matches!(b, b'1'..=b'9')),
            JsonValue::Float(digits) => digits.parse::<f64>().is_ok_and(|number| number != 0.0),
            JsonValue::NotFinite => true,
            JsonValue::Text(text) => !text.text.is_empty(),
            JsonValue::List(items) => !items.is_empty(),
            JsonValue::Object(entries) => !entries.is_empty(),
        }
    }

    /// Returns the kind of the value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            JsonValue::Null => "null",
            JsonValue::Bool(_) => "a boolean",
            JsonValue::Int(_) | JsonValue::Float(_) | JsonValue::NotFinite => "a number",
            JsonValue::Text(_) => "a string",
            JsonValue::List(_) => "a list",
            JsonValue::Object(_) => "an object",
        }
    }

    /// Returns the value without its spans.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            JsonValue::Null | JsonValue::NotFinite => Json::Null,
            JsonValue::Bool(truth) => Json::Bool(*truth),
            JsonValue::Int(digits) | JsonValue::Float(digits) => Json::Number(digits.clone()),
            JsonValue::Text(text) => Json::text(&text.text),
            JsonValue::List(items) => Json::List(items.iter().map(Self::to_json).collect()),
            JsonValue::Object(entries) => {
                Json::object(entries.iter().map(|entry| (entry.key.text.clone(), entry.value.to_json())))
            }
        }
    }
}
