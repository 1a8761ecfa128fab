//! A JSON parser that accepts what Python's `json.loads` accepts, and records spans.
//!
//! Beyond JSON that is `NaN`, `Infinity`, `-Infinity`, repeated keys (the last one counts) and halves of surrogate
//! pairs. Only the limits below are stricter than Python's.

mod string;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use crate::node::{Entry, JsonValue, Node, Span};

/// No scheduler writes deeper nesting. Python's own limit is its stack.
const MAX_DEPTH: usize = 64;
/// An environment variable cannot exceed 128 KiB on Linux.
const MAX_BYTES: usize = 1 << 20;
/// Python refuses to convert longer integers.
const MAX_DIGITS: usize = 4300;

/// A syntax error.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) span: Span,
    pub(crate) label: String,
    pub(crate) help: Option<&'static str>,
}

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Node,
    /// Repeated keys: the span of the first, and the key.
    pub(crate) repeated: Vec<(Span, String)>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    let mut reader = Reader { text, at: 0, depth: 0, repeated: Vec::new() };
    if text.len() > MAX_BYTES {
        return Err(reader.error(0..1, format!("more than {MAX_BYTES} bytes")));
    }
    if text.starts_with('\u{feff}') {
        return Err(reader.error(0..3, "a byte order mark").with("save the text without a byte order mark"));
    }
    reader.space();
    let root = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.unexpected("the end"));
    }
    Ok(Parsed { root, repeated: reader.repeated })
}

impl SyntaxError {
    fn with(mut self, help: &'static str) -> Self {
        self.help = Some(help);
        self
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    repeated: Vec<(Span, String)>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Consumes `token` if it comes next.
    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn error(&self, span: Span, label: impl Into<String>) -> SyntaxError {
        SyntaxError { span, label: label.into(), help: None }
    }

    /// Returns the error for a text that lacks `wanted` here.
    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let width = self.rest().chars().next().map_or(0, char::len_utf8);
        let fault = self.error(self.at..self.at + width, format!("expected {wanted}"));
        let help = match self.rest() {
            "" => return self.error(self.at..self.at, format!("the text ends here, expected {wanted}")),
            rest if rest.starts_with('\'') => "JSON strings need double quotes",
            rest if rest.starts_with("//") || rest.starts_with('#') => "JSON has no comments",
            rest if rest.starts_with("True") || rest.starts_with("False") => "JSON writes true and false in lower case",
            rest if rest.starts_with("None") => "JSON writes null",
            rest if rest.starts_with(['}', ']']) && self.text[..self.at].trim_end().ends_with(',') => {
                "JSON allows no comma after the last item"
            }
            rest if rest.starts_with(|c: char| c.is_alphabetic() || c == '_') && wanted.contains("key") => {
                "JSON keys need double quotes"
            }
            _ => return fault,
        };
        fault.with(help)
    }

    fn value(&mut self) -> Result<Node, SyntaxError> {
        let start = self.at;
        let value = match self.peek() {
            Some(b'"') => JsonValue::Text(self.string()?),
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'-' | b'0'..=b'9') if !self.rest().starts_with("-Infinity") => self.number()?,
            _ if self.take("null") => JsonValue::Null,
            _ if self.take("true") => JsonValue::Bool(true),
            _ if self.take("false") => JsonValue::Bool(false),
            _ if self.take("NaN") || self.take("Infinity") || self.take("-Infinity") => JsonValue::NotFinite,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<JsonValue, SyntaxError>) -> Result<JsonValue, SyntaxError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(self.at..self.at + 1, format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<JsonValue, SyntaxError> {
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(JsonValue::List(items));
        }
        loop {
            items.push(self.value()?);
            self.space();
            if self.take("]") {
                return Ok(JsonValue::List(items));
            }
            if !self.take(",") {
                return Err(self.unexpected("`,` or `]`"));
            }
            self.space();
        }
    }

    fn object(&mut self) -> Result<JsonValue, SyntaxError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places = HashMap::new();
        self.space();
        if self.take("}") {
            return Ok(JsonValue::Object(entries));
        }
        loop {
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            self.space();
            if !self.take(":") {
                return Err(self.unexpected("`:`"));
            }
            self.space();
            let value = self.value()?;
            match places.entry(key.text.clone()) {
                Slot::Vacant(slot) => {
                    slot.insert(entries.len());
                    entries.push(Entry { key, key_span, value });
                }
                Slot::Occupied(slot) => {
                    let entry = &mut entries[*slot.get()];
                    self.repeated.push((entry.key_span.clone(), key.text));
                    (entry.key_span, entry.value) = (key_span, value);
                }
            }
            self.space();
            if self.take("}") {
                return Ok(JsonValue::Object(entries));
            }
            if !self.take(",") {
                return Err(self.unexpected("`,` or `}`"));
            }
            self.space();
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<JsonValue, SyntaxError> {
        let start = self.at;
        self.take("-");
        if !self.take("0") && self.digits() == 0 {
            return Err(self.unexpected("a digit"));
        }
        let whole = self.at;
        // A fraction or an exponent without digits is not part of the number: the error is in what follows.
        if !(self.take(".") && self.digits() > 0) {
            self.at = whole;
        }
        let mantissa = self.at;
        if !((self.take("e") || self.take("E")) && {
            let _sign = self.take("-") || self.take("+");
            self.digits() > 0
        }) {
            self.at = mantissa;
        }
        let raw = self.text[start..self.at].to_owned();
        if self.at > whole {
            return Ok(JsonValue::Float(raw));
        }
        if raw.trim_start_matches('-').len() > MAX_DIGITS {
            return Err(self.error(start..self.at, format!("an integer of more than {MAX_DIGITS} digits")));
        }
        Ok(JsonValue::Int(raw))
    }
}
