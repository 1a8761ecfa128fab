//! Every key of a job, declared once: what is read, refused, explained and printed comes from these lists.

mod columns;
mod json;
mod models;
mod reference;
mod tables;

pub(crate) use columns::{COLUMN_KINDS, CROSS_COLUMN, INITIALIZERS, NORMALIZER};
pub use json::schema;
pub(crate) use models::{MODEL_KINDS, OPTIMIZERS};
pub use reference::reference;
pub(crate) use tables::{DATA, DTYPES, EARLY_STOPPING, EVAL, EXPORT, ORIGIN, ROOT, TRAIN, WARM_START};

/// One key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    /// What it is where it is not said; [`REQUIRED`] where it must be said, empty where it then has no effect.
    pub(crate) default: &'static str,
    /// What it is, in a sentence.
    pub(crate) says: &'static str,
}

/// Stands for a default where there is none.
pub(crate) const REQUIRED: &str = "required";

/// What a key takes.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    Text,
    Texts,
    TextOrTexts,
    Integer,
    /// A whole number of at least this.
    Count(u64),
    Counts(u64),
    CountOrAll,
    Number,
    Numbers,
    NumberOrNumbers,
    Truth,
    Choice(&'static [&'static str]),
    /// Texts, or lists of the ways one word is spelled.
    Vocabulary,
    /// Texts, or whole numbers.
    Tokens,
    /// Names of inputs, or `{ column = "…" }`.
    CrossKeys,
    /// Names of inputs, each with one of these words.
    Words(&'static [&'static str]),
    /// Names, each with a number or a text.
    Values,
    /// Names, each with a text.
    Renames,
    /// A name, or a table of one of these kinds; the word says which.
    NameOrKind(&'static str, &'static [Keys]),
    /// A table of one of these kinds.
    Kind(&'static str, &'static [Keys]),
    /// Tables of one of these kinds, under names of the user's.
    Named(&'static [Keys]),
    Table(&'static Keys),
    Tables(&'static Keys),
}

/// The keys of a table, or of one kind of table.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// The table's name in the file, or the kind's.
    pub(crate) name: &'static str,
    /// Other names of the kind.
    pub(crate) also: &'static [&'static str],
    pub(crate) says: &'static str,
    own: &'static [Key],
    /// Keys that it shares with others.
    shared: &'static [&'static [Key]],
}

impl Keys {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'static Key> + Clone {
        self.own.iter().chain(self.shared.iter().copied().flatten())
    }
}

const fn key(name: &'static str, takes: Takes, default: &'static str, says: &'static str) -> Key {
    Key { name, takes, default, says }
}

const fn keys(name: &'static str, says: &'static str, own: &'static [Key], shared: &'static [&'static [Key]]) -> Keys {
    Keys { name, also: &[], says, own, shared }
}
