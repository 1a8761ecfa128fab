//! The trait over string and integer vocabularies.

use crate::GraphTensor;
use phalanx_base::Result;
use phalanx_data::{Column, DType, Values};
use phalanx_formats::saved_model::{GraphBuilder, Output};
use std::cmp::Ordering;
use std::fmt::Debug;

/// The layout of a lookup's indices, and its special tokens.
#[derive(Clone, Debug)]
pub struct Rule<T> {
    pub(crate) mask: Option<T>,
    /// The index of a masked value.
    pub(crate) mask_id: i64,
    pub(crate) oov: Option<T>,
    pub(crate) oov_start: i64,
    pub(crate) num_oov: i64,
}

impl<T> Rule<T> {
    pub(crate) fn token_start(&self) -> i64 {
        self.oov_start + self.num_oov
    }

    /// The ids of `count` tokens as a vector of a graph, after that of the mask if `with_mask`.
    pub(super) fn ids_of(&self, graph: &mut GraphBuilder, count: usize, with_mask: bool) -> Output<i64> {
        let start = self.token_start();
        let ids: Vec<i64> = with_mask.then_some(0).into_iter().chain(start..start + count as i64).collect();
        graph.constant(&[ids.len()], &ids)
    }

    /// Chooses in a graph between the ids of known, unknown and masked values. `found` is -1 for unknown ones.
    pub(super) fn chosen(
        &self,
        graph: &mut GraphBuilder,
        found: Output<i64>,
        unknown: Output<i64>,
        masked: Option<Output<bool>>,
    ) -> Output<i64> {
        let (none, start) = (graph.scalar(-1_i64), graph.scalar(self.oov_start));
        let unknown = graph.add(unknown, start);
        let is_known = graph.greater(found, none);
        let ids = graph.select(is_known, found, unknown);
        match masked {
            Some(masked) => {
                let mask_id = graph.scalar(self.mask_id);
                graph.select(masked, mask_id, ids)
            }
            None => ids,
        }
    }
}

/// A vocabulary of one type of token: byte strings or integers.
pub trait Keys: Clone + Debug + Default + Send + Sync + 'static {
    /// One token.
    type Token: Clone + Debug + PartialEq + Send + Sync;
    /// Tokens in order.
    type List;

    /// The public name of the layer.
    #[doc(hidden)]
    const LAYER: &'static str;

    /// The type of a column of tokens.
    #[doc(hidden)]
    const TYPE: DType;

    #[doc(hidden)]
    fn default_oov() -> Self::Token;

    #[doc(hidden)]
    fn size(&self) -> usize;

    #[doc(hidden)]
    fn has(&self, token: &Self::Token) -> bool;

    /// Appends a token; returns false for a duplicate.
    #[doc(hidden)]
    fn add(&mut self, token: &Self::Token) -> bool;

    /// Appends a token of another vocabulary.
    #[doc(hidden)]
    fn add_from(&mut self, other: &Self, index: usize);

    /// Whether a token of another vocabulary is in this one.
    #[doc(hidden)]
    fn has_from(&self, other: &Self, index: usize) -> bool;

    #[doc(hidden)]
    fn compare(&self, a: usize, b: usize) -> Ordering;

    /// The token on a line of a vocabulary file.
    #[doc(hidden)]
    fn parse(line: &[u8]) -> Option<Self::Token>;

    /// Adds and counts all values of a column.
    #[doc(hidden)]
    fn count(&mut self, column: &Column, counts: &mut Vec<u64>) -> Result<()>;

    /// The id of every value.
    #[doc(hidden)]
    fn ids(&self, column: &Column, rule: &Rule<Self::Token>) -> Result<Vec<i64>>;

    /// The token of every id.
    #[doc(hidden)]
    fn tokens(&self, ids: &[i64], rule: &Rule<Self::Token>) -> Values;

    /// The id of every value, in a graph.
    #[doc(hidden)]
    fn ids_graph(&self, graph: &mut GraphBuilder, input: GraphTensor, rule: &Rule<Self::Token>) -> Result<Output<i64>>;

    /// The token of every id, in a graph.
    #[doc(hidden)]
    fn tokens_graph(&self, graph: &mut GraphBuilder, ids: Output<i64>, rule: &Rule<Self::Token>) -> GraphTensor;

    /// The special tokens followed by all tokens in order.
    #[doc(hidden)]
    fn export(&self, special: &[Self::Token]) -> Self::List;
}

/// The index of an id among the tokens; `None` for special ids and those out of range.
pub(super) fn place<T>(id: i64, rule: &Rule<T>, size: usize) -> Option<usize> {
    let place = id.checked_sub(rule.token_start())?;
    usize::try_from(place).ok().filter(|&place| place < size)
}

/// Increments the count at `index`, which is at most one past the end.
pub(super) fn bump(counts: &mut Vec<u64>, index: usize) {
    match counts.get_mut(index) {
        Some(count) => *count += 1,
        None => counts.push(1),
    }
}
