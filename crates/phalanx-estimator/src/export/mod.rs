//! SavedModels of estimators.

mod opened;
mod served;
mod signatures;

use crate::trained::{TableValues, TrainedModel};
use crate::{Estimator, Trainable};
pub use opened::Exported;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::Batch;
use phalanx_formats::saved_model::{AnyOutput, GraphBuilder, Output, SavedModelWriter, VariableSpec, VariableValues};
use phalanx_ps::checkpoint::{table_keys, table_values};
use phalanx_storage::Dir;
use phalanx_train::saved_model::Folder;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many folder names are tried.
const TRIES: u32 = 10;

/// The input of an exported model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServingInput {
    /// Serialized `tf.train.Example`s.
    #[default]
    Examples,
    /// A tensor for each feature. Features with a variable number of values are padded with empty strings or -1.
    Raw,
}

/// A model's graph up to its logits.
pub struct Served {
    /// The graph.
    pub graph: GraphBuilder,
    /// `[rows, logits]`.
    pub logits: Output<f32>,
    /// The inputs of the graph, by name.
    pub placeholders: Vec<(String, AnyOutput)>,
    /// The outputs of the signature `predict`, with the number of values of a row, where they are not those of the head:
    /// the `export_outputs` of TensorFlow's `EstimatorSpec`.
    pub outputs: Vec<(String, AnyOutput, usize)>,
}

impl<M: Trainable> Estimator<M> {
    /// Writes the newest checkpoint as a SavedModel to a new folder of `base`, with the signatures of TensorFlow's
    /// Estimator. The folder, named by the seconds since 1970, is returned.
    ///
    /// To check the export, its variables are read back, and the batch `held` is predicted with them and with the
    /// checkpoint's; the largest difference is written to `assets.extra/phalanx.json`.
    ///
    /// # Errors
    /// Fails if there is no checkpoint, a column has no TensorFlow graph, or the folder cannot be written.
    pub fn export_saved_model(
        &self,
        base: impl AsRef<Path>,
        input: ServingInput,
        held: Option<&Batch>,
    ) -> Result<PathBuf> {
        self.export_saved_model_with(base, input, held, &[])
    }

    /// As [`Self::export_saved_model`], with named files for `assets.extra/`.
    ///
    /// # Errors
    /// As [`Self::export_saved_model`]. Also fails if a name is not a path inside that folder.
    pub fn export_saved_model_with(
        &self,
        base: impl AsRef<Path>,
        input: ServingInput,
        held: Option<&Batch>,
        assets_extra: &[(String, Vec<u8>)],
    ) -> Result<PathBuf> {
        self.export(&self.load()?, base.as_ref(), input, held, assets_extra)
    }

    pub(crate) fn export(
        &self,
        trained: &TrainedModel<M>,
        base: &Path,
        input: ServingInput,
        held: Option<&Batch>,
        extra: &[(String, Vec<u8>)],
    ) -> Result<PathBuf> {
        let rows: Vec<usize> = trained.tables.iter().map(TableValues::len).collect();
        let served = self.model.served_with_rows(input, &rows)?;
        let (model, names) = signatures::with_signatures(self.model.head(), served, input)?;
        let (folder, temporary) = free_name(base)?;
        let values = Values(trained);
        let written = SavedModelWriter::new(Folder(temporary.clone())).write(model, |variable| values.get(variable));
        let checked = written.and_then(|_| self.check(trained, &temporary, held));
        let done = checked.and_then(|difference| {
            let manifest = manifest(trained, &names, held.map_or(0, Batch::rows), difference);
            let manifest = ("phalanx.json".to_owned(), manifest.into_bytes());
            let mut extras = std::iter::once(&manifest).chain(extra);
            let put = extras.try_for_each(|(name, content)| put_extra(&temporary.join("assets.extra"), name, content));
            put.and_then(|()| std::fs::rename(&temporary, &folder))
                .context(Code::StorageWrite, format!("{} cannot be written", folder.display()))
        });
        if done.is_err() {
            let _ = std::fs::remove_dir_all(&temporary);
        }
        done.map(|()| folder)
    }

    /// Returns the largest difference between the predictions of the export's variables and of the checkpoint's.
    fn check(&self, trained: &TrainedModel<M>, folder: &Path, held: Option<&Batch>) -> Result<Option<f32>> {
        let again = TrainedModel::load(&self.model, &Dir::local(folder.join("variables")), "variables")?;
        let Some(held) = held else { return Ok(None) };
        let (one, other) = (trained.logits(held)?, again.logits(held)?);
        let difference = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        if difference > 1e-5 || difference.is_nan() {
            return Err(Error::new(Code::Internal, "the export and the checkpoint predict differently")
                .because(format!("their logits differ by {difference}")));
        }
        Ok(Some(difference))
    }
}

/// Writes a file of `assets.extra`.
fn put_extra(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let inside = |part| matches!(part, std::path::Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(inside) {
        return Err(std::io::Error::other(format!("{name:?} is not a valid file name in assets.extra")));
    }
    let path = folder.join(name);
    path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, content))
}

/// The values of a checkpoint's variables, by name.
struct Values<'a, M: Trainable>(&'a TrainedModel<M>);

impl<M: Trainable> Values<'_, M> {
    fn get(&self, variable: &VariableSpec) -> Result<VariableValues<'static>> {
        if let Some(values) = self.0.dense.get(&variable.name) {
            return Ok(values.clone().into());
        }
        if variable.name == "global_step" {
            return Ok(vec![self.0.global_step.cast_signed()].into());
        }
        if let Some(values) = self.growing(&variable.name) {
            return Ok(values);
        }
        let table = self.0.tables.iter().find(|table| table.table.spec.name == variable.name);
        let table = table.ok_or_else(|| {
            Error::new(Code::Internal, format!("the graph's variable {:?} is not in the model", variable.name))
        })?;
        let mut rows = Vec::with_capacity(variable.shape.elements());
        (0..table.table.rows as i64).for_each(|id| table.row(id, &mut rows));
        Ok(rows.into())
    }
}

impl<M: Trainable> Values<'_, M> {
    /// Returns the ids or rows of a table that grows. The last id stands for all that are not there.
    fn growing(&self, variable: &str) -> Option<VariableValues<'static>> {
        let table = |of: fn(&str) -> String| {
            let is_named = |table: &&TableValues| table.table.is_growing() && of(&table.table.spec.name) == variable;
            self.0.tables.iter().find(is_named)
        };
        if let Some(table) = table(table_keys) {
            let ids: Vec<i64> = table.ids().into_iter().chain([i64::MAX]).collect();
            return Some(ids.into());
        }
        let (table, mut rows) = (table(table_values)?, Vec::new());
        table.ids().into_iter().for_each(|id| table.row(id, &mut rows));
        let mean = table.table.spec.initializer.mean();
        rows.resize(rows.len() + table.table.spec.dim, mean);
        Some(rows.into())
    }
}

/// Returns an unused folder name, and the temporary folder that becomes it.
fn free_name(base: &Path) -> Result<(PathBuf, PathBuf)> {
    let wrong = || format!("{} cannot be written", base.display());
    std::fs::create_dir_all(base).context(Code::StorageWrite, wrong())?;
    for _ in 0..TRIES {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let (folder, temporary) = (base.join(seconds.to_string()), base.join(format!("temp-{seconds}")));
        if !folder.exists() && std::fs::create_dir(&temporary).is_ok() {
            return Ok((folder, temporary));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Err(Error::new(Code::StorageWrite, wrong())
        .because(format!("the names of the last {TRIES} seconds are all taken"))
        .help("check which other process exports to this folder"))
}

fn manifest<M: Trainable>(
    trained: &TrainedModel<M>,
    signatures: &[String],
    rows: usize,
    difference: Option<f32>,
) -> String {
    let signatures: Vec<String> = signatures.iter().map(|name| format!("{name:?}")).collect();
    let difference = difference.map_or_else(|| "null".to_owned(), |difference| format!("{difference:e}"));
    format!(
        "{{\n  \"checkpoint\": {:?},\n  \"global_step\": {},\n  \"signatures\": [{}],\n  \"checked_rows\": {rows},\n  \
         \"largest_difference\": {difference}\n}}\n",
        trained.checkpoint,
        trained.global_step,
        signatures.join(", "),
    )
}
