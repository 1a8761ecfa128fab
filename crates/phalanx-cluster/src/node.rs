//! JSON values with their spans in the text, and Python's view of them.

use std::ops::Range;

use crate::Json;

/// A range of bytes of the text.
pub(crate) type Span = Range<usize>;

/// A value and its span.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// A value as Python's `json.loads` sees it.
#[derive(Clone, Debug)]
pub(crate) enum Value {
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
            Value::Object(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the string, if it is one and valid.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Text(Text { text, broken: false }) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    /// Python's `bool(value)`.
    pub(crate) fn truthy(&self) -> bool {
        match &self.value {
            Value::Null => false,
            Value::Bool(truth) => *truth,
            Value::Int(digits) => digits.bytes().any(|b| matches!(b, b'1'..=b'9')),
            Value::Float(digits) => digits.parse::<f64>().is_ok_and(|number| number != 0.0),
            Value::NotFinite => true,
            Value::Text(text) => !text.text.is_empty(),
            Value::List(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
        }
    }

    /// Returns the kind of the value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Float(_) | Value::NotFinite => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// Returns the value without its spans.
    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            Value::Null | Value::NotFinite => Json::Null,
            Value::Bool(truth) => Json::Bool(*truth),
            Value::Int(digits) | Value::Float(digits) => Json::Number(digits.clone()),
            Value::Text(text) => Json::text(&text.text),
            Value::List(items) => Json::List(items.iter().map(Self::to_json).collect()),
            Value::Object(entries) => {
                Json::object(entries.iter().map(|entry| (entry.key.text.clone(), entry.value.to_json())))
            }
        }
    }
}
