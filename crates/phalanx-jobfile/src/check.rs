//! Checks before training: files, columns, types, labels and the model.

use crate::Job;
use crate::data::{Data, Format, Missing, dtype};
use crate::input::RowKind;
use crate::model::ModelPart;
use crate::source::{Span, Spanned, meant};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{
    Batch, Csv, DType, FeatureKind, FeatureSpec, FeatureValues, Files, PartPosition, Source as _, parquet,
};
use phalanx_estimator::{Canned, IntoModel, Trainable};
use phalanx_feature::Transform;

/// The largest number of weights in a kernel.
const MAX_KERNEL: usize = 1 << 30;

/// The number of rows that are checked before training.
const CHECKED_ROWS: usize = 256;

impl Job {
    /// Builds the model, checks it against the first rows of its data and returns it.
    pub(crate) fn check(&self) -> Result<Canned> {
        let model = self.check_model()?;
        self.check_metrics(&model)?;
        self.check_groups(&model)?;
        let data = &self.inputs.data;
        for (at, files) in [(&data.train, self.inputs.train_files()), (&data.eval, self.inputs.eval_files())] {
            self.check_files(at, files, &model)?;
        }
        Ok(model)
    }

    /// Builds the model. Errors point at the column that causes them.
    pub(crate) fn check_model(&self) -> Result<Canned> {
        let mut width = 0_usize;
        for (named, at, part) in self.model.columns() {
            for column in &named.columns {
                let known = column.num_buckets().and_then(|_| column.table());
                let table = known.map_err(|error| {
                    let span = named.file.as_ref().and_then(|file| file.span.clone()).unwrap_or(named.span.clone());
                    self.source.point_with(error, Some(&span), "of this column", "correct the column")
                })?;
                let planned = match part {
                    ModelPart::Linear if table.is_some() => {
                        let what = format!("the linear part has an embedding, \"{}\"", named.name);
                        Err(Error::new(Code::JobValue, what)
                            .because("a linear model has its own weight for every id")
                            .help("name the categorical column itself; embeddings belong to the deep part"))
                    }
                    ModelPart::Linear => Transform::linear_model(std::slice::from_ref(column)),
                    ModelPart::Deep => Transform::dense_features(std::slice::from_ref(column)),
                };
                let planned = planned.map_err(|error| {
                    let help = "wrap the column: { kind = \"indicator\", column = … } or { kind = \"embedding\", … }";
                    self.source.point_with(error, at.span.as_ref(), "not for this part of the model", help)
                })?;
                width = width.saturating_add(planned.dense_width().max(planned.input_width()));
                if width.saturating_mul(self.model.first_layer()) > MAX_KERNEL {
                    let what = format!("with \"{}\" the input of the model is {width} numbers wide", named.name);
                    let error = Error::new(Code::JobValue, what).help("use an embedding for this column");
                    return Err(self.source.point(error, at.span.as_ref(), "too wide"));
                }
            }
        }
        self.model.to_model(self.seed).map_err(|error| self.explain(error))
    }

    /// Checks the column of `group_by` against the first rows of an evaluation.
    fn check_groups(&self, model: &Canned) -> Result<()> {
        let Some(name) = &self.eval.group_by else { return Ok(()) };
        let first = self.inputs.evaluation(&self.eval).iter().and_then(|mut batches| batches.next().transpose());
        let checked = first.and_then(|batch| batch.map_or(Ok(None), |batch| model.head().groups(&batch)));
        checked.map(drop).map_err(|error| {
            self.source.point_with(
                error,
                name.span.as_ref(),
                "of this column",
                "name a column of the evaluation's files",
            )
        })
    }

    /// Checks that evaluations report the metrics that exports and early stopping use.
    fn check_metrics(&self, model: &Canned) -> Result<()> {
        let known = model.head().metric_names().map_err(|error| self.explain(error))?;
        let compared = self.exports.iter().filter_map(|export| export.metric());
        for metric in compared.chain(self.stopping.iter().map(|stopping| &stopping.metric)) {
            if !known.contains(&metric.value) {
                let error = Error::new(Code::JobValue, format!("evaluations have no metric \"{}\"", metric.value));
                let error = error.help(meant(&metric.value, known.iter().map(String::as_str)));
                return Err(self.source.point(error, metric.span.as_ref(), "no such metric"));
            }
        }
        Ok(())
    }

    fn check_files(&self, at: &Spanned<Vec<String>>, files: Vec<String>, model: &Canned) -> Result<()> {
        let help = "correct the path, which is relative to `dir` of [data], to --data-dir, or to this file's folder";
        let point = |error| self.source.point_with(error, at.span.as_ref(), "these files", help);
        Files::from(files.clone()).list().map_err(point)?;
        match self.inputs.data.format {
            Format::Csv => {
                let found = self.inputs.data.csv(files.clone()).columns();
                self.check_names(files.clone())?;
                let found = found.map_err(|error| match error.code() {
                    Code::DataMissing | Code::DataFormat | Code::DataRow | Code::DataColumn => point(error),
                    _ => self.explain(error),
                })?;
                self.check_columns(&found, &files)?;
            }
            Format::Parquet => self.check_parquet(at, &files)?,
            Format::TfRecord => self.check_defaults(&files)?,
        }
        let batch = self.first(files.clone()).map_err(|error| match error.code() {
            Code::DataMissing => point(error),
            _ => self.explain(error),
        })?;
        self.check_batch(&batch, model, &files)
    }

    /// Checks that the rows have as many fields as there are names.
    fn check_names(&self, files: Vec<String>) -> Result<()> {
        let data = &self.inputs.data;
        let Some(names) = &data.names else { return Ok(()) };
        let texts = |csv: Csv, name: &String| csv.column(name.clone(), DType::Bytes);
        let rows = names.value.iter().fold(data.csv(files), texts);
        let read = rows.open(0, PartPosition::START).and_then(|mut reader| reader.read(1));
        read.map(|_| ()).map_err(|error| match error.code() {
            Code::DataRow | Code::DataColumn | Code::BadSetting => {
                let what = format!("{} names", names.value.len());
                let help = "name every column of the file, in their order";
                self.source.point(error.help(help), names.span.as_ref(), &what)
            }
            _ => self.explain(error),
        })
    }

    pub(crate) fn first(&self, files: Vec<String>) -> Result<Batch> {
        let rows = self.inputs.spelled_rows(files).batch(CHECKED_ROWS);
        let no_rows = || match &self.inputs.data.selection.filter {
            None => Error::new(Code::DataMissing, "these files have no rows").help("give files that have rows"),
            Some(filter) => Error::new(Code::DataMissing, "these files have no rows that fulfil the filter")
                .because(format!("the filter is {:?}", filter.value.text()))
                .help("correct `filter` of [data], or give other files"),
        };
        rows.iter()?.next().transpose()?.ok_or_else(no_rows)
    }

    /// Every input with its position in the file and its type.
    fn wanted(&self, files: &[String]) -> Vec<(Spanned<String>, DType)> {
        let (inputs, data) = (&self.inputs, &self.inputs.data);
        let of = |spec: &FeatureSpec, at: &Spanned<String>| (at.clone(), dtype(spec.kind));
        let mut all = vec![of(&inputs.label_of(files), &data.label)];
        all.extend(inputs.weight.iter().zip(&self.model.head.weight_column).map(|(spec, at)| of(spec, at)));
        for (named, _, _) in self.model.columns() {
            for input in &named.inputs {
                let spec = inputs.features.iter().find(|spec| spec.name == input.value);
                all.extend(spec.map(|spec| of(spec, input)));
            }
        }
        all
    }

    fn check_columns(&self, found: &[(String, DType)], files: &[String]) -> Result<()> {
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let missing = |name: &Spanned<String>, file: &str| {
            let what = format!("the data has no column \"{}\"", name.value);
            let error = self.source.wrong(Code::DataColumn, &name.span_or(&(0..0)), what, "not in the data");
            error.at(file).help(meant(&name.value, names.iter().copied()))
        };
        let file = files.first().map_or("", String::as_str);
        let data = &self.inputs.data;
        let named = data.types.iter().map(|(name, _)| name).chain(data.defaults.iter().map(|(name, _)| name));
        let selectors = data.selectors(Some(phalanx_data::SplitPart::Train), &[]);
        for name in named.chain(&data.required).chain(&selectors) {
            if !names.contains(&name.value.as_str()) {
                return Err(missing(name, file));
            }
        }
        for (name, wanted) in self.wanted(files) {
            let Some((_, holds)) = found.iter().find(|(known, _)| *known == name.value) else {
                return Err(missing(&name, file));
            };
            check_default(self, data, &name, wanted)?;
            let is_given = data.types.iter().any(|(known, _)| known.value == name.value);
            if !is_given && !fits(data.format, *holds, wanted) {
                self.wrong_values(&name, *holds, wanted, files)?;
            }
        }
        Ok(())
    }

    /// The first rows decide where types of a CSV file do not fit: a value may only mark a missing one, or be skipped.
    fn wrong_values(&self, name: &Spanned<String>, holds: DType, wanted: DType, files: &[String]) -> Result<()> {
        let Err(error) = self.first(files.to_vec()) else { return Ok(()) };
        let has_setting = error.next().is_some_and(|help| help.contains("na_value") || help.contains("as string"));
        let is_about_it = error.place().is_some_and(|place| place.ends_with(&format!("column {:?}", name.value)));
        if !is_about_it {
            return Err(self.explain(error));
        }
        let place = error.place().unwrap_or_default().to_owned();
        Err(match has_setting {
            true => self.source.point(error, name.span.as_ref(), &format!("reads {wanted}")),
            false => self.wrong_type(name, holds, wanted, &place),
        })
    }

    fn wrong_type(&self, name: &Spanned<String>, holds: DType, wanted: DType, file: &str) -> Error {
        let is_label = name.value == self.inputs.data.label.value;
        let what = format!("the column \"{}\" holds {holds}, not {wanted}", name.value);
        let help = match (is_label, wanted, holds) {
            (true, DType::I64, DType::Bytes) => {
                "labels are texts: add label_vocabulary = [\"…\", \"…\"] to [model], with one word for each class"
            }
            (true, DType::I64, _) => "class numbers are integers: renumber them, or use a regressor",
            (true, _, _) => "a regressor predicts numbers: name another column, or use a classifier",
            (_, DType::F32, _) => "use kind = \"hash_bucket\" or \"vocabulary_list\" for texts, or name another column",
            (_, DType::I64, _) => "use kind = \"hash_bucket\" or \"vocabulary_list\", or name a column of integers",
            _ => "set dtype = \"int64\" in the column, or name a column of texts",
        };
        let error = self.source.wrong(Code::DataColumn, &name.span_or(&(0..0)), what, format!("reads {wanted}"));
        error.at(file).help(help)
    }

    /// Checks that `defaults` are of inputs that are read, and of their types.
    fn check_defaults(&self, files: &[String]) -> Result<()> {
        let (data, all) = (&self.inputs.data, self.wanted(files));
        for (name, wanted) in &all {
            check_default(self, data, name, *wanted)?;
        }
        for (name, _) in &data.defaults {
            if !all.iter().any(|(known, _)| known.value == name.value) {
                let what = format!("nothing reads the input \"{}\"", name.value);
                let error = self.source.wrong(Code::JobValue, &name.span_or(&(0..0)), what, "not an input");
                return Err(error.help(meant(&name.value, all.iter().map(|(known, _)| known.value.as_str()))));
            }
        }
        Ok(())
    }

    fn check_parquet(&self, at: &Spanned<Vec<String>>, files: &[String]) -> Result<()> {
        self.check_defaults(files)?;
        for (name, wanted) in self.wanted(files) {
            let found = parquet(files.to_vec()).select([name.value.clone()]).columns();
            let found = found.map_err(|error| match error.code() {
                Code::DataColumn => {
                    self.source.point_with(error, name.span.as_ref(), "not in the data", "use one of the data's names")
                }
                _ => self.source.point(error, at.span.as_ref(), "these files"),
            })?;
            match found.first() {
                Some((_, holds)) if !fits(Format::Parquet, *holds, wanted) => {
                    return Err(self.wrong_type(&name, *holds, wanted, files.first().map_or("", String::as_str)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies columns and head to some rows.
    fn check_batch(&self, batch: &Batch, model: &Canned, files: &[String]) -> Result<()> {
        let located = |error| self.locate(error, &[files.to_vec()], RowKind::Labelled);
        self.check_columns_of(batch).map_err(located)?;
        model.head().check_labels(batch).map_err(|error| self.explain(located(error)))
    }

    /// Applies the columns to some rows.
    pub(crate) fn check_columns_of(&self, batch: &Batch) -> Result<()> {
        for (named, _, part) in self.model.columns() {
            for column in &named.columns {
                let plan = match part {
                    ModelPart::Linear => Transform::linear_model(std::slice::from_ref(column)),
                    ModelPart::Deep => Transform::dense_features(std::slice::from_ref(column)),
                };
                plan.and_then(|plan| plan.apply(batch)).map_err(|error| {
                    let span: &Span = &named.span;
                    let help = "see the types of the column's kind (`phalanx train --schema`)";
                    self.source.point_with(error, Some(span), "of this column", help)
                })?;
            }
        }
        Ok(())
    }
}

fn check_default(job: &Job, data: &Data, name: &Spanned<String>, wanted: DType) -> Result<()> {
    let given = data.defaults.iter().find(|(known, _)| known.value == name.value);
    let Some((at, value)) = given else { return Ok(()) };
    let marks =
        |spec: &FeatureSpec| matches!(&spec.default, Some(FeatureValues::F32(all)) if all.iter().all(|x| x.is_nan()));
    if job.inputs.features.iter().any(|spec| spec.name == name.value && marks(spec)) {
        let what =
            format!("column \"{}\" has a missing indicator, which a default in `defaults` would hide", name.value);
        let error = job.source.wrong(Code::JobValue, &at.span_or(&(0..0)), what, "never missing with this default");
        return Err(error.help("give the default in the column: default_value = …"));
    }
    let spec = FeatureSpec::fixed(&name.value, kind(wanted), 1);
    let good = matches!(
        (data.type_of(&spec), value),
        (DType::Bytes, Missing::Text(_))
            | (DType::F32, Missing::Number(_) | Missing::Integer(_))
            | (DType::I64, Missing::Integer(_))
    );
    if good {
        return Ok(());
    }
    let what = format!("the default of column \"{}\" is not {}", name.value, data.type_of(&spec));
    let error = job.source.wrong(Code::JobValue, &at.span_or(&(0..0)), what, "of another type");
    Err(error.help(format!("give a value of type {}, or leave it out", data.type_of(&spec))))
}

fn kind(dtype: DType) -> FeatureKind {
    match dtype {
        DType::F32 => FeatureKind::F32,
        DType::Bytes => FeatureKind::Bytes,
        DType::I64 | DType::U8 => FeatureKind::I64,
    }
}

/// Whether a column of type `holds` can be read as `wanted`.
fn fits(format: Format, holds: DType, wanted: DType) -> bool {
    match (wanted, holds) {
        (DType::F32, DType::Bytes) | (DType::I64, DType::Bytes | DType::F32) => false,
        // All fields of a CSV are texts, also those that look like numbers.
        (DType::Bytes, holds) => format == Format::Csv || holds == DType::Bytes,
        _ => true,
    }
}
