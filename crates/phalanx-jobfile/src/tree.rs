//! TOML as a tree of values with their positions.

use crate::source::{Source, Span};
use phalanx_base::{Code, Error, Result};
use toml::de::{DeTable, DeValue};

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: TomlValue,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum TomlValue {
    Text(String),
    Integer(i64),
    Number(f64),
    Bool(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A key of a table and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) node: Node,
}

impl TomlValue {
    /// The type of the value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// The value of a key, if this is a table that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let TomlValue::Table(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }
}

/// Parses a document; its tables keep the order of the text.
pub(crate) fn parse(source: &Source) -> Result<Node> {
    Parser { source, start: 0 }.document(&source.text, &source.name)
}

/// Parses the text of a `--set` flag, whose first position in the source is `start`.
pub(crate) fn parse_flag(source: &Source, flag: &str, start: usize) -> Result<Node> {
    Parser { source, start }.document(flag, "--set")
}

/// Converts values, with their positions counted from `start`.
struct Parser<'a> {
    source: &'a Source,
    start: usize,
}

impl Parser<'_> {
    fn document(&self, text: &str, name: &str) -> Result<Node> {
        let table = DeTable::parse(text).map_err(|error| self.not_toml(name, &error))?;
        Ok(Node { value: self.entries(table.get_ref())?, span: self.at(table.span()) })
    }

    fn at(&self, span: Span) -> Span {
        span.start + self.start..span.end + self.start
    }

    fn not_toml(&self, name: &str, error: &toml::de::Error) -> Error {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        let span = self.at(error.span().unwrap_or(0..0));
        let what = format!("{name} is not TOML");
        self.source.wrong(Code::JobSyntax, &span, what, message.clone()).because(message).help(
            "correct the syntax: texts are in quotes, lists in [ ], and a key occurs once in a table \
             (`phalanx train --init` prints an example)",
        )
    }

    fn entries(&self, table: &DeTable<'_>) -> Result<TomlValue> {
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let key: &toml::Spanned<std::borrow::Cow<'_, str>> = key;
            Ok(Entry { key: key.get_ref().to_string(), key_span: self.at(key.span()), node: self.node(value)? })
        };
        let mut entries: Vec<Entry> = table.iter().map(entry).collect::<Result<_>>()?;
        entries.sort_by_key(|entry| entry.key_span.start);
        Ok(TomlValue::Table(entries))
    }

    fn node(&self, value: &toml::Spanned<DeValue<'_>>) -> Result<Node> {
        let span = self.at(value.span());
        let out_of_range = |what: &str| {
            let what = format!("the number {what} is out of range");
            self.source.wrong(Code::JobValue, &span, what, "too large").help("integers are signed 64-bit numbers")
        };
        let value = match value.get_ref() {
            DeValue::String(text) => TomlValue::Text(text.to_string()),
            DeValue::Integer(integer) => {
                let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
                TomlValue::Integer(parsed.map_err(|_| out_of_range(integer.as_str()))?)
            }
            DeValue::Float(float) => {
                TomlValue::Number(float.as_str().parse().map_err(|_| out_of_range(float.as_str()))?)
            }
            DeValue::Boolean(value) => TomlValue::Bool(*value),
            DeValue::Datetime(_) => {
                return Err(self
                    .source
                    .wrong(Code::JobValue, &span, "a job has no dates", "a date or a time")
                    .help("write it as a text, in quotes"));
            }
            DeValue::Array(items) => TomlValue::List(items.iter().map(|item| self.node(item)).collect::<Result<_>>()?),
            DeValue::Table(table) => self.entries(table)?,
        };
        Ok(Node { value, span })
    }
}
