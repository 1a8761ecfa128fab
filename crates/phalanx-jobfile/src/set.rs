//! `--set KEY=VALUE`: values that override those of the file.

use crate::copy::quoted;
use crate::source::Source;
use crate::tree::{self, Entry, Node, TomlValue};
use phalanx_base::{Code, Error, Result, Snippet, fnv1a};

/// Changes the tree of a job by flags such as `train.batch_size=64`, in their order. The values are checked with those of the
/// file, and errors point into the flag.
pub(crate) fn apply(source: &mut Source, root: &mut Node, flags: &[String]) -> Result<()> {
    for flag in flags {
        let flag = as_toml(flag)?;
        let start = source.add_flag(&flag);
        let TomlValue::Table(entries) = tree::parse_flag(source, &flag, start)?.value else { continue };
        match <[Entry; 1]>::try_from(entries) {
            Ok([entry]) if entry.key == "origin" => {
                let error =
                    source.wrong(Code::JobKey, &entry.key_span, "--set cannot change [origin]", "not a setting");
                return Err(error.help("phalanx writes it into its copies of a job"));
            }
            Ok([entry]) => Flag { source, flag: &flag, start }.graft(root, entry)?,
            Err(entries) => {
                let span = entries.get(1).map_or(start..start + flag.len(), |entry| entry.key_span.clone());
                let error = source.wrong(Code::Flags, &span, "--set takes one key and its value", "another key");
                return Err(error.help("give one --set for every key"));
            }
        }
    }
    Ok(())
}

/// Returns a short name for a set of flags: jobs with the same flags in any order have the same. Only flags of one key keep their
/// order, because the last of them wins.
pub(crate) fn name_of(flags: &[String]) -> String {
    let mut sorted: Vec<&str> = flags.iter().map(String::as_str).collect();
    sorted.sort_by_key(|flag| flag.split('=').next().map(str::trim));
    // A zero byte, which no argument contains, ends each flag.
    format!("{:08x}", fnv1a(sorted.iter().flat_map(|flag| flag.bytes().chain([0]))) as u32)
}

/// Returns the flag as a line of TOML. A value that is not TOML and has no quotes or brackets is a text: shells remove quotes.
fn as_toml(flag: &str) -> Result<String> {
    let wrong = |span, what: &str, label: &str| {
        let error = Error::new(Code::Flags, what).snippet(Snippet::new("--set", flag, span, label));
        error.help("write a key of the job and its value: --set train.batch_size=64")
    };
    let Some((key, value)) = flag.split_once('=') else {
        return Err(wrong(0..flag.len(), "--set has no value", "`=` is missing"));
    };
    if key.trim().is_empty() {
        return Err(wrong(0..flag.len(), "--set has no key", "the key is missing"));
    }
    let is_toml = |text: &str| toml::de::DeTable::parse(text).is_ok();
    let value = value.trim();
    let has_syntax = value.is_empty() || value.contains(['"', '\'', '[', ']', '{', '}', '\n']);
    let as_text = format!("{}={}", key.trim(), quoted(value));
    Ok(if !is_toml(flag) && !has_syntax && is_toml(&as_text) { as_text } else { flag.to_owned() })
}

/// One flag and its position in the source.
struct Flag<'a> {
    source: &'a Source,
    flag: &'a str,
    start: usize,
}

impl Flag<'_> {
    /// Puts the entry of the flag in its place below `node`.
    fn graft(&self, node: &mut Node, entry: Entry) -> Result<()> {
        let kind = node.value.kind();
        let existing = match &mut node.value {
            TomlValue::Table(entries) => match entries.iter().position(|old| old.key == entry.key) {
                Some(at) if self.is_last(&entry) => {
                    entries[at] = entry;
                    return Ok(());
                }
                Some(at) => Some(&mut entries[at].node),
                None => {
                    entries.push(entry);
                    return Ok(());
                }
            },
            TomlValue::List(items) => {
                let count = items.len();
                let item = entry.key.parse::<usize>().ok().and_then(|index| items.get_mut(index));
                let Some(item) = item else {
                    let what = format!("{:?} is not an item of a list of {count}", entry.key);
                    let error = self.source.wrong(Code::JobKey, &entry.key_span, what, "no such item");
                    return Err(error.help("items are counted from 0"));
                };
                if self.is_last(&entry) {
                    *item = entry.node;
                    return Ok(());
                }
                Some(item)
            }
            _ => None,
        };
        match (existing, entry.node.value) {
            (Some(existing), TomlValue::Table(inner)) => {
                inner.into_iter().try_for_each(|entry| self.graft(existing, entry))
            }
            _ => {
                let what = format!("{:?} is a key of {kind}", entry.key);
                let error = self.source.wrong(Code::JobKey, &entry.key_span, what, "has no keys above it");
                Err(error.because("only tables have keys").help("set the whole value instead"))
            }
        }
    }

    /// Whether the value follows this key, and no further key.
    fn is_last(&self, entry: &Entry) -> bool {
        let rest = self.flag.get(entry.key_span.end - self.start..).unwrap_or_default();
        rest.trim_start().starts_with('=')
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_follows_from_the_values_that_win() {
        let name = |flags: &[&str]| super::name_of(&flags.iter().map(|&flag| flag.to_owned()).collect::<Vec<_>>());
        assert_eq!(name(&["a=1", "b=2"]), name(&["b=2", "a=1"]));
        assert_ne!(name(&["a=1", "a=2"]), name(&["a=2", "a=1"]));
    }
}
