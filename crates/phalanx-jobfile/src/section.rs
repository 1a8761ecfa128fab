//! A table of a job, read against its list of keys.

use crate::schema::{Key, Keys, Takes};
use crate::source::{Source, Span, Spanned, meant};
use crate::tree::{Entry, Node, TomlValue};
use phalanx_base::{Code, Error, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Upper bounds for settings that allocate memory or threads.
const MOST: [(&str, u64); 7] = [
    ("hidden_units", 1 << 20),
    ("dimension", 1 << 16),
    ("batch_size", 1 << 24),
    ("prefetch", 1 << 12),
    ("read_at_once", 1 << 10),
    ("threads", 1 << 10),
    ("n_classes", 1 << 24),
];

/// A table and the keys that it may have.
pub(crate) struct Section<'a> {
    pub(crate) source: &'a Source,
    keys: Keys,
    entries: &'a [Entry],
    /// The position of the table.
    pub(crate) span: Span,
    /// The table's name in messages, such as `[train]`.
    name: String,
    /// The keys that were read: `close` reports keys of the schema that no code reads.
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Section<'a> {
    /// Opens a table with these keys.
    ///
    /// # Errors
    /// If `node` is not a table, or has other keys.
    pub(crate) fn open(source: &'a Source, name: &str, keys: Keys, node: &'a Node) -> Result<Self> {
        let section = Self::unchecked(source, name, keys, node)?;
        section.check_keys()?;
        Ok(section)
    }

    /// Opens a table whose key `word` selects one of `kinds`, which determine its other keys.
    pub(crate) fn of_kind(
        source: &'a Source,
        name: &str,
        word: &str,
        kinds: &'static [Keys],
        node: &'a Node,
    ) -> Result<(&'static str, Self)> {
        let mut section = Self::unchecked(source, name, kinds[0], node)?;
        let Some(entry) = section.entries.iter().find(|entry| entry.key == word) else {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
            let what = format!("{name} has no `{word}`");
            return Err(source
                .wrong(Code::JobKey, &section.span, what, format!("`{word}` is missing"))
                .help(format!("add {word} = \"…\" with one of {}", names.join(", "))));
        };
        let TomlValue::Text(wanted) = &entry.node.value else {
            return Err(section.not(&entry.key, &entry.node, "a text"));
        };
        let is = |kind: &&Keys| kind.name == wanted || kind.also.contains(&wanted.as_str());
        let Some(kind) = kinds.iter().find(is) else {
            let names = kinds.iter().flat_map(|kind| std::iter::once(&kind.name).chain(kind.also)).copied();
            let what = format!("there is no {word} \"{wanted}\" for {name}");
            let error = source.wrong(Code::JobValue, &entry.node.span, what, format!("no such {word}"));
            return Err(error.help(meant(wanted, names.collect::<Vec<_>>())));
        };
        section.keys = *kind;
        section.check_keys()?;
        Ok((kind.name, section))
    }

    fn unchecked(source: &'a Source, name: &str, keys: Keys, node: &'a Node) -> Result<Self> {
        let TomlValue::Table(entries) = &node.value else {
            let what = format!("{name} is {}, not a table", node.value.kind());
            return Err(source
                .wrong(Code::JobValue, &node.span, what, "not a table")
                .help(format!("write {name} as a table, or as {{ key = value, … }}")));
        };
        let (span, read) = (node.span.clone(), RefCell::default());
        Ok(Self { source, keys, entries, span, name: name.to_owned(), read })
    }

    fn check_keys(&self) -> Result<()> {
        let unknown = |entry: &&Entry| !self.keys.iter().any(|key| key.name == entry.key);
        let Some(entry) = self.entries.iter().find(unknown) else { return Ok(()) };
        let what = format!("{} has no key \"{}\"", self.name, entry.key);
        let error = self.source.wrong(Code::JobKey, &entry.key_span, what, "nothing reads this");
        Err(error.help(meant(
            &entry.key,
            self.keys.iter().map(|key| key.name).filter(|name| *name != "origin").collect::<Vec<_>>(),
        )))
    }

    /// Checks, in debug builds, that every key of the schema was read.
    pub(crate) fn close(self) {
        if cfg!(debug_assertions) {
            let read = self.read.into_inner();
            let unread: Vec<&str> = self.keys.iter().map(|key| key.name).filter(|name| !read.contains(name)).collect();
            assert!(unread.is_empty(), "nothing reads {unread:?} of {}", self.name);
        }
    }

    fn key(&self, name: &'static str) -> Option<&'static Key> {
        let key = self.keys.iter().find(|key| key.name == name);
        debug_assert!(key.is_some(), "{} has no key {name:?} in the schema", self.name);
        key
    }

    /// The value of a key.
    pub(crate) fn node(&self, name: &'static str) -> Option<&'a Node> {
        self.key(name);
        self.read.borrow_mut().insert(name);
        self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    /// Whether the schema of this table has the key.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }

    /// The position of a key's value, or of the table if the key is missing.
    pub(crate) fn span_of(&self, name: &str) -> Span {
        let entry = self.entries.iter().find(|entry| entry.key == name);
        entry.map_or_else(|| self.span.clone(), |entry| entry.node.span.clone())
    }

    /// An error about a value.
    pub(crate) fn wrong(&self, span: &Span, what: impl Into<String>, label: impl Into<String>) -> Error {
        self.source.wrong(Code::JobValue, span, what, label)
    }

    /// An error about a required key that is missing.
    pub(crate) fn missing(&self, name: &'static str) -> Error {
        let key = self.key(name);
        let description = key.map_or("", |key| key.description);
        let is_table = key.is_some_and(|key| matches!(key.takes, Takes::Table(_) | Takes::Kind(..) | Takes::Named(_)));
        let name = if is_table { format!("[{name}]") } else { format!("`{name}`") };
        let what = format!("{} has no {name}", self.name);
        self.source
            .wrong(Code::JobKey, &self.span, what, format!("{name} is missing"))
            .help(format!("add {name}: {description}"))
    }

    pub(crate) fn not(&self, key: &str, node: &Node, wanted: &str) -> Error {
        let what = format!("`{key}` of {} is {}, not {wanted}", self.name, node.value.kind());
        let help = match (&node.value, wanted) {
            (TomlValue::Text(text), "a number" | "an integer") if text.parse::<f64>().is_ok() => {
                format!("write {text} without quotes")
            }
            (_, "a text") => "put it in quotes".to_owned(),
            (_, "true or false") => "write true or false, without quotes".to_owned(),
            _ => format!("give {wanted}"),
        };
        self.wrong(&node.span, what, format!("not {wanted}")).help(help)
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<Spanned<String>>> {
        self.node(name).map(|node| self.as_text(name, node)).transpose()
    }

    pub(crate) fn as_text(&self, name: &str, node: &Node) -> Result<Spanned<String>> {
        match &node.value {
            TomlValue::Text(text) => Ok(Spanned::new(text.clone(), &node.span)),
            _ => Err(self.not(name, node, "a text")),
        }
    }

    pub(crate) fn need_text(&self, name: &'static str) -> Result<Spanned<String>> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn boolean(&self, name: &'static str) -> Result<Option<bool>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match node.value {
            TomlValue::Bool(value) => Ok(Some(value)),
            _ => Err(self.not(name, node, "true or false")),
        }
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<Spanned<f64>>> {
        self.node(name).map(|node| self.as_number(name, node)).transpose()
    }

    pub(crate) fn as_number(&self, name: &str, node: &Node) -> Result<Spanned<f64>> {
        match node.value {
            TomlValue::Number(number) => Ok(Spanned::new(number, &node.span)),
            TomlValue::Integer(number) => Ok(Spanned::new(number as f64, &node.span)),
            _ => Err(self.not(name, node, "a number")),
        }
    }

    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<Spanned<i64>>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match node.value {
            TomlValue::Integer(number) => Ok(Some(Spanned::new(number, &node.span))),
            _ => Err(self.not(name, node, "an integer")),
        }
    }

    /// An integer of at least `least`.
    pub(crate) fn count(&self, name: &'static str, least: u64) -> Result<Option<Spanned<u64>>> {
        self.node(name).map(|node| self.as_count(name, node, least)).transpose()
    }

    pub(crate) fn as_count(&self, name: &str, node: &Node, least: u64) -> Result<Spanned<u64>> {
        let TomlValue::Integer(number) = node.value else { return Err(self.not(name, node, "an integer")) };
        let most = MOST.iter().find(|(key, _)| *key == name).map_or(u64::MAX, |(_, most)| *most);
        let wrong = |label, help| {
            Err(self.wrong(&node.span, format!("`{name}` of {} is {number}", self.name), label).help(help))
        };
        match u64::try_from(number) {
            Ok(count) if count > most => wrong("too large", format!("give at most {most}")),
            Ok(count) if count >= least => Ok(Spanned::new(count, &node.span)),
            _ => wrong("too small", format!("give at least {least}")),
        }
    }

    /// The same without its position.
    pub(crate) fn plain_count(&self, name: &'static str, least: u64) -> Result<Option<u64>> {
        Ok(self.count(name, least)?.map(|count| count.value))
    }

    pub(crate) fn need_count(&self, name: &'static str, least: u64) -> Result<Spanned<u64>> {
        self.count(name, least)?.ok_or_else(|| self.missing(name))
    }

    /// The items of a list.
    pub(crate) fn list(&self, name: &'static str) -> Result<Option<Spanned<&'a [Node]>>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match &node.value {
            TomlValue::List(items) => Ok(Some(Spanned::new(items, &node.span))),
            _ => Err(self.not(name, node, "a list")),
        }
    }

    fn list_of<T>(&self, name: &'static str, read: impl Fn(&Node) -> Result<T>) -> Result<Option<Spanned<Vec<T>>>> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        Ok(Some(Spanned { value: list.value.iter().map(read).collect::<Result<_>>()?, span: list.span }))
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Spanned<Vec<Spanned<String>>>>> {
        self.list_of(name, |node| self.as_text(name, node))
    }

    /// A text, or a list of them.
    pub(crate) fn one_or_more(&self, name: &'static str) -> Result<Option<Spanned<Vec<Spanned<String>>>>> {
        match self.node(name) {
            Some(node @ Node { value: TomlValue::Text(_), .. }) => {
                Ok(Some(Spanned::new(vec![self.as_text(name, node)?], &node.span)))
            }
            _ => self.texts(name),
        }
    }

    pub(crate) fn numbers(&self, name: &'static str) -> Result<Option<Spanned<Vec<Spanned<f64>>>>> {
        self.list_of(name, |node| self.as_number(name, node))
    }

    pub(crate) fn counts(&self, name: &'static str, least: u64) -> Result<Option<Spanned<Vec<usize>>>> {
        self.list_of(name, |node| self.as_count(name, node, least).map(|count| count.value as usize))
    }

    /// The entries of a table with user-defined keys.
    pub(crate) fn table(&self, name: &'static str) -> Result<Option<&'a [Entry]>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match &node.value {
            TomlValue::Table(entries) => Ok(Some(entries)),
            _ => Err(self.not(name, node, "a table")),
        }
    }

    /// One of several words, by its meaning.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<Option<Spanned<T>>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text.value) {
            Some(&(_, meaning)) => Ok(Some(text.map(|_| meaning))),
            None => Err(self.no_such(name, &text, words.iter().map(|(word, _)| *word).collect())),
        }
    }

    /// An error about an unknown word.
    pub(crate) fn no_such(&self, name: &str, text: &Spanned<String>, words: Vec<&str>) -> Error {
        let what = format!("`{name}` of {} is \"{}\"", self.name, text.value);
        let span = text.span.as_ref().unwrap_or(&self.span);
        self.wrong(span, what, "no such word").help(meant(&text.value, words))
    }
}
