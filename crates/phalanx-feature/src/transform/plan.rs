//! The steps of a plan: every input is read once, every categorical column is computed once.

use super::cross::CrossPart;
use super::derived::{RawInput, Reading};
use super::step::IdStep;
use crate::columns::kind::{Categorical, CrossInput, Numeric, Split, leaves};
use phalanx_base::Result;
use phalanx_data::DType;
use std::sync::Arc;

/// The inputs and steps of a list of columns, in execution order.
#[derive(Default)]
pub(super) struct Planner {
    pub(super) raws: Vec<RawInput>,
    pub(super) steps: Vec<IdStep>,
    /// The column of each step, for messages.
    pub(super) names: Vec<String>,
    identities: Vec<String>,
}

impl Planner {
    /// The index of an input as it is.
    pub(super) fn raw(&mut self, key: &Arc<str>) -> usize {
        self.derived(key, Reading::Plain)
    }

    /// The index of the input of a numeric column.
    pub(super) fn numbers(&mut self, numeric: &Numeric) -> usize {
        let RawInput { key, reading } = RawInput::of(numeric);
        self.derived(&key, reading)
    }

    /// The index of an input, or of what is derived from it.
    fn derived(&mut self, key: &Arc<str>, reading: Reading) -> usize {
        let wanted = RawInput { key: key.clone(), reading };
        if let Some(place) = self.raws.iter().position(|known| *known == wanted) {
            return place;
        }
        self.raws.push(wanted);
        self.raws.len() - 1
    }

    /// The index of an input of tokens, split if its texts hold several.
    fn tokens(&mut self, key: &Arc<str>, split: &Split, dtype: DType) -> usize {
        let reading = match split.clone() {
            None => Reading::Plain,
            Some(delimiter) if dtype == DType::Bytes => Reading::Split(delimiter),
            Some(delimiter) => Reading::SplitIntegers(delimiter),
        };
        self.derived(key, reading)
    }

    /// The index of the step that computes a column's ids.
    pub(super) fn step(&mut self, column: &Categorical) -> Result<usize> {
        let step = match column {
            Categorical::Identity { key, split, buckets, default } => {
                IdStep::Identity { raw: self.tokens(key, split, DType::I64), buckets: *buckets, default: *default }
            }
            Categorical::Time { key, part, unit } => {
                let raw = self.derived(key, Reading::Time(*part, *unit));
                IdStep::Identity { raw, buckets: part.num_buckets(), default: None }
            }
            Categorical::Hash { key, split, buckets, dtype } => {
                IdStep::Hash { raw: self.tokens(key, split, *dtype), buckets: *buckets, dtype: *dtype }
            }
            Categorical::Vocabulary { key, split, vocabulary, default, oov_buckets } => IdStep::Lookup {
                raw: self.tokens(key, split, vocabulary.dtype()),
                tokens: vocabulary.tokens()?,
                default: default.unwrap_or(-1),
                oov_buckets: *oov_buckets,
            },
            Categorical::Bucketized { source, boundaries } => {
                source.check_adapted()?;
                let boundaries = boundaries.known(&source.key)?.clone();
                IdStep::Bucket { raw: self.numbers(source), source: source.clone(), boundaries }
            }
            Categorical::Crossed { parts, buckets, hash_key } => {
                let parts = leaves(parts).into_iter().map(|part| self.part(part)).collect::<Result<_>>()?;
                IdStep::Cross { parts, buckets: *buckets, hash_key: *hash_key }
            }
            Categorical::Weighted { column, weight_key, dtype } => {
                IdStep::Weighted { step: self.step(column)?, raw: self.raw(weight_key), dtype: *dtype }
            }
            Categorical::Sequence(column) => return self.step(column),
        };
        Ok(self.add(step, column.name()))
    }

    fn part(&mut self, part: &CrossInput) -> Result<CrossPart> {
        match part {
            CrossInput::Key(key) => Ok(CrossPart::Raw(self.raw(key))),
            CrossInput::Column(column) => self.step(column).map(CrossPart::Step),
        }
    }

    fn add(&mut self, step: IdStep, name: String) -> usize {
        let identity = identity(&step);
        if let Some(place) = self.identities.iter().position(|known| *known == identity) {
            return place;
        }
        self.identities.push(identity);
        self.names.push(name);
        self.steps.push(step);
        self.steps.len() - 1
    }
}

/// A text that is equal for steps that compute the same. The steps keep alive what pointers in it refer to.
fn identity(step: &IdStep) -> String {
    match step {
        IdStep::Identity { raw, buckets, default } => format!("identity {raw} {buckets} {default:?}"),
        IdStep::Hash { raw, buckets, dtype } => format!("hash {raw} {buckets} {dtype}"),
        IdStep::Lookup { raw, tokens, default, oov_buckets } => {
            format!("lookup {raw} {:p} {default} {oov_buckets}", Arc::as_ptr(tokens))
        }
        IdStep::Bucket { raw, source, boundaries } => {
            format!("bucket {raw} {} {boundaries:?}", numeric_identity(source))
        }
        IdStep::Cross { parts, buckets, hash_key } => format!("cross {parts:?} {buckets} {hash_key}"),
        IdStep::Weighted { step, raw, dtype } => format!("weighted {step} {raw} {dtype}"),
    }
}

fn numeric_identity(numeric: &Numeric) -> String {
    let default = numeric.marks_missing().then_some(&numeric.default);
    format!("{:?} {default:?} {}", numeric.shape, numeric.functions.describe())
}
