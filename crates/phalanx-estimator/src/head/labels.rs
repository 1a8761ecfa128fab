//! The labels and weights of a batch.

use super::{Head, HeadKind};
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_data::{Batch, Column, ValuesView};

/// The labels of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Labels {
    /// Numbers, as many as there are logits.
    Numbers(Vec<f32>),
    /// One class for each example.
    Ids(Vec<i64>),
}

/// The labels and weights of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) labels: Labels,
    /// The weight of each example.
    pub(crate) weights: Option<Vec<f32>>,
}

impl Head {
    /// Returns the labels and weights of a batch.
    pub(crate) fn targets(&self, batch: &Batch) -> Result<Targets> {
        let label = batch.label().ok_or_else(|| {
            Error::new(Code::DataColumn, "the input has no label")
                .because("training and evaluation need labels")
                .help("name the label's column in the input, such as csv(…).label(\"income\")")
        })?;
        let labels = self.labels(label).map_err(at_label)?;
        let weights = self.weight_column.as_ref().map(|name| {
            let column = batch.column(name)?;
            one_each(column, batch.rows(), 1)?;
            numbers(column).map_err(|error| error.at(format!("weight column {name:?}")))
        });
        Ok(Targets { labels, weights: weights.transpose()? })
    }

    fn labels(&self, label: &Column) -> Result<Labels> {
        match self.kind {
            HeadKind::Regression(width) => {
                one_each(label, label.rows(), width)?;
                numbers(label).map(Labels::Numbers)
            }
            HeadKind::Binary => {
                one_each(label, label.rows(), 1)?;
                let ids = if let ValuesView::Bytes(_) = label.values() {
                    self.words(label)?.iter().map(|&id| id as f32).collect()
                } else {
                    self.no_vocabulary()?;
                    numbers(label)?
                };
                // As in TensorFlow, any number from 0 to 1 is a label.
                match ids.iter().position(|id| !(0.0..=1.0).contains(id)) {
                    Some(row) => Err(outside(row, &ids[row], 2)),
                    None => Ok(Labels::Numbers(ids)),
                }
            }
            HeadKind::MultiClass(classes) => {
                one_each(label, label.rows(), 1)?;
                let ids = match label.values() {
                    ValuesView::Bytes(_) => self.words(label)?,
                    ValuesView::I64(values) => {
                        self.no_vocabulary()?;
                        values.to_vec()
                    }
                    ValuesView::U8(values) => {
                        self.no_vocabulary()?;
                        values.iter().map(|&id| i64::from(id)).collect()
                    }
                    ValuesView::F32(_) => {
                        return Err(Error::new(Code::DataColumn, "labels are floats, not class numbers")
                            .help("read the label as int64, or give a label vocabulary"));
                    }
                };
                match ids.iter().position(|&id| !(0..classes as i64).contains(&id)) {
                    Some(row) => Err(outside(row, &ids[row], classes)),
                    None => Ok(Labels::Ids(ids)),
                }
            }
        }
    }

    fn no_vocabulary(&self) -> Result<()> {
        if self.label_vocabulary.is_empty() {
            return Ok(());
        }
        Err(Error::new(Code::DataColumn, "labels are numbers, and the head has a label vocabulary")
            .help("remove the vocabulary, or read the label as text"))
    }

    /// Returns the class numbers of text labels.
    fn words(&self, label: &Column) -> Result<Vec<i64>> {
        let vocabulary = &self.label_vocabulary;
        if vocabulary.is_empty() {
            return Err(Error::new(Code::DataColumn, "labels are texts, and the head has no label vocabulary")
                .help("give label_vocabulary(…) with one word for each class"));
        }
        let place = |(row, word): (usize, &[u8])| {
            // A handful of words: comparing them beats hashing.
            let found = vocabulary.iter().position(|known| known.as_bytes() == word);
            found.map(|id| id as i64).ok_or_else(|| {
                let word = String::from_utf8_lossy(word);
                let near = nearest(&word, vocabulary.iter().map(String::as_str));
                let error =
                    Error::new(Code::DataRow, format!("the label {word:?} is not in the vocabulary")).at(in_batch(row));
                let error = error.because(format!("it has {}", vocabulary.join(", ")));
                match near {
                    Some(near) => error.help(format!("did the data mean {near:?}? (spaces count)")),
                    None => error.help("add the word to label_vocabulary(…), or filter out such rows"),
                }
            })
        };
        label.as_bytes()?.iter().enumerate().map(place).collect()
    }
}

fn at_label(error: Error) -> Error {
    if error.place().is_some() { error } else { error.at("the label of the input") }
}

/// The place of a row whose origin is not known here.
fn in_batch(row: usize) -> String {
    format!("row {row} of the batch, the label of the input")
}

fn outside(row: usize, id: &dyn std::fmt::Display, classes: usize) -> Error {
    Error::new(Code::DataRow, format!("label {id} is outside the {classes} classes"))
        .at(in_batch(row))
        .because(format!("class numbers are 0 to {}", classes - 1))
        .help("raise n_classes, or renumber the labels")
}

/// Fails unless every row has `width` values.
fn one_each(column: &Column, rows: usize, width: usize) -> Result<()> {
    if !column.is_ragged() && column.rows() == rows && column.width() == width {
        return Ok(());
    }
    let shape = column.row_shape();
    Err(Error::new(Code::ShapeMismatch, format!("a row has values of shape {shape:?}, where {width} are expected")))
}

fn numbers(column: &Column) -> Result<Vec<f32>> {
    Ok(match column.values() {
        ValuesView::F32(values) => values.to_vec(),
        ValuesView::I64(values) => values.iter().map(|&value| value as f32).collect(),
        ValuesView::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
        ValuesView::Bytes(_) => column.as_f32()?.to_vec(),
    })
}
