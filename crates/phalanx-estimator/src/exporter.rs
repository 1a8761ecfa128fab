//! Exports after evaluations: TensorFlow's `FinalExporter`, `LatestExporter` and `BestExporter`.

use crate::early_stopping::scalars;
use crate::estimator::eval_folder;
use crate::trained::TrainedModel;
use crate::{Estimator, EvalSpec, Evaluation, ServingInput, Trainable};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::InputContext;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq)]
enum When {
    /// When training has ended.
    Final,
    /// After every evaluation.
    Latest,
    /// After an evaluation that is better than all earlier ones.
    Best { metric: String, higher: bool },
}

/// Exports the model to `export/NAME/` of the run directory after evaluations.
///
/// ```
/// use phalanx_data::{SourceExt, csv};
/// use phalanx_estimator::{EvalSpec, Exporter};
/// let eval = EvalSpec::new(|_| csv("test.csv").label("income").batch(256))
///     .exporter(Exporter::best("best").by_highest("auc").exports_to_keep(3))
///     .exporter(Exporter::at_end("final"));
/// # let _ = eval;
/// ```
#[derive(Clone, Debug)]
pub struct Exporter {
    name: String,
    when: When,
    input: ServingInput,
    keep: usize,
    extra: Vec<(String, Vec<u8>)>,
}

impl Exporter {
    fn new(name: impl Into<String>, when: When) -> Self {
        Self { name: name.into(), when, input: ServingInput::Examples, keep: 5, extra: Vec::new() }
    }

    /// `FinalExporter`: exports once, when training has ended for any reason.
    #[must_use]
    pub fn at_end(name: impl Into<String>) -> Self {
        Self::new(name, When::Final)
    }

    /// `LatestExporter`: exports after every evaluation.
    #[must_use]
    pub fn latest(name: impl Into<String>) -> Self {
        Self::new(name, When::Latest)
    }

    /// `BestExporter`: exports after an evaluation whose `loss` is the lowest, earlier runs included.
    #[must_use]
    pub fn best(name: impl Into<String>) -> Self {
        Self::new(name, When::Best { metric: "loss".to_owned(), higher: false })
    }

    phalanx_train::setters! {
        /// Defines the best evaluation as the one with the highest value of this metric.
        by_highest(metric: impl Into<String>) { when = When::Best { metric: metric.into(), higher: true } }
        /// Defines the best evaluation as the one with the lowest value of this metric.
        by_lowest(metric: impl Into<String>) { when = When::Best { metric: metric.into(), higher: false } }
        /// Sets the input of the exported model; serialized Examples by default.
        serving_input(input: ServingInput) { input = input }
        /// Sets how many of the newest exports are kept; 5 by default, 0 keeps all.
        exports_to_keep(count: usize) { keep = count }
    }

    /// Adds a file to `assets.extra/` of every export: TensorFlow's `assets_extra`.
    #[must_use]
    pub fn asset_extra(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.extra.push((name.into(), content.into()));
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_final_only(&self) -> bool {
        self.when == When::Final
    }

    /// Exports if an export is due. Returns the folder.
    pub(crate) fn export<M: Trainable>(
        &self,
        estimator: &Estimator<M>,
        spec: &EvalSpec,
        trained: &TrainedModel<M>,
        found: &Evaluation,
        is_final: bool,
    ) -> Result<Option<PathBuf>> {
        let base = estimator.dir.local_path("export").ok_or_else(|| {
            Error::new(Code::BadSetting, "exports need a run directory on a file system")
                .at(estimator.dir.location())
                .help("remove the exporters and export from a copy of the checkpoint")
        })?;
        let base = base.join(&self.name);
        let wanted = match &self.when {
            When::Final => is_final,
            When::Latest => true,
            When::Best { metric, higher } => self.is_best(estimator, spec, found, &base, metric, *higher)?,
        };
        if !wanted {
            return Ok(None);
        }
        let held = (spec.input_fn)(InputContext::default()).iter()?.next().transpose()?;
        let folder = estimator.export(trained, &base, self.input, held.as_ref(), &self.extra)?;
        self.clean(&base)?;
        Ok(Some(folder))
    }

    /// Returns whether an evaluation is better than all others, or the folder has no export yet.
    fn is_best<M: Trainable>(
        &self,
        estimator: &Estimator<M>,
        spec: &EvalSpec,
        found: &Evaluation,
        base: &Path,
        metric: &str,
        higher: bool,
    ) -> Result<bool> {
        let Some(value) = found.get(metric) else {
            let known: Vec<&str> = found.metrics.keys().map(String::as_str).collect();
            return Err(Error::new(Code::BadSetting, format!("evaluations have no metric {metric:?}"))
                .at(format!("exporter {:?}", self.name))
                .because(format!("they have {}", known.join(", "))));
        };
        if versions(base)?.is_empty() {
            return Ok(true);
        }
        // The event files of evaluations outlive this process.
        let others = scalars(&estimator.dir.child(&eval_folder(spec.name.as_deref()))?, metric)?;
        let better = |other: f64| if higher { value > other } else { value < other };
        Ok(others.iter().all(|(&step, &other)| step == found.global_step || better(other)))
    }

    fn clean(&self, base: &Path) -> Result<()> {
        let all = versions(base)?;
        let old = if self.keep == 0 { 0 } else { all.len().saturating_sub(self.keep) };
        for folder in &all[..old] {
            std::fs::remove_dir_all(folder)
                .context(Code::StorageWrite, format!("the old export {} cannot be deleted", folder.display()))?;
        }
        Ok(())
    }
}

/// Returns the exports in a folder, oldest first. Their names have ten digits.
fn versions(base: &Path) -> Result<Vec<PathBuf>> {
    let read = match std::fs::read_dir(base) {
        Ok(read) => read,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context(Code::StorageRead, format!("{} cannot be read", base.display())),
    };
    let is_version = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.len() == 10 && name.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut found: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).filter(is_version).collect();
    found.sort_unstable();
    Ok(found)
}
