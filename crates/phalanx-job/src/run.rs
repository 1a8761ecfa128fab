//! Training a job, as the task that `TF_CONFIG` names.

use crate::Job;
use crate::job::Resume;
use crate::source::At;
use phalanx_base::{Code, Context, Error, Result, Role, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_estimator::{
    Canned, EarlyStopping, Estimator, EvalSpec, Report, RunConfig, TrainSpec, WarmStart, train_and_evaluate,
};
use phalanx_nn::with_threads;
use phalanx_storage::Dir;
use phalanx_train::{Server, ServerOptions};
use std::sync::Arc;

/// What a task did.
#[derive(Clone, Debug)]
pub struct Done {
    /// What it trained and evaluated.
    pub report: Report,
    /// Steps of all trainers in a second, for the chief and a process that is alone; else those of this task.
    pub steps_per_s: Option<f64>,
    /// The run directory.
    pub model_dir: String,
}

impl Job {
    /// Trains and evaluates as the task that `TF_CONFIG` names, or all in this process; the same in every role.
    /// `say` is told what happens.
    ///
    /// # Errors
    /// When the job, its data or the cluster is wrong; what the file brought about is pointed at.
    pub fn train(&self, say: impl Fn(&str) + Send + Sync + Clone + 'static) -> Result<Done> {
        let config = RunConfig::from_env()?.say(say.clone());
        with_threads(self.threads, || self.train_with(config, &say))?.map_err(|error| self.explain(error))
    }

    fn train_with(&self, config: RunConfig, say: &(dyn Fn(&str) + Sync)) -> Result<Done> {
        let task = config.task_config().clone();
        let role = task.task().map(|task| task.role);
        if role == Some(Role::Ps) {
            // It holds what it is given, and needs neither data nor model.
            let (train, eval) = (self.train_spec(None)?, self.eval_spec(false)?);
            let report = train_and_evaluate(&self.model, train, eval, config)?;
            return Ok(Done { report, steps_per_s: None, model_dir: String::new() });
        }
        let is_chief = task.is_local() || task.is_chief();
        let ready = || {
            let location = self.location(&config, say)?;
            let config = self.configure(config.clone(), &location);
            self.check()?;
            let first = if is_chief { self.begin(&config, &location, say)? } else { 0 };
            Ok((location, config, first))
        };
        let (location, config, first) = ready().inspect_err(|error| tell_others(&task, error))?;
        let train = self.train_spec(is_chief.then_some(location.as_str()))?;
        let mut report = train_and_evaluate(&self.model, train, self.eval_spec(true)?, config.clone())?;
        let evaluates = role.is_none() || task.tasks().len() == 1 || task.cluster().has_job("master") && is_chief;
        if evaluates && report.evaluation.is_none() {
            // Nothing was trained: what is there is evaluated all the same.
            report.evaluation = Some(self.evaluate_newest(&Estimator::new(&self.model, config)?, None)?);
        }
        let rate = |training: phalanx_estimator::Training| {
            let steps = if is_chief { training.global_step.saturating_sub(first) } else { training.steps };
            (training.seconds > 0.0).then(|| steps as f64 / training.seconds)
        };
        let steps_per_s = report.training.and_then(rate);
        Ok(Done { report, steps_per_s, model_dir: location })
    }

    /// The run directory: the command line's, the file's, `TF_CONFIG`'s, or a new one.
    fn location(&self, config: &RunConfig, say: &(dyn Fn(&str) + Sync)) -> Result<String> {
        if let Some(dir) = &self.model_dir {
            return Ok(dir.value.clone());
        }
        let task = config.task_config();
        if let Some(given) = task.model_dir() {
            return Ok(given.to_owned());
        }
        if !task.is_local() {
            return Err(Error::new(Code::ConfigModelDir, "a job of several tasks needs a model_dir")
                .because("its tasks meet there: checkpoints, evaluations, exports")
                .help("add model_dir = \"runs/…\" at the top of the file, or give --model-dir"));
        }
        let made = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?.keep();
        let made = made.to_string_lossy().into_owned();
        say(&format!("no model_dir was given: this run is kept in {made}"));
        Ok(made)
    }

    pub(crate) fn configure(&self, config: RunConfig, location: &str) -> RunConfig {
        let config = self.train.configure(config).tf_random_seed(self.seed).model_dir(location);
        let Some(warm) = &self.warm else { return config };
        let mut start = WarmStart::new(self.paths.beside_file(&warm.from.value));
        if !warm.only.is_empty() {
            let only = warm.only.clone();
            start = start.only(move |name| only.iter().any(|prefix| name.starts_with(prefix)));
        }
        for (ours, theirs) in &warm.rename {
            start = start.rename(ours, theirs);
        }
        config.warm_start_from(start)
    }

    /// Sees to what `resume` says, and puts a copy of the job into the run directory. Answers the step that is gone on
    /// from.
    fn begin(&self, config: &RunConfig, location: &str, say: &(dyn Fn(&str) + Sync)) -> Result<u64> {
        let dir = Dir::open(location)?;
        let newest = newest(&dir).map_err(|error| self.unusable(location, error))?;
        self.check_resume(newest.as_deref(), location)?;
        self.keep(&dir).map_err(|error| self.unusable(location, error))?;
        let newest = match &self.resume.value {
            Resume::From(path) => self.start_from(config, path, location, say)?,
            _ => newest,
        };
        match &newest {
            Some(name) => say(&format!("going on from {name} of {location}")),
            None => say(&format!("starting a new run in {location}")),
        }
        Ok(newest.and_then(|name| name.rsplit_once('-')?.1.parse().ok()).unwrap_or(0))
    }

    /// A run directory that cannot be read or written at the start is a mistake in the job, not bad luck.
    pub(crate) fn unusable(&self, location: &str, why: impl std::fmt::Display) -> Error {
        let span = self.model_dir.as_ref().and_then(|dir| dir.span.clone());
        let error = Error::new(Code::StorageLocation, format!("the model_dir {location} cannot be used")).because(why);
        let help = "give a model_dir that this user may write to, here or with --model-dir";
        self.source.point_with(error, span.as_ref(), "the run directory", help)
    }

    /// Whether a run directory is as `resume` wants it.
    pub(crate) fn check_resume(&self, newest: Option<&str>, location: &str) -> Result<()> {
        let At { value, span } = &self.resume;
        let wrong = |what: String, label: &str, help: &str| {
            let error = Error::new(Code::JobResume, what).help(help);
            Err(self.source.point(error, span.as_ref(), label))
        };
        match (value, newest) {
            (Resume::Never, Some(name)) => wrong(
                format!("{location} has the checkpoint {name} already"),
                "never goes on",
                "choose another model_dir, remove this one, or set resume = \"auto\"",
            ),
            (Resume::Must, None) => wrong(
                format!("{location} has no checkpoint to go on from"),
                "must go on",
                "correct model_dir (or --model-dir), or set resume = \"auto\" to start a new run",
            ),
            _ => Ok(()),
        }
    }

    fn start_from(
        &self,
        config: &RunConfig,
        path: &str,
        location: &str,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Option<String>> {
        let estimator = Estimator::new(&self.model, config.clone())?;
        match estimator.start_from(path)? {
            Some(from) => say(&format!("starting from {from}")),
            None => {
                let error = Error::new(Code::JobResume, format!("{location} has a checkpoint of its own"))
                    .because(format!("resume = {path:?} starts a new run from there"))
                    .help("choose another model_dir, or set resume = \"auto\"");
                return Err(self.source.point(error, self.resume.span.as_ref(), "starts anew from there"));
            }
        }
        estimator.latest_checkpoint()
    }

    fn train_spec(&self, location: Option<&str>) -> Result<TrainSpec> {
        let inputs = self.inputs.clone();
        let mut train = TrainSpec::new(move |cx| inputs.training(cx));
        if let Some(steps) = self.max_steps {
            train = train.max_steps(steps);
        }
        // The chief ends the job for everybody.
        let (Some(stopping), Some(location)) = (&self.stopping, location) else { return Ok(train) };
        let make = if stopping.higher { EarlyStopping::no_increase } else { EarlyStopping::no_decrease };
        let mut hook = make(location, &stopping.metric.value, stopping.patience)?.run_every_secs(stopping.every_secs);
        if let Some(name) = &self.eval.name {
            hook = hook.evaluations(location, name)?;
        }
        Ok(train.hook(hook))
    }

    fn eval_spec(&self, exports: bool) -> Result<EvalSpec> {
        let inputs = self.inputs.clone();
        let mut eval =
            EvalSpec::new(move |_| inputs.evaluation()).steps(self.eval.steps).every_steps(self.eval.every_steps);
        if let Some(seconds) = self.eval.start_delay_secs {
            eval = eval.start_delay_secs(seconds);
        }
        if let Some(seconds) = self.eval.throttle_secs {
            eval = eval.throttle_secs(seconds);
        }
        if let Some(name) = &self.eval.name {
            eval = eval.name(name.clone());
        }
        if !exports || self.exports.is_empty() {
            return Ok(eval);
        }
        let assets = self.assets_extra()?;
        for export in &self.exports {
            let exporter = export.exporter();
            let with = |exporter: phalanx_estimator::Exporter, (name, content): &(String, Vec<u8>)| {
                exporter.asset_extra(name.clone(), content.clone())
            };
            eval = eval.exporter(assets.iter().fold(exporter, with));
        }
        Ok(eval)
    }

    /// Evaluates the newest checkpoint, on the job's files or on others.
    pub(crate) fn evaluate_newest(
        &self,
        estimator: &Estimator<Canned>,
        files: Option<Vec<String>>,
    ) -> Result<phalanx_estimator::Evaluation> {
        let files = files.unwrap_or_else(|| self.inputs.eval_files());
        let input = |_| self.inputs.evaluation_of(files.clone());
        match &self.eval.name {
            Some(name) => estimator.evaluate_named(name, input, self.eval.steps),
            None => estimator.evaluate(input, self.eval.steps),
        }
    }
}

/// A trainer that fails before it has joined the job joins it to say so: servers, which need no data and find nothing
/// wrong, would wait for it until the job's formation is given up.
fn tell_others(task: &TaskConfig, error: &Error) {
    let trains = |task: TaskId| matches!(task.role, Role::Chief | Role::Worker);
    if !task.task().is_some_and(trains) || task.tasks().len() == 1 {
        return;
    }
    let quiet = |options| ServerOptions { say: Arc::new(|_| {}), ..options };
    if let Ok(server) =
        ServerOptions::from_env().map(quiet).and_then(|options| Server::start_with(task.clone(), options))
    {
        server.leave(Some(&with_place(error)));
    }
}

/// An error as others hear it, who see its words but not the file that it points into.
fn with_place(error: &Error) -> Error {
    match (error.pointed_at(), error.place()) {
        (Some(place), None) => error.clone().at(place),
        _ => error.clone(),
    }
}

/// The newest checkpoint of a directory, which is not made where it is not there.
pub(crate) fn newest(dir: &Dir) -> Result<Option<String>> {
    use phalanx_train::checkpoint::{Catalog, Retention};
    if dir.size("checkpoint")?.is_none() {
        return Ok(None);
    }
    Ok(Catalog::open(dir, "model.ckpt", Retention::default())?.newest_first().into_iter().next())
}
