//! From columns to steps: every input read once, every categorical column computed once.

use super::cross::CrossPart;
use super::step::Step;
use crate::columns::kind::{Categorical, Numeric, Part, leaves};
use phalanx_base::Result;
use std::sync::Arc;

/// The inputs and steps that a list of columns needs, in an order in which they can run.
#[derive(Default)]
pub(super) struct Planner {
    pub(super) raws: Vec<Arc<str>>,
    pub(super) steps: Vec<Step>,
    /// The column that wanted each step, for messages.
    pub(super) names: Vec<String>,
    identities: Vec<String>,
}

impl Planner {
    /// The place of an input.
    pub(super) fn raw(&mut self, key: &Arc<str>) -> usize {
        if let Some(place) = self.raws.iter().position(|known| known == key) {
            return place;
        }
        self.raws.push(key.clone());
        self.raws.len() - 1
    }

    /// The place of the step that computes a column's ids.
    pub(super) fn step(&mut self, column: &Categorical) -> Result<usize> {
        let step = match column {
            Categorical::Identity { key, buckets, default } => {
                Step::Identity { raw: self.raw(key), buckets: *buckets, default: *default }
            }
            Categorical::Hash { key, buckets, dtype } => {
                Step::Hash { raw: self.raw(key), buckets: *buckets, dtype: *dtype }
            }
            Categorical::Vocabulary { key, vocabulary, default, oov_buckets } => Step::Lookup {
                raw: self.raw(key),
                tokens: vocabulary.tokens()?,
                default: default.unwrap_or(-1),
                oov_buckets: *oov_buckets,
            },
            Categorical::Bucketized { source, boundaries } => {
                Step::Bucket { raw: self.raw(&source.key), source: source.clone(), boundaries: boundaries.clone() }
            }
            Categorical::Crossed { parts, buckets, hash_key } => {
                let parts = leaves(parts).into_iter().map(|part| self.part(part)).collect::<Result<_>>()?;
                Step::Cross { parts, buckets: *buckets, hash_key: *hash_key }
            }
            Categorical::Weighted { column, weight_key, dtype } => {
                Step::Weighted { step: self.step(column)?, raw: self.raw(weight_key), dtype: *dtype }
            }
            Categorical::Sequence(column) => return self.step(column),
        };
        Ok(self.add(step, column.name()))
    }

    fn part(&mut self, part: &Part) -> Result<CrossPart> {
        match part {
            Part::Key(key) => Ok(CrossPart::Raw(self.raw(key))),
            Part::Column(column) => self.step(column).map(CrossPart::Step),
        }
    }

    fn add(&mut self, step: Step, name: String) -> usize {
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

/// A text that two steps share when they compute the same. What is behind a pointer is kept alive by the steps.
fn identity(step: &Step) -> String {
    match step {
        Step::Identity { raw, buckets, default } => format!("identity {raw} {buckets} {default:?}"),
        Step::Hash { raw, buckets, dtype } => format!("hash {raw} {buckets} {dtype}"),
        Step::Lookup { raw, tokens, default, oov_buckets } => {
            format!("lookup {raw} {:p} {default} {oov_buckets}", Arc::as_ptr(tokens))
        }
        Step::Bucket { raw, source, boundaries } => {
            format!("bucket {raw} {} {boundaries:?}", numeric_identity(source))
        }
        Step::Cross { parts, buckets, hash_key } => format!("cross {parts:?} {buckets} {hash_key}"),
        Step::Weighted { step, raw, dtype } => format!("weighted {step} {raw} {dtype}"),
    }
}

fn numeric_identity(numeric: &Numeric) -> String {
    let normalizer = numeric.normalizer.as_ref().map(|function| Arc::as_ptr(function).cast::<()>());
    format!("{:?} {normalizer:?}", numeric.shape)
}
