//! One table of a job, read key by key against its list of keys.

use crate::schema::{Key, Keys, Takes};
use crate::source::{At, Source, Span, meant};
use crate::tree::{Entry, Node, Value};
use phalanx_base::{Code, Error, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What memory or threads are taken by is not beyond all measure.
const MOST: [(&str, u64); 7] = [
    ("hidden_units", 1 << 20),
    ("dimension", 1 << 16),
    ("batch_size", 1 << 24),
    ("prefetch", 1 << 12),
    ("read_at_once", 1 << 10),
    ("threads", 1 << 10),
    ("n_classes", 1 << 24),
];

/// A table, and what it may hold.
pub(crate) struct Section<'a> {
    pub(crate) source: &'a Source,
    keys: Keys,
    entries: &'a [Entry],
    /// Where the table stands.
    pub(crate) span: Span,
    /// What it is called in messages: `[train]`.
    name: String,
    /// Which keys were asked for, so that a list of keys that nobody reads is found out.
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Section<'a> {
    /// A table of these keys.
    ///
    /// # Errors
    /// When `node` is no table, or has other keys.
    pub(crate) fn open(source: &'a Source, name: &str, keys: Keys, node: &'a Node) -> Result<Self> {
        let section = Self::unchecked(source, name, keys, node)?;
        section.check_keys()?;
        Ok(section)
    }

    /// A table whose `kind` is one of `kinds`, which say what else it may hold.
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
            let what = format!("{name} does not say its {word}");
            return Err(source
                .wrong(Code::JobKey, &section.span, what, format!("no `{word}` in it"))
                .help(format!("add {word} = \"…\" with one of {}", names.join(", "))));
        };
        let Value::Text(wanted) = &entry.node.value else {
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
        let Value::Table(entries) = &node.value else {
            let what = format!("{name} is {}, not a table", node.value.kind());
            return Err(source
                .wrong(Code::JobValue, &node.span, what, "not a table")
                .help(format!("write {name} as a table of its own, or {{ key = value, … }}")));
        };
        let (span, asked) = (node.span.clone(), RefCell::default());
        Ok(Self { source, keys, entries, span, name: name.to_owned(), asked })
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

    /// Ends the reading of a table.
    pub(crate) fn close(self) {
        if cfg!(debug_assertions) {
            let asked = self.asked.into_inner();
            let unread: Vec<&str> = self.keys.iter().map(|key| key.name).filter(|name| !asked.contains(name)).collect();
            assert!(unread.is_empty(), "nothing reads {unread:?} of {}", self.name);
        }
    }

    fn key(&self, name: &'static str) -> Option<&'static Key> {
        let key = self.keys.iter().find(|key| key.name == name);
        debug_assert!(key.is_some(), "{} has no key {name:?} in the schema", self.name);
        key
    }

    /// What stands behind a key.
    pub(crate) fn node(&self, name: &'static str) -> Option<&'a Node> {
        self.key(name);
        self.asked.borrow_mut().insert(name);
        self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    /// Whether the schema of this table has the key at all.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }

    /// Where a key stands, or else the table.
    pub(crate) fn span_of(&self, name: &str) -> Span {
        let entry = self.entries.iter().find(|entry| entry.key == name);
        entry.map_or_else(|| self.span.clone(), |entry| entry.node.span.clone())
    }

    /// An error about a value.
    pub(crate) fn wrong(&self, span: &Span, what: impl Into<String>, label: impl Into<String>) -> Error {
        self.source.wrong(Code::JobValue, span, what, label)
    }

    /// A key that must be there is not.
    pub(crate) fn missing(&self, name: &'static str) -> Error {
        let key = self.key(name);
        let says = key.map_or("", |key| key.says);
        let is_table = key.is_some_and(|key| matches!(key.takes, Takes::Table(_) | Takes::Kind(..) | Takes::Named(_)));
        let name = if is_table { format!("[{name}]") } else { format!("`{name}`") };
        let what = format!("{} lacks {name}", self.name);
        self.source
            .wrong(Code::JobKey, &self.span, what, format!("no {name} in it"))
            .help(format!("add {name}: {says}"))
    }

    pub(crate) fn not(&self, key: &str, node: &Node, wanted: &str) -> Error {
        let what = format!("`{key}` of {} is {}, not {wanted}", self.name, node.value.kind());
        let help = match (&node.value, wanted) {
            (Value::Text(text), _) if wanted.contains("number") && text.parse::<f64>().is_ok() => {
                format!("write {text} without quotes")
            }
            (_, "a text") => "put it in quotes".to_owned(),
            (_, "true or false") => "write true or false, without quotes".to_owned(),
            _ => format!("give {wanted}"),
        };
        self.wrong(&node.span, what, format!("not {wanted}")).help(help)
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<At<String>>> {
        self.node(name).map(|node| self.as_text(name, node)).transpose()
    }

    pub(crate) fn as_text(&self, name: &str, node: &Node) -> Result<At<String>> {
        match &node.value {
            Value::Text(text) => Ok(At::new(text.clone(), &node.span)),
            _ => Err(self.not(name, node, "a text")),
        }
    }

    pub(crate) fn need_text(&self, name: &'static str) -> Result<At<String>> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn truth(&self, name: &'static str) -> Result<Option<bool>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match node.value {
            Value::Truth(truth) => Ok(Some(truth)),
            _ => Err(self.not(name, node, "true or false")),
        }
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<At<f64>>> {
        self.node(name).map(|node| self.as_number(name, node)).transpose()
    }

    pub(crate) fn as_number(&self, name: &str, node: &Node) -> Result<At<f64>> {
        match node.value {
            Value::Number(number) => Ok(At::new(number, &node.span)),
            Value::Integer(number) => Ok(At::new(number as f64, &node.span)),
            _ => Err(self.not(name, node, "a number")),
        }
    }

    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<At<i64>>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match node.value {
            Value::Integer(number) => Ok(Some(At::new(number, &node.span))),
            _ => Err(self.not(name, node, "a whole number")),
        }
    }

    /// A whole number of at least `least`.
    pub(crate) fn count(&self, name: &'static str, least: u64) -> Result<Option<At<u64>>> {
        self.node(name).map(|node| self.as_count(name, node, least)).transpose()
    }

    pub(crate) fn as_count(&self, name: &str, node: &Node, least: u64) -> Result<At<u64>> {
        let Value::Integer(number) = node.value else { return Err(self.not(name, node, "a whole number")) };
        let most = MOST.iter().find(|(key, _)| *key == name).map_or(u64::MAX, |(_, most)| *most);
        match u64::try_from(number) {
            Ok(count) if count > most => {
                let what = format!("`{name}` of {} is {number}", self.name);
                Err(self.wrong(&node.span, what, "too large").help(format!("give at most {most}")))
            }
            Ok(count) if count >= least => Ok(At::new(count, &node.span)),
            _ => {
                let what = format!("`{name}` of {} is {number}", self.name);
                Err(self.wrong(&node.span, what, "too small").help(format!("give at least {least}")))
            }
        }
    }

    pub(crate) fn need_count(&self, name: &'static str, least: u64) -> Result<At<u64>> {
        self.count(name, least)?.ok_or_else(|| self.missing(name))
    }

    /// The items of a list.
    pub(crate) fn list(&self, name: &'static str) -> Result<Option<At<&'a [Node]>>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match &node.value {
            Value::List(items) => Ok(Some(At::new(items, &node.span))),
            _ => Err(self.not(name, node, "a list")),
        }
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<At<Vec<At<String>>>>> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let texts = list.value.iter().map(|node| self.as_text(name, node)).collect::<Result<_>>()?;
        Ok(Some(At { value: texts, span: list.span }))
    }

    /// A text, or a list of them.
    pub(crate) fn one_or_more(&self, name: &'static str) -> Result<Option<At<Vec<At<String>>>>> {
        match self.node(name) {
            Some(node @ Node { value: Value::Text(_), .. }) => {
                Ok(Some(At::new(vec![self.as_text(name, node)?], &node.span)))
            }
            _ => self.texts(name),
        }
    }

    pub(crate) fn numbers(&self, name: &'static str) -> Result<Option<At<Vec<At<f64>>>>> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let numbers = list.value.iter().map(|node| self.as_number(name, node)).collect::<Result<_>>()?;
        Ok(Some(At { value: numbers, span: list.span }))
    }

    pub(crate) fn counts(&self, name: &'static str, least: u64) -> Result<Option<At<Vec<usize>>>> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let count = |node| self.as_count(name, node, least).map(|count| count.value as usize);
        Ok(Some(At { value: list.value.iter().map(count).collect::<Result<_>>()?, span: list.span }))
    }

    /// The entries of a table whose keys are the user's.
    pub(crate) fn table(&self, name: &'static str) -> Result<Option<&'a [Entry]>> {
        let Some(node) = self.node(name) else { return Ok(None) };
        match &node.value {
            Value::Table(entries) => Ok(Some(entries)),
            _ => Err(self.not(name, node, "a table")),
        }
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(&self, name: &'static str, words: &[(&'static str, T)]) -> Result<Option<At<T>>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match words.iter().find(|(word, _)| *word == text.value) {
            Some((_, meaning)) => Ok(Some(At { value: *meaning, span: text.span })),
            None => Err(self.no_such(name, &text, words.iter().map(|(word, _)| *word).collect())),
        }
    }

    /// A word that is none of those there are.
    pub(crate) fn no_such(&self, name: &str, text: &At<String>, words: Vec<&str>) -> Error {
        let what = format!("`{name}` of {} is \"{}\"", self.name, text.value);
        let span = text.span.as_ref().unwrap_or(&self.span);
        self.wrong(span, what, "no such word").help(meant(&text.value, words))
    }
}
