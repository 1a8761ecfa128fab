//! The reference of all keys, as the page `docs/job-toml.md` has it.

use super::{COLUMN_KINDS, INITIALIZERS, Key, Keys, MODEL_KINDS, NORMALIZER, OPTIMIZERS, REQUIRED, ROOT, Takes};
use super::{DATA, EARLY_STOPPING, EVAL, EXPORT, TRAIN, WARM_START};

/// The reference of all keys of a `JOB.toml`, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = String::new();
    section(&mut page, "## The file", "Keys at the top of the file, and its tables.", ROOT);
    for keys in [DATA, TRAIN, EVAL] {
        section(&mut page, &format!("## `[{}]`", keys.name), keys.says, keys);
    }
    section(&mut page, "## `[[export]]`", EXPORT.says, EXPORT);
    for keys in [EARLY_STOPPING, WARM_START] {
        section(&mut page, &format!("## `[{}]`", keys.name), keys.says, keys);
    }
    kinds(&mut page, "## `[columns]`", "Every entry is a column; `kind` says which.", "kind", COLUMN_KINDS);
    section(&mut page, "### `normalizer`", "What is done to every number: (x - subtract) / divide.", NORMALIZER);
    kinds(&mut page, "### `initializer`", "How the vectors of an embedding begin.", "kind", INITIALIZERS);
    kinds(&mut page, "## `[model]`", "`kind` says which model.", "kind", MODEL_KINDS);
    let says = "A name alone takes the defaults: `optimizer = \"adam\"`; a table says more: \
                `optimizer = { name = \"adam\", learning_rate = 0.01 }`.";
    kinds(&mut page, "## Optimizers", says, "name", OPTIMIZERS);
    page
}

fn section(page: &mut String, heading: &str, says: &str, keys: Keys) {
    *page += &format!("\n{heading}\n\n{says}\n\n| key | takes | default | |\n| --- | --- | --- | --- |\n");
    keys.iter().filter(|key| key.name != "origin").for_each(|key| row(page, key));
}

/// All kinds in two tables: which there are, and what each takes beside the others.
fn kinds(page: &mut String, heading: &str, says: &str, word: &str, kinds: &'static [Keys]) {
    *page += &format!("\n{heading}\n\n{says}\n\n| {word} | is | keys |\n| --- | --- | --- |\n");
    for kind in kinds {
        let names: Vec<String> = std::iter::once(&kind.name).chain(kind.also).map(|name| format!("`{name}`")).collect();
        let keys = kind.iter().filter(|key| key.name != word).map(|key| {
            let must = if key.default == REQUIRED { "**" } else { "" };
            format!("{must}`{}`{must}", key.name)
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        *page += &format!("| {} | {} | {keys} |\n", names.join(", "), kind.says);
    }
    *page += "\n| key | takes | default | |\n| --- | --- | --- | --- |\n";
    let mut told: Vec<(&str, &str, &str)> = Vec::new();
    for key in kinds.iter().flat_map(|kind| kind.iter()).filter(|key| key.name != word) {
        let says = (key.name, key.default, key.says);
        if !told.contains(&says) {
            told.push(says);
            row(page, key);
        }
    }
}

fn row(page: &mut String, key: &Key) {
    *page += &format!("| `{}` | {} | {} | {} |\n", key.name, takes(key.takes), key.default, key.says);
}

fn takes(takes: Takes) -> String {
    let choices = |words: &[&str]| words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ");
    match takes {
        Takes::Text => "text".to_owned(),
        Takes::Texts => "list of texts".to_owned(),
        Takes::TextOrTexts => "text, or list of texts".to_owned(),
        Takes::Integer => "whole number".to_owned(),
        Takes::Count(0) => "whole number from 0".to_owned(),
        Takes::Count(least) => format!("whole number from {least}"),
        Takes::Counts(least) => format!("list of whole numbers from {least}"),
        Takes::CountOrAll => "whole number from 1, or `\"all\"`".to_owned(),
        Takes::Number => "number".to_owned(),
        Takes::Numbers => "list of numbers".to_owned(),
        Takes::NumberOrNumbers => "number, or list of numbers".to_owned(),
        Takes::Truth => "true or false".to_owned(),
        Takes::Choice(words) => choices(words),
        Takes::Vocabulary => "list of texts, or of lists of texts".to_owned(),
        Takes::Tokens => "list of texts, or of whole numbers".to_owned(),
        Takes::CrossKeys => "list of texts and `{ column = \"…\" }`".to_owned(),
        Takes::Words(words) => format!("table: name = one of {}", choices(words)),
        Takes::Values => "table: name = number or text".to_owned(),
        Takes::Renames => "table: name = text".to_owned(),
        Takes::NameOrKind(..) => "name, or table of an optimizer".to_owned(),
        Takes::Kind(..) | Takes::Table(_) => "table".to_owned(),
        Takes::Named(_) => "table of tables".to_owned(),
        Takes::Tables(_) => "tables".to_owned(),
    }
}
