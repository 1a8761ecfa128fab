//! The schema of a job as JSON Schema, which editors understand.

use super::{CROSS_COLUMN, Key, Keys, REQUIRED, ROOT, Takes};
use phalanx_cluster::Json;

/// Returns the JSON Schema of a `JOB.toml`. Editors with TOML support use it for completion and checks.
///
/// ```
/// let schema = phalanx_jobfile::schema().to_string();
/// assert!(schema.contains("\"hash_bucket_size\""));
/// ```
#[must_use]
pub fn schema() -> Json {
    let Json::Object(mut entries) = table(ROOT, None) else { return Json::Null };
    entries.insert(0, ("$schema".to_owned(), Json::text("https://json-schema.org/draft/2020-12/schema")));
    entries.insert(1, ("title".to_owned(), Json::text("A job of phalanx train")));
    Json::Object(entries)
}

/// An object of these keys; for a kind of table, `word` is the key that selects the kind.
fn table(keys: Keys, word: Option<&str>) -> Json {
    let property = |key: &'static Key| {
        let value = if word == Some(key.name) {
            let names = std::iter::once(&keys.name).chain(keys.also);
            Json::object([("enum", Json::List(names.map(|name| Json::text(*name)).collect()))])
        } else {
            described(key)
        };
        (key.name, value)
    };
    let required = keys.iter().filter(|key| key.default == REQUIRED).map(|key| Json::text(key.name)).collect();
    Json::object([
        ("type", Json::text("object")),
        ("description", Json::text(keys.description)),
        ("properties", Json::object(keys.iter().map(property))),
        ("required", Json::List(required)),
        ("additionalProperties", Json::Bool(false)),
    ])
}

fn described(key: &Key) -> Json {
    let Json::Object(mut entries) = takes(key.takes) else { return Json::Null };
    let default = if key.default.is_empty() || key.default == REQUIRED {
        String::new()
    } else {
        format!(" Default: {}.", key.default)
    };
    entries.push(("description".to_owned(), Json::text(format!("{}{default}", key.description))));
    Json::Object(entries)
}

fn typed(name: &str) -> Json {
    Json::object([("type", Json::text(name))])
}

fn list(items: Json) -> Json {
    Json::object([("type", Json::text("array")), ("items", items)])
}

fn any(choices: impl IntoIterator<Item = Json>) -> Json {
    Json::object([("anyOf", Json::List(choices.into_iter().collect()))])
}

fn map(values: Json) -> Json {
    Json::object([("type", Json::text("object")), ("additionalProperties", values)])
}

fn words(words: &[&str]) -> Json {
    Json::object([("enum", Json::List(words.iter().map(|word| Json::text(*word)).collect()))])
}

fn count(least: u64) -> Json {
    Json::object([("type", Json::text("integer")), ("minimum", Json::number(least))])
}

fn kinds(word: &str, kinds: &'static [Keys]) -> Json {
    any(kinds.iter().map(|kind| table(*kind, Some(word))))
}

fn takes(takes: Takes) -> Json {
    match takes {
        Takes::Text => typed("string"),
        Takes::Texts => list(typed("string")),
        Takes::TextOrTexts => any([typed("string"), list(typed("string"))]),
        Takes::Integer => typed("integer"),
        Takes::Count(least) => count(least),
        Takes::Counts(least) => list(count(least)),
        Takes::CountOrAll => any([count(1), words(&["all"])]),
        Takes::CountOrUnbounded => any([count(1), words(&["unbounded"])]),
        Takes::Number => typed("number"),
        Takes::Numbers => list(typed("number")),
        Takes::NumberOrNumbers => any([typed("number"), list(typed("number"))]),
        Takes::Bool => typed("boolean"),
        Takes::Choice(choices) => words(choices),
        Takes::Vocabulary => list(any([typed("string"), list(typed("string"))])),
        Takes::Tokens => any([list(typed("string")), list(typed("integer"))]),
        Takes::CrossKeys => list(any([typed("string"), table(CROSS_COLUMN, None)])),
        Takes::WordsOrTables(choices, keys) => list(any([words(choices), table(*keys, None)])),
        Takes::Words(choices) => map(words(choices)),
        Takes::Values => map(any([typed("number"), typed("string")])),
        Takes::Renames => map(typed("string")),
        Takes::NamedCounts(least) => map(count(least)),
        Takes::NameOrKind(word, all) => {
            let names: Vec<&str> = all.iter().map(|kind| kind.name).collect();
            any([words(&names), kinds(word, all)])
        }
        Takes::NumberOrKind(word, all) => any([typed("number"), kinds(word, all)]),
        Takes::Kind(word, all) => kinds(word, all),
        Takes::Named(all) => map(kinds("kind", all)),
        Takes::Table(keys) => table(*keys, None),
        Takes::Tables(keys) => list(table(*keys, None)),
        Takes::TableOrTables(keys) => any([table(*keys, None), list(table(*keys, None))]),
    }
}
