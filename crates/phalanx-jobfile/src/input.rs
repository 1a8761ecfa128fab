//! The datasets for training, evaluation and prediction.

use crate::data::{Data, Format};
use crate::model::Model;
use crate::paths::Paths;
use crate::row_source::{RowCounts, WantedColumns};
use crate::selection::Wanted;
use crate::settings::{Eval, Train};
use crate::source::{Spanned, meant};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{
    Batch, Column, Dataset, FeatureKind, FeatureSpec, InputContext, Parallel, Source, SplitPart, Strings, tfrecord,
};
use phalanx_feature::{FeatureColumn, FeatureStatistics, make_parse_example_spec};
use std::sync::Arc;

/// The number of rows per batch of a prediction.
const PREDICTION_BATCH: usize = 256;

/// What the rows of files are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Training or evaluation.
    Labelled,
    /// Prediction; `no_label` says that a CSV file without a header lacks the label's field.
    ToPredict { no_label: bool },
}

/// The inputs of a job.
#[derive(Clone)]
pub(crate) struct Inputs {
    pub(crate) data: Data,
    pub(crate) features: Vec<FeatureSpec>,
    pub(crate) label: FeatureSpec,
    /// The weight column, for training and evaluation.
    pub(crate) weight: Option<FeatureSpec>,
    train: Train,
    eval: Eval,
    paths: Paths,
    seed: u64,
    spellings: Option<Arc<Vec<Vec<String>>>>,
    /// What was skipped of the data for training, evaluation and prediction.
    counts: [RowCounts; 3],
}

impl Inputs {
    pub(crate) fn new(
        data: &Data,
        model: &Model,
        train: &Train,
        eval: &Eval,
        paths: &Paths,
        seed: u64,
    ) -> Result<Self> {
        let columns: Vec<_> = model.columns().flat_map(|(named, _, _)| named.columns.iter().cloned()).collect();
        let features = make_parse_example_spec(&columns)?;
        let head = &model.head;
        let kind = match (&head.classes, &head.vocabulary) {
            (None, _) => FeatureKind::F32,
            (Some(_), Some(_)) => FeatureKind::Bytes,
            (Some(_), None) => FeatureKind::I64,
        };
        let weight = head.weight_column.as_ref().map(|name| FeatureSpec::fixed(&name.value, FeatureKind::F32, 1));
        let spellings = head.vocabulary.as_ref().filter(|words| words.value.iter().any(|word| word.len() > 1));
        let mut data = data.clone();
        // A weight that is missing is an error, also where a column reads it.
        data.required.extend(head.weight_column.clone().filter(|name| {
            !data.defaults.iter().any(|(known, _)| known.value == name.value)
                && !data.required.iter().any(|known| known.value == name.value)
        }));
        Ok(Self {
            counts: std::array::from_fn(|_| RowCounts::new(&data)),
            weight: weight.filter(|weight| features.iter().all(|known| known.name != weight.name)),
            features,
            label: FeatureSpec::fixed(&data.label.value, kind, head.label_dimension),
            train: train.clone(),
            eval: eval.clone(),
            paths: paths.clone(),
            seed,
            spellings: spellings.map(|words| Arc::new(words.value.clone())),
            data,
        })
    }

    /// These inputs with counts of their own, for rows that are read beside the training: they use up none of the rows that it
    /// may skip, and are not reported as skipped.
    pub(crate) fn counted_apart(&self) -> Self {
        Self { counts: std::array::from_fn(|_| RowCounts::new(&self.data)), ..self.clone() }
    }

    fn files(&self, patterns: &[String]) -> Vec<String> {
        patterns.iter().map(|pattern| self.paths.of_data(pattern)).collect()
    }

    pub(crate) fn train_files(&self) -> Vec<String> {
        self.files(&self.data.train.value)
    }

    pub(crate) fn eval_files(&self) -> Vec<String> {
        self.files(&self.data.eval.value)
    }

    /// The wanted rows of files with their labels, and the column that evaluations group by.
    fn labelled(&self, files: Vec<String>, wanted: Wanted, group: Option<FeatureSpec>, counts: &RowCounts) -> Dataset {
        let mut features = self.features.clone();
        features
            .extend(group.filter(|group| features.iter().chain(&self.weight).all(|known| known.name != group.name)));
        let label = self.label_of(&files);
        let columns = WantedColumns { features: &features, label: Some(&label), weight: self.weight.as_ref() };
        self.with_classes(self.data.selected(files, columns, wanted, counts), &label)
    }

    /// The rows of files as a source of its own counts, to find a row again, with what a filter reads.
    pub(crate) fn source_of(&self, files: Vec<String>, rows: RowKind) -> Arc<dyn Source> {
        let counts = RowCounts::new(&self.data);
        match rows {
            RowKind::Labelled => {
                let label = self.label_of(&files);
                let weight = self.weight.as_ref();
                let columns = WantedColumns { features: &self.features, label: Some(&label), weight };
                let features = self.data.with_selectors(&files, columns, None);
                self.data.source(files, WantedColumns { features: &features, label: Some(&label), weight }, &counts)
            }
            RowKind::ToPredict { no_label } => {
                let wanted = WantedColumns { features: &self.features, label: None, weight: None };
                self.prediction_data(no_label).source(files, wanted, &counts)
            }
        }
    }

    /// What was skipped or changed while rows were read.
    pub(crate) fn skipped(&self) -> Vec<String> {
        let [train, eval, predict] = &self.counts;
        let mut lines = train.lines(&self.data, "training data");
        lines.extend(eval.lines(&self.data, "evaluation data"));
        lines.extend(predict.lines(&self.data, "input"));
        lines
    }

    /// A batch with labels that are classes, each in its first spelling.
    pub(crate) fn spell(&self, batch: &Batch) -> Result<Batch> {
        let batch = &crate::label::classes(batch, &self.label)?;
        match &self.spellings {
            Some(spellings) => one_spelling(batch, &self.label.name, spellings),
            None => Ok(batch.clone()),
        }
    }

    fn spelled(&self, rows: Dataset) -> Dataset {
        let Some(spellings) = &self.spellings else { return rows };
        let (spellings, label) = (Arc::clone(spellings), self.label.name.clone());
        rows.map_batches(Parallel::default(), move |batch| one_spelling(&batch, &label, &spellings))
    }

    /// The rows of files with their labels, each in its first spelling.
    pub(crate) fn spelled_rows(&self, files: Vec<String>) -> Dataset {
        let counts = &self.counts[usize::from(files != self.train_files())];
        self.spelled(self.labelled(files, Wanted { part: None, share: None }, None, counts))
    }

    /// The training batches of one trainer.
    pub(crate) fn training(&self, cx: InputContext) -> Dataset {
        let train = &self.train;
        let wanted = Wanted { part: Some(SplitPart::Train), share: Some(cx) };
        let mut rows = self.spelled(self.labelled(self.train_files(), wanted, None, &self.counts[0]));
        if train.cache {
            rows = rows.cache();
        }
        if train.shuffle > 0 {
            let order = self.seed.wrapping_mul(1000).wrapping_add(cx.input_pipeline_id as u64);
            rows = rows.shuffle_seeded(train.shuffle, order);
        }
        rows = match train.epochs {
            Some(epochs) => rows.repeat_times(epochs),
            None => rows.repeat(),
        };
        let batches = rows.batch(train.batch_size);
        if train.prefetch > 0 { batches.prefetch(train.prefetch) } else { batches }
    }

    /// The rows of the training files with the inputs of these columns' statistics only.
    pub(crate) fn statistics(&self, columns: &[FeatureColumn]) -> Result<Dataset> {
        let needing =
            columns.iter().filter(|column| FeatureStatistics::needed_by(column).is_ok_and(|all| !all.is_empty()));
        let mut features = make_parse_example_spec(&needing.cloned().collect::<Vec<_>>())?;
        let wanted = Wanted { part: Some(SplitPart::Train), share: None };
        // A filter sees the same values as in training.
        let selectors = self.data.selectors(wanted.part, &features);
        let is_selector = |spec: &&FeatureSpec| selectors.iter().any(|name| name.value == spec.name);
        features.extend(self.features.iter().chain(&self.weight).filter(is_selector).cloned());
        let columns = WantedColumns { features: &features, label: None, weight: None };
        Ok(self.data.selected(self.train_files(), columns, wanted, &RowCounts::new(&self.data)))
    }

    /// What decides which rows of the files are read, in words.
    pub(crate) fn selection(&self) -> String {
        self.data.selection.describe()
    }

    /// The batches of one of the job's evaluations.
    pub(crate) fn evaluation(&self, eval: &Eval) -> Dataset {
        let rows =
            if eval.on_train { self.rows_of(self.train_files(), SplitPart::Train) } else { self.evaluation_rows(None) };
        rows.batch(eval.batch_size)
    }

    /// The batches to evaluate on: of the given files, or of the job's first evaluation.
    pub(crate) fn evaluation_of(&self, files: Option<Vec<String>>) -> Dataset {
        match files {
            None => self.evaluation(&self.eval),
            files => self.evaluation_rows(files).batch(self.eval.batch_size),
        }
    }

    /// The same, row by row.
    pub(crate) fn evaluation_rows(&self, files: Option<Vec<String>>) -> Dataset {
        match files {
            Some(files) => self.grouped(files, None),
            None => self.rows_of(self.eval_files(), SplitPart::Eval),
        }
    }

    /// The rows of a part of these files, in their order.
    fn rows_of(&self, files: Vec<String>, part: SplitPart) -> Dataset {
        self.grouped(files, Some(part))
    }

    fn grouped(&self, files: Vec<String>, part: Option<SplitPart>) -> Dataset {
        // A column that cannot be found is missing in the batches, which is reported there.
        let group = self.eval.group_by.as_ref().and_then(|name| self.id_spec(&name.value, &files).ok());
        self.spelled(self.labelled(files, Wanted { part, share: None }, group, &self.counts[1]))
    }

    /// The column that is carried through predictions, as it is read from `files`.
    pub(crate) fn id_spec(&self, name: &str, files: &[String]) -> Result<FeatureSpec> {
        if let Some(known) = self.features.iter().find(|spec| spec.name == name) {
            return Ok(known.clone());
        }
        let kind = match self.data.format {
            // Unlike the others, these need a type to be read.
            Format::TfRecord => {
                let kinds = tfrecord(files.to_vec()).feature_kinds()?;
                let found = kinds.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
                Some(found.ok_or_else(|| {
                    let help = meant(name, kinds.iter().map(|(known, _)| known.as_str()));
                    Error::new(Code::DataColumn, format!("the records have no feature {name:?}")).help(help)
                })?)
            }
            Format::Csv | Format::Parquet => None,
        };
        Ok(FeatureSpec::fixed(name, kind.unwrap_or(FeatureKind::Bytes), 1))
    }

    /// The rows to predict, with the id if there is one. The label is not read; `no_label` says that a file without a header
    /// lacks its field.
    pub(crate) fn prediction(&self, files: Vec<String>, id: Option<&FeatureSpec>, no_label: bool) -> Dataset {
        let mut features = self.features.clone();
        features.extend(id.filter(|id| features.iter().all(|known| known.name != id.name)).cloned());
        let wanted = WantedColumns { features: &features, label: None, weight: None };
        self.prediction_data(no_label).rows(files, wanted, &self.counts[2]).batch(PREDICTION_BATCH)
    }

    fn prediction_data(&self, no_label: bool) -> Data {
        let mut data = self.data.clone();
        if let (true, Some(names)) = (no_label, &self.data.names) {
            let others = names.value.iter().filter(|name| **name != self.label.name).cloned().collect();
            data.names = Some(Spanned::without_span(others));
        }
        data
    }
}

/// Replaces every label by its first spelling. Unknown labels stay, and the head rejects them.
fn one_spelling(batch: &Batch, label: &str, spellings: &[Vec<String>]) -> Result<Batch> {
    let words: Strings = batch
        .bytes(label)?
        .iter()
        .map(|word| {
            let is = |spelling: &String| spelling.as_bytes() == word;
            spellings.iter().find(|all| all.iter().any(is)).map_or(word, |all| all[0].as_bytes())
        })
        .collect();
    batch.with_column(label, Column::bytes(words))
}
