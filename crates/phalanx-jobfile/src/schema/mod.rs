//! Every key of a job, declared once: parsing, errors, the JSON Schema and the reference page derive from these lists.

mod columns;
mod json;
mod models;
mod optimizers;
mod reference;
mod tables;

pub(crate) use columns::{COLUMN_KINDS, CROSS_COLUMN, FUNCTION, INITIALIZERS, NORMALIZER};
pub use json::schema;
pub(crate) use models::MODEL_KINDS;
pub(crate) use optimizers::{OPTIMIZERS, SCHEDULES};
pub use reference::reference;
pub(crate) use tables::{
    DATA, DTYPES, EARLY_STOPPING, EVAL, EXPORT, ORIGIN, ROOT, SPLIT, STATISTIC, STATISTICS, TRAIN, WARM_START,
};

/// One key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    /// The default in words: [`REQUIRED`] if there is none, empty if leaving the key out has no effect.
    pub(crate) default: &'static str,
    /// The description, one or more sentences.
    pub(crate) description: &'static str,
}

/// The `default` of a key that must be given.
pub(crate) const REQUIRED: &str = "required";

/// The type of the value of a key.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    Text,
    Texts,
    TextOrTexts,
    Integer,
    /// An integer of at least this.
    Count(u64),
    Counts(u64),
    CountOrAll,
    CountOrUnbounded,
    Number,
    Numbers,
    NumberOrNumbers,
    Bool,
    Choice(&'static [&'static str]),
    /// Texts, or lists of the spellings of one word.
    Vocabulary,
    /// Texts, or integers.
    Tokens,
    /// Names of inputs, or `{ column = "…" }`.
    CrossKeys,
    /// Some of these words, or tables of these keys.
    WordsOrTables(&'static [&'static str], &'static Keys),
    /// Names of inputs, each with one of these words.
    Words(&'static [&'static str]),
    /// Names, each with a number or a text.
    Values,
    /// Names, each with a text.
    Renames,
    /// Names, each with an integer of at least this.
    NamedCounts(u64),
    /// A number, or a table of one of these kinds; the key of this name selects the kind.
    NumberOrKind(&'static str, &'static [Keys]),
    /// A name, or a table of one of these kinds; the key of this name selects the kind.
    NameOrKind(&'static str, &'static [Keys]),
    /// A table of one of these kinds.
    Kind(&'static str, &'static [Keys]),
    /// Tables of one of these kinds, under user-defined names.
    Named(&'static [Keys]),
    Table(&'static Keys),
    Tables(&'static Keys),
    TableOrTables(&'static Keys),
}

/// The keys of a table, or of one kind of table.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// The table's name in the file, or the kind's.
    pub(crate) name: &'static str,
    /// Other names of the kind.
    pub(crate) also: &'static [&'static str],
    pub(crate) description: &'static str,
    own: &'static [Key],
    /// Keys that it shares with others.
    shared: &'static [&'static [Key]],
}

impl Keys {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'static Key> + Clone {
        self.own.iter().chain(self.shared.iter().copied().flatten())
    }
}

const fn key(name: &'static str, takes: Takes, default: &'static str, description: &'static str) -> Key {
    Key { name, takes, default, description }
}

const fn keys(
    name: &'static str,
    description: &'static str,
    own: &'static [Key],
    shared: &'static [&'static [Key]],
) -> Keys {
    Keys { name, also: &[], description, own, shared }
}
