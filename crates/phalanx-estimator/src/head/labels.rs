//! The labels and weights of a batch.

use super::{Head, HeadKind, HeadPart, OwnLoss};
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_data::{Batch, Column, ValuesView};

/// The labels of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Labels {
    /// Numbers, as many as there are logits.
    Numbers(Vec<f32>),
    /// One class for each example.
    Ids(Vec<i64>),
    /// The targets of each of several heads.
    Several(Vec<Targets>),
    /// The head does not read them: the user's loss does.
    None,
}

/// The labels and weights of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) labels: Labels,
    /// The weight of each example.
    pub(crate) weights: Option<Vec<f32>>,
    /// The batch, for the user's loss.
    pub(crate) batch: Option<Batch>,
}

impl Head {
    /// Returns the labels and weights of a batch.
    pub(crate) fn targets(&self, batch: &Batch) -> Result<Targets> {
        if self.kind != HeadKind::Several {
            return self.targets_in(batch, batch.label(), at_label);
        }
        let of = |part: &HeadPart| {
            let at = |error: Error| error.at(format!("the label {:?}", part.name));
            part.head.targets_in(batch, Some(batch.column(&part.name)?), at)
        };
        let labels = Labels::Several(self.parts.iter().map(of).collect::<Result<_>>()?);
        Ok(Targets { labels, weights: None, batch: None })
    }

    /// Returns the targets of a batch whose labels are in this column.
    fn targets_in(&self, batch: &Batch, label: Option<&Column>, at: impl Fn(Error) -> Error) -> Result<Targets> {
        let labels = match (self.kind, label) {
            (HeadKind::Own(_), _) => Labels::None,
            (_, Some(label)) => self.labels(label).map_err(at)?,
            (_, None) => {
                return Err(Error::new(Code::DataColumn, "the input has no label")
                    .because("training and evaluation need labels")
                    .help("name the label's column in the input, such as csv(…).label(\"income\")"));
            }
        };
        let weights = self.weight_column.as_ref().map(|name| {
            let column = batch.column(name)?;
            one_each(column, batch.rows(), 1)?;
            numbers(column).map_err(|error| error.at(format!("weight column {name:?}")))
        });
        let own = matches!(self.own_loss, Some(OwnLoss::OfBatch(_))).then(|| batch.clone());
        Ok(Targets { labels, weights: weights.transpose()?, batch: own })
    }

    fn labels(&self, label: &Column) -> Result<Labels> {
        match self.kind {
            HeadKind::Regression(width) => {
                one_each(label, label.rows(), width)?;
                numbers(label).map(Labels::Numbers)
            }
            HeadKind::Poisson(width) => {
                one_each(label, label.rows(), width)?;
                let counts = numbers(label)?;
                match counts.iter().position(|count| *count < 0.0) {
                    Some(at) => Err(Error::new(Code::DataRow, format!("the label {} is negative", counts[at]))
                        .at(in_batch(at / width))
                        .because("the labels of a Poisson regression are counts")
                        .help("filter out such rows, or use a regression")),
                    None => Ok(Labels::Numbers(counts)),
                }
            }
            HeadKind::MultiLabel(classes) => self.indicators(label, classes).map(Labels::Numbers),
            HeadKind::Several | HeadKind::Own(_) => Ok(Labels::None),
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

    /// Returns zeros and ones for each example, from such a label or from lists of classes.
    fn indicators(&self, label: &Column, classes: usize) -> Result<Vec<f32>> {
        let is_words = matches!(label.values(), ValuesView::Bytes(_));
        if !is_words && !label.is_ragged() && label.width() == classes {
            self.no_vocabulary()?;
            let given = numbers(label)?;
            return match given.iter().position(|&number| number != 0.0 && number != 1.0) {
                Some(at) => Err(outside(at / classes, &given[at], 2)),
                None => Ok(given),
            };
        }
        let ids = match label.values() {
            ValuesView::Bytes(_) => self.words(label)?,
            ValuesView::I64(ids) => {
                self.no_vocabulary()?;
                ids.to_vec()
            }
            _ => {
                let what = format!("a row has labels of shape {:?}", label.row_shape());
                return Err(Error::new(Code::ShapeMismatch, what)
                    .help(format!("give {classes} zeros and ones per row, or a list of class numbers")));
            }
        };
        let mut out = vec![0.0; label.rows() * classes];
        for row in 0..label.rows() {
            let own = label
                .splits()
                .map_or_else(|| row * label.width()..(row + 1) * label.width(), |splits| splits[row]..splits[row + 1]);
            for &id in &ids[own] {
                let class = usize::try_from(id).ok().filter(|class| *class < classes);
                out[row * classes + class.ok_or_else(|| outside(row, &id, classes))?] = 1.0;
            }
        }
        Ok(out)
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
                    _ if vocabulary.iter().any(|known| known == word.trim()) => {
                        error.help("it has spaces around it: set trim where the CSV files are read")
                    }
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
