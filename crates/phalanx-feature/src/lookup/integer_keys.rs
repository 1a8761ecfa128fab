//! Integers as tokens.

use super::Numbers;
use super::keys::{Keys, Rule, bump, place};
use super::refusal::unknown;
use crate::GraphTensor;
use crate::numbers::each_i64;
use phalanx_base::Result;
use phalanx_data::{Column, DType, Values};
use phalanx_formats::saved_model::{GraphBuilder, Output};
use std::cmp::Ordering;

impl Keys for Numbers {
    type Token = i64;
    type List = Vec<i64>;

    const LAYER: &'static str = "IntegerLookup";
    const TYPE: DType = DType::I64;

    fn default_oov() -> i64 {
        -1
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn has(&self, token: &i64) -> bool {
        self.find(*token).is_some()
    }

    fn add(&mut self, token: &i64) -> bool {
        self.insert(*token).1
    }

    fn add_from(&mut self, other: &Self, index: usize) {
        self.insert(other.list()[index]);
    }

    fn has_from(&self, other: &Self, index: usize) -> bool {
        self.has(&other.list()[index])
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.list()[a].cmp(&self.list()[b])
    }

    fn parse(line: &[u8]) -> Option<i64> {
        std::str::from_utf8(line).ok()?.trim_ascii().parse().ok()
    }

    fn count(&mut self, column: &Column, counts: &mut Vec<u64>) -> Result<()> {
        each_i64(column, |value| bump(counts, self.insert(value).0))
    }

    fn ids(&self, column: &Column, rule: &Rule<i64>) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        let mut refused = None;
        each_i64(column, |value| {
            ids.push(if rule.mask == Some(value) {
                rule.mask_id
            } else if let Some(index) = self.find(value) {
                rule.token_start() + index as i64
            } else if rule.num_oov > 0 {
                // Not a hash: Keras takes the remainder, which is never negative.
                rule.oov_start + value.rem_euclid(rule.num_oov)
            } else {
                refused = refused.or(Some(value));
                0
            });
        })?;
        match refused {
            Some(value) => Err(unknown(Self::LAYER, &value.to_string())),
            None => Ok(ids),
        }
    }

    fn tokens(&self, ids: &[i64], rule: &Rule<i64>) -> Values {
        let token = |&id: &i64| match (place(id, rule, self.len()), rule.mask) {
            (Some(index), _) => self.list()[index],
            (None, Some(mask)) if id == 0 => mask,
            _ => rule.oov.unwrap_or_default(),
        };
        Values::I64(ids.iter().map(token).collect())
    }

    fn ids_graph(&self, graph: &mut GraphBuilder, input: GraphTensor, rule: &Rule<i64>) -> Result<Output<i64>> {
        let numbers = input.integers(graph)?;
        let keys = graph.constant(&[self.len()], self.list());
        let ids = rule.ids_of(graph, self.len(), false);
        let table = graph.table(keys, ids);
        let (none, buckets) = (graph.scalar(-1_i64), graph.scalar(rule.num_oov));
        let found = graph.lookup(table, numbers, none);
        let unknown = graph.floor_mod(numbers, buckets);
        let mask = rule.mask.map(|mask| graph.scalar(mask));
        let masked = mask.map(|mask| graph.equal(numbers, mask));
        Ok(rule.chosen(graph, found, unknown, masked))
    }

    fn tokens_graph(&self, graph: &mut GraphBuilder, ids: Output<i64>, rule: &Rule<i64>) -> GraphTensor {
        let tokens: Vec<i64> = rule.mask.into_iter().chain(self.list().iter().copied()).collect();
        let keys = rule.ids_of(graph, self.len(), rule.mask.is_some());
        let values = graph.constant(&[tokens.len()], &tokens);
        let table = graph.table(keys, values);
        let unknown = graph.scalar(rule.oov.unwrap_or_default());
        GraphTensor::I64(graph.lookup(table, ids, unknown))
    }

    fn export(&self, special: &[i64]) -> Vec<i64> {
        special.iter().chain(self.list()).copied().collect()
    }
}
