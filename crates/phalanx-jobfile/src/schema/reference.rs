//! The reference of all keys in `docs/job-toml.md`.

use super::{
    COLUMN_KINDS, INITIALIZERS, Key, Keys, MODEL_KINDS, NORMALIZER, OPTIMIZERS, REQUIRED, ROOT, SCHEDULES, Takes,
};
use super::{DATA, EARLY_STOPPING, EVAL, EXPORT, SPLIT, TRAIN, WARM_START};

/// Returns the reference of all keys of a `JOB.toml`, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = String::new();
    section(&mut page, "## The file", "Top-level keys and tables.", ROOT);
    for keys in [DATA, TRAIN, EVAL] {
        section(&mut page, &format!("## `[{}]`", keys.name), keys.description, keys);
        if keys.name == DATA.name {
            section(&mut page, "### `split`", SPLIT.description, SPLIT);
        }
    }
    section(&mut page, "## `[[export]]`", EXPORT.description, EXPORT);
    for keys in [EARLY_STOPPING, WARM_START] {
        section(&mut page, &format!("## `[{}]`", keys.name), keys.description, keys);
    }
    kinds(&mut page, "## `[columns]`", "Every entry is a column of some `kind`.", "kind", COLUMN_KINDS);
    section(&mut page, "### `normalizer`", "Normalization of every value: (x - subtract) / divide.", NORMALIZER);
    kinds(&mut page, "### `initializer`", "Initial values of the vectors of an embedding.", "kind", INITIALIZERS);
    kinds(&mut page, "## `[model]`", "A model of some `kind`.", "kind", MODEL_KINDS);
    let text = "A name selects the defaults: `optimizer = \"adam\"`. A table changes them: \
                `optimizer = { name = \"adam\", learning_rate = 0.01 }`.";
    kinds(&mut page, "## Optimizers", text, "name", OPTIMIZERS);
    let text = "A learning rate that follows the global step, with the formulas of `tf.keras.optimizers.schedules`: \
                `learning_rate = { schedule = \"cosine\", initial = 0.01, decay_steps = 10000 }`. `step` below is the number of \
                steps after the warm-up.";
    kinds(&mut page, "### `learning_rate`", text, "schedule", SCHEDULES);
    page
}

fn section(page: &mut String, heading: &str, text: &str, keys: Keys) {
    *page += &format!("\n{heading}\n\n{text}\n\n| key | type | default | |\n| --- | --- | --- | --- |\n");
    keys.iter().filter(|key| key.name != "origin").for_each(|key| row(page, key));
}

/// Writes two tables: the kinds, and the keys of all kinds.
fn kinds(page: &mut String, heading: &str, text: &str, word: &str, kinds: &'static [Keys]) {
    *page += &format!("\n{heading}\n\n{text}\n\n| {word} | description | keys |\n| --- | --- | --- |\n");
    for kind in kinds {
        let names: Vec<String> = std::iter::once(&kind.name).chain(kind.also).map(|name| format!("`{name}`")).collect();
        let keys = kind.iter().filter(|key| key.name != word).map(|key| {
            let must = if key.default == REQUIRED { "**" } else { "" };
            format!("{must}`{}`{must}", key.name)
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        *page += &format!("| {} | {} | {keys} |\n", names.join(", "), kind.description);
    }
    *page += "\n| key | type | default | |\n| --- | --- | --- | --- |\n";
    let mut written: Vec<(&str, &str, &str)> = Vec::new();
    for key in kinds.iter().flat_map(|kind| kind.iter()).filter(|key| key.name != word) {
        let line = (key.name, key.default, key.description);
        if !written.contains(&line) {
            written.push(line);
            row(page, key);
        }
    }
}

fn row(page: &mut String, key: &Key) {
    // A bar would end the cell.
    let description = key.description.replace('|', "\\|");
    *page += &format!("| `{}` | {} | {} | {description} |\n", key.name, takes(key.takes), key.default);
}

fn takes(takes: Takes) -> String {
    let choices = |words: &[&str]| words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ");
    match takes {
        Takes::Text => "text".to_owned(),
        Takes::Texts => "list of texts".to_owned(),
        Takes::TextOrTexts => "text, or list of texts".to_owned(),
        Takes::Integer => "integer".to_owned(),
        Takes::Count(least) => format!("integer ≥ {least}"),
        Takes::Counts(least) => format!("list of integers ≥ {least}"),
        Takes::CountOrAll => "integer ≥ 1, or `\"all\"`".to_owned(),
        Takes::CountOrUnbounded => "integer ≥ 1, or `\"unbounded\"`".to_owned(),
        Takes::Number => "number".to_owned(),
        Takes::Numbers => "list of numbers".to_owned(),
        Takes::NumberOrNumbers => "number, or list of numbers".to_owned(),
        Takes::Bool => "true or false".to_owned(),
        Takes::Choice(words) => choices(words),
        Takes::Vocabulary => "list of texts, or of lists of texts".to_owned(),
        Takes::Tokens => "list of texts, or of integers".to_owned(),
        Takes::CrossKeys => "list of texts and `{ column = \"…\" }`".to_owned(),
        Takes::WordsOrTables(words, keys) => {
            let tables = keys.iter().map(|key| format!(", `{{ {} = … }}`", key.name)).collect::<String>();
            format!("list of {}{tables}", choices(words))
        }
        Takes::Words(words) => format!("table: name = one of {}", choices(words)),
        Takes::Values => "table: name = number or text".to_owned(),
        Takes::Renames => "table: name = text".to_owned(),
        Takes::NamedCounts(least) => format!("table: name = integer ≥ {least}"),
        Takes::NameOrKind(..) => "name, or table of an optimizer".to_owned(),
        Takes::NumberOrKind(..) => "number, or table of a schedule".to_owned(),
        Takes::Kind(..) | Takes::Table(_) => "table".to_owned(),
        Takes::Named(_) => "table of tables".to_owned(),
        Takes::Tables(_) => "tables".to_owned(),
        Takes::TableOrTables(_) => "table, or tables".to_owned(),
    }
}
