//! Categorical columns in a graph: ids from texts and numbers.

use super::inputs::{GraphFeature, GraphInputs};
use super::{GraphIds, not_in_a_graph, time};
use crate::columns::kind::{Categorical, CrossInput, Numeric, Split, leaves};
use crate::columns::tokens::Tokens;
use phalanx_base::Result;
use phalanx_data::DType;
use phalanx_formats::saved_model::{Crossed, GraphBuilder, Sparse, Text};

/// The values of texts: themselves, or what is between their delimiters.
fn values(graph: &mut GraphBuilder, texts: Sparse<Text>, split: &Split) -> Sparse<Text> {
    match split {
        None => texts,
        Some(delimiter) => graph.split_texts(texts, delimiter),
    }
}

impl GraphInputs {
    pub(super) fn categorical(&self, graph: &mut GraphBuilder, column: &Categorical) -> Result<GraphIds> {
        let ids = match column {
            Categorical::Identity { key, split, buckets, default } => {
                let ids = self.integers(graph, key, split)?;
                match default {
                    None => ids,
                    Some(default) => {
                        let (low, high) = (graph.scalar(0_i64), graph.scalar(*buckets as i64));
                        let (below, above) = (graph.less(ids.values, low), graph.greater_equal(ids.values, high));
                        let (outside, default) = (graph.or(below, above), graph.scalar(*default));
                        ids.with_values(graph.select(outside, default, ids.values))
                    }
                }
            }
            Categorical::Time { key, part, unit } => match self.fed(key)? {
                GraphFeature::SparseIntegers(numbers) if unit.per_second().is_some() => {
                    let seconds = time::seconds_of_integers(graph, numbers.values, *unit);
                    numbers.with_values(time::part(graph, seconds, *part))
                }
                GraphFeature::Texts { present: texts, .. } if unit.per_second().is_none() => {
                    let seconds = time::seconds_of_texts(graph, texts.values);
                    texts.with_values(time::part(graph, seconds, *part))
                }
                _ => return Err(not_in_a_graph(key, "its timestamps have another type than their unit")),
            },
            Categorical::Hash { key, split, buckets, dtype } => match self.fed(key)? {
                GraphFeature::Texts { present: texts, .. } if *dtype == DType::Bytes => {
                    let texts = values(graph, texts, split);
                    texts.with_values(graph.hash_bucket(texts.values, *buckets as i64))
                }
                _ => {
                    let numbers = self.integers(graph, key, split)?;
                    let texts = graph.as_string(numbers.values);
                    numbers.with_values(graph.hash_bucket(texts, *buckets as i64))
                }
            },
            Categorical::Vocabulary { key, split, vocabulary, default, oov_buckets } => {
                let tokens = vocabulary.tokens()?;
                self.look_up(graph, (key, split), &tokens, default.unwrap_or(-1), *oov_buckets)?
            }
            Categorical::Bucketized { source, boundaries } => {
                self.buckets(graph, source, boundaries.known(&source.key)?)?
            }
            Categorical::Crossed { parts, buckets, hash_key } => {
                let parts = leaves(parts).into_iter().map(|part| self.part(graph, part)).collect::<Result<Vec<_>>>()?;
                graph.cross(&parts, *buckets as i64, hash_key.cast_signed())
            }
            Categorical::Weighted { column, weight_key, .. } => {
                let GraphIds { ids, .. } = self.categorical(graph, column)?;
                let weights = match self.fed(weight_key)? {
                    GraphFeature::SparseFloats(weights) => weights.values,
                    GraphFeature::SparseIntegers(weights) => graph.cast(weights.values),
                    _ => return Err(not_in_a_graph(weight_key, "weights are numbers, one for each id")),
                };
                return Ok(GraphIds { ids, weights: Some(weights) });
            }
            Categorical::Sequence(column) => return Err(not_in_a_graph(&column.name(), "it is a sequence")),
        };
        Ok(GraphIds { ids, weights: None })
    }

    /// The integers of an input, or those between the delimiters of its texts.
    fn integers(&self, graph: &mut GraphBuilder, key: &str, split: &Split) -> Result<Sparse<i64>> {
        match self.fed(key)? {
            GraphFeature::SparseIntegers(ids) => Ok(ids),
            GraphFeature::Texts { present: texts, .. } if split.is_some() => {
                let texts = values(graph, texts, split);
                Ok(texts.with_values(graph.parse_integer(texts.values)))
            }
            _ => Err(not_in_a_graph(key, "it is not read as integers")),
        }
    }

    fn part(&self, graph: &mut GraphBuilder, part: &CrossInput) -> Result<Crossed> {
        match part {
            CrossInput::Column(column) => Ok(self.categorical(graph, column)?.ids.into()),
            CrossInput::Key(key) => match self.fed(key)? {
                GraphFeature::Texts { all, .. } => Ok(all.into()),
                GraphFeature::SparseIntegers(numbers) => Ok(numbers.into()),
                _ => Err(not_in_a_graph(key, "a cross takes texts and integers")),
            },
        }
    }

    fn look_up(
        &self,
        graph: &mut GraphBuilder,
        (key, split): (&str, &Split),
        tokens: &Tokens,
        default: i64,
        oov_buckets: usize,
    ) -> Result<Sparse<i64>> {
        let count = tokens.len();
        let places: Vec<i64> = (0..count as i64).collect();
        let places = graph.constant(&[count], &places);
        let (size, oov) = (count as i64, oov_buckets as i64);
        Ok(match (tokens, self.fed(key)?) {
            (Tokens::Words(words), GraphFeature::Texts { present: texts, .. }) => {
                let texts = values(graph, texts, split);
                let words: Vec<&[u8]> = words.list().iter().collect();
                let keys = graph.texts(&[count], &words);
                let table = graph.table(keys, places);
                if oov > 0 {
                    texts.with_values(graph.lookup_or_hash(table, texts.values, size, oov))
                } else {
                    let default = graph.scalar(default);
                    texts.with_values(graph.lookup(table, texts.values, default))
                }
            }
            // Unknown numbers are hashed as decimal text, so the lookup is by text.
            (Tokens::Numbers(numbers), _) if oov > 0 => {
                let given = self.integers(graph, key, split)?;
                let words: Vec<String> = numbers.list().iter().map(i64::to_string).collect();
                let keys = graph.texts(&[count], &words);
                let table = graph.table(keys, places);
                let texts = graph.as_string(given.values);
                given.with_values(graph.lookup_or_hash(table, texts, size, oov))
            }
            (Tokens::Numbers(numbers), _) => {
                let given = self.integers(graph, key, split)?;
                let keys = graph.constant(&[count], numbers.list());
                let table = graph.table(keys, places);
                let default = graph.scalar(default);
                given.with_values(graph.lookup(table, given.values, default))
            }
            (Tokens::Words(_), _) => {
                return Err(not_in_a_graph(key, "the types of its input and its vocabulary differ"));
            }
        })
    }

    /// Dimension `d` of a numeric column has the buckets from `d * (boundaries + 1)` on.
    fn buckets(&self, graph: &mut GraphBuilder, source: &Numeric, boundaries: &[f32]) -> Result<Sparse<i64>> {
        let (values, _) = self.numeric(graph, source)?;
        let buckets = graph.bucketize(values, boundaries);
        let mut ids = graph.cast::<i32, i64>(buckets);
        let elements = source.elements();
        if elements > 1 {
            let each = boundaries.len() as i64 + 1;
            let starts: Vec<i64> = (0..elements as i64).map(|dimension| dimension * each).collect();
            let starts = graph.constant(&[1, elements], &starts);
            ids = graph.add(ids, starts);
        }
        let none = graph.scalar(-1_i64);
        Ok(graph.to_sparse(ids, none))
    }
}
