//! Byte strings as tokens.

use super::Words;
use super::keys::{Keys, Rule, bump, place};
use super::refusal::unknown;
use crate::GraphTensor;
use phalanx_base::Result;
use phalanx_data::{Column, DType, Strings, Values};
use phalanx_formats::fingerprint::fingerprint64;
use phalanx_formats::saved_model::{GraphBuilder, Output};
use std::cmp::Ordering;

impl Keys for Words {
    type Token = Vec<u8>;
    type List = Strings;

    const LAYER: &'static str = "StringLookup";
    const TYPE: DType = DType::Bytes;

    fn default_oov() -> Vec<u8> {
        b"[UNK]".to_vec()
    }

    fn size(&self) -> usize {
        self.len()
    }

    fn has(&self, token: &Vec<u8>) -> bool {
        self.find(fingerprint64(token), token).is_some()
    }

    fn add(&mut self, token: &Vec<u8>) -> bool {
        self.insert(token).1
    }

    fn add_from(&mut self, other: &Self, index: usize) {
        self.insert(other.get(index));
    }

    fn has_from(&self, other: &Self, index: usize) -> bool {
        let token = other.get(index);
        self.find(fingerprint64(token), token).is_some()
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.get(a).cmp(self.get(b))
    }

    fn parse(line: &[u8]) -> Option<Vec<u8>> {
        (!line.is_empty()).then(|| line.to_vec())
    }

    fn count(&mut self, column: &Column, counts: &mut Vec<u64>) -> Result<()> {
        for value in column.as_bytes()?.iter() {
            bump(counts, self.insert(value).0);
        }
        Ok(())
    }

    fn ids(&self, column: &Column, rule: &Rule<Vec<u8>>) -> Result<Vec<i64>> {
        let values = column.as_bytes()?;
        let mut ids = Vec::with_capacity(values.len());
        for value in values.iter() {
            if rule.mask.as_deref() == Some(value) {
                ids.push(rule.mask_id);
                continue;
            }
            let hash = fingerprint64(value);
            ids.push(match self.find(hash, value) {
                Some(index) => rule.token_start() + index as i64,
                None if rule.num_oov > 0 => rule.oov_start + (hash % rule.num_oov as u64) as i64,
                None => return Err(unknown(Self::LAYER, &String::from_utf8_lossy(value))),
            });
        }
        Ok(ids)
    }

    fn tokens(&self, ids: &[i64], rule: &Rule<Vec<u8>>) -> Values {
        let mut out = Strings::with_capacity(ids.len(), 0);
        for &id in ids {
            out.push(match (place(id, rule, self.len()), &rule.mask) {
                (Some(index), _) => self.get(index),
                (None, Some(mask)) if id == 0 => mask,
                _ => rule.oov.as_deref().unwrap_or_default(),
            });
        }
        Values::Bytes(out)
    }

    fn ids_graph(&self, graph: &mut GraphBuilder, input: GraphTensor, rule: &Rule<Vec<u8>>) -> Result<Output<i64>> {
        let texts = input.texts()?;
        let words: Vec<&[u8]> = self.list().iter().collect();
        let keys = graph.texts(&[words.len()], &words);
        let ids = rule.ids_of(graph, words.len(), false);
        let table = graph.table(keys, ids);
        let none = graph.scalar(-1_i64);
        let found = graph.lookup(table, texts, none);
        let unknown = graph.hash_bucket(texts, rule.num_oov);
        let mask = rule.mask.as_ref().map(|mask| graph.texts(&[], &[mask]));
        let masked = mask.map(|mask| graph.equal(texts, mask));
        Ok(rule.chosen(graph, found, unknown, masked))
    }

    fn tokens_graph(&self, graph: &mut GraphBuilder, ids: Output<i64>, rule: &Rule<Vec<u8>>) -> GraphTensor {
        let words: Vec<&[u8]> = rule.mask.as_deref().into_iter().chain(self.list().iter()).collect();
        let keys = rule.ids_of(graph, self.len(), rule.mask.is_some());
        let values = graph.texts(&[words.len()], &words);
        let table = graph.table(keys, values);
        let unknown = graph.texts(&[], &[rule.oov.as_deref().unwrap_or_default()]);
        GraphTensor::Text(graph.lookup(table, ids, unknown))
    }

    fn export(&self, special: &[Vec<u8>]) -> Strings {
        let mut list: Strings = special.iter().collect();
        list.extend_from(self.list(), 0..self.len());
        list
    }
}
