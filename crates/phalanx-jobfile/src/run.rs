//! Training as the task that `TF_CONFIG` names.

use crate::Job;
use crate::input::RowKind;
use crate::job::Resume;
use crate::settings::Eval;
use crate::source::Spanned;
use phalanx_base::{Code, Context, Error, Result, Role, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_estimator::{
    Canned, EarlyStopping, Estimator, EvalSpec, Report, RunConfig, TrainSpec, WarmStart, train_and_evaluate,
};
use phalanx_nn::with_threads;
use phalanx_storage::Dir;
use phalanx_train::checkpoint::refuse_if_in_use;
use phalanx_train::{Server, ServerOptions, logging};

/// The outcome of a task.
#[derive(Clone, Debug)]
pub struct Done {
    /// The results of training and evaluation.
    pub report: Report,
    /// Steps per second: of all trainers for the chief and for a single-process job, otherwise of this task.
    pub steps_per_s: Option<f64>,
    /// The run directory.
    pub model_dir: String,
}

impl Job {
    /// Trains and evaluates as the task that `TF_CONFIG` names, or in this process alone without it.
    ///
    /// # Errors
    /// If the job, its data or the cluster is not valid. Errors that the file causes point at their cause.
    pub fn train(&self) -> Result<Done> {
        self.train_as(RunConfig::from_env()?)
    }

    /// As [`Self::train`], as the task and with the options of `config`: the file has its other settings. For programs that handle
    /// signals themselves.
    ///
    /// # Errors
    /// As [`Self::train`].
    pub fn train_as(&self, config: RunConfig) -> Result<Done> {
        let done = with_threads(self.threads, || self.train_with(config));
        self.log_skipped();
        done.map_err(|error| {
            let files = [self.inputs.train_files(), self.inputs.eval_files()];
            self.explain(self.locate(error, &files, RowKind::Labelled))
        })
    }

    fn train_with(&self, config: RunConfig) -> Result<Done> {
        let task = config.task_config().clone();
        let role = task.task().map(|task| task.role);
        if role == Some(Role::Ps) {
            // A parameter server needs neither data nor model.
            let (train, eval) = (self.train_spec(None)?, self.eval_specs(false)?);
            let config = self.train.configure_server(config);
            let report = train_and_evaluate(&self.model, train, eval, config)?;
            return Ok(Done { report, steps_per_s: None, model_dir: String::new() });
        }
        let is_chief = task.is_local() || task.is_chief();
        let ready = || {
            let location = self.location(&config)?;
            let config = self.configure(config.clone(), &location);
            self.trial()?.check()?;
            let has_checkpoint = newest(&Dir::open(&location)?).map_err(|error| self.unusable(&location, error))?;
            if is_chief {
                self.check_resume(has_checkpoint.as_deref(), &location)?;
            }
            let job = self.with_statistics(&location, has_checkpoint.is_some(), is_chief)?;
            let model = job.check_model()?;
            let mut first = 0;
            if is_chief {
                first = job.begin(&config, &location)?;
                log_summary(&model, &task)?;
            }
            Ok((job, location, config, first))
        };
        let (job, location, config, first) = ready().inspect_err(|error| report_failure(&task, error))?;
        job.train_as_task(&task, is_chief, location, config, first)
    }

    /// Trains and evaluates with columns that have all they need.
    fn train_as_task(
        &self,
        task: &TaskConfig,
        is_chief: bool,
        location: String,
        config: RunConfig,
        first: u64,
    ) -> Result<Done> {
        let role = task.task().map(|task| task.role);
        let train = self.train_spec(is_chief.then_some(location.as_str()))?;
        let eval = self.eval_specs(true)?;
        let work = || train_and_evaluate(&self.model, train, eval, config.clone());
        let mut report = if is_chief { self.counting_first_rows(&location, work)? } else { work()? };
        let evaluates = role.is_none() || task.tasks().len() == 1 || task.cluster().has_job("master") && is_chief;
        if evaluates && report.evaluation.is_none() {
            // Nothing was left to train: evaluate the existing checkpoint.
            report.evaluation = Some(self.evaluate_newest(&Estimator::new(&self.model, config)?, None)?);
        }
        let rate = |training: phalanx_estimator::Training| {
            let steps = if is_chief { training.global_step.saturating_sub(first) } else { training.steps };
            (training.seconds > 0.0).then(|| steps as f64 / training.seconds)
        };
        let steps_per_s = report.training.and_then(rate);
        Ok(Done { report, steps_per_s, model_dir: location })
    }

    /// The run directory: from the command line, the file, `TF_CONFIG`, the launcher, or a new temporary one.
    fn location(&self, config: &RunConfig) -> Result<String> {
        if let Some(dir) = &self.model_dir {
            return Ok(dir.value.clone());
        }
        let task = config.task_config();
        if let Some(given) = task.model_dir().or(task.output_dir()) {
            return Ok(given.to_owned());
        }
        if !task.is_local() {
            return Err(Error::new(Code::ConfigModelDir, "a job of several tasks needs a model_dir")
                .because("its tasks share checkpoints, evaluations and exports there")
                .help("add model_dir = \"runs/…\" at the top of the file, or give --model-dir"));
        }
        let made = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?.keep();
        let made = made.to_string_lossy().into_owned();
        tracing::info!("no model_dir was given: using {made}");
        Ok(made)
    }

    pub(crate) fn configure(&self, config: RunConfig, location: &str) -> RunConfig {
        let config = self.train.configure(config).tf_random_seed(self.seed).model_dir(location);
        let Some(warm) = &self.warm else { return config };
        let mut start = WarmStart::new(self.paths.beside_file(&warm.from.value));
        start = start.only_prefixes(warm.only.clone());
        for (ours, theirs) in &warm.rename {
            start = start.rename(ours, theirs);
        }
        config.warm_start_from(start)
    }

    /// Applies `resume`, writes a copy of the job into the run directory, and returns the step to resume from.
    fn begin(&self, config: &RunConfig, location: &str) -> Result<u64> {
        let dir = Dir::open(location)?;
        let newest = newest(&dir).map_err(|error| self.unusable(location, error))?;
        self.check_resume(newest.as_deref(), location)?;
        refuse_if_in_use(&dir, &config.task_config().job_id())?;
        let newest = match &self.resume.value {
            Resume::From(path) => self.start_from(config, path, location)?,
            _ => newest,
        };
        // Last: a job that is refused leaves the directory as it was.
        self.write_copy(&dir).map_err(|error| self.unusable(location, error))?;
        match &newest {
            Some(name) => tracing::info!(checkpoint = name, "resuming from {name} of {location}"),
            None => tracing::info!("starting a new run in {location}"),
        }
        Ok(newest.and_then(|name| name.rsplit_once('-')?.1.parse().ok()).unwrap_or(0))
    }

    /// An error about a run directory that cannot be read or written: a mistake in the job, so not worth a retry.
    pub(crate) fn unusable(&self, location: &str, why: impl std::fmt::Display) -> Error {
        let span = self.model_dir.as_ref().and_then(|dir| dir.span.clone());
        let error = Error::new(Code::StorageLocation, format!("the model_dir {location} cannot be used")).because(why);
        let help = "give a model_dir that this user may write to, here or with --model-dir";
        self.source.point_with(error, span.as_ref(), "the run directory", help)
    }

    /// Checks a run directory against `resume`.
    pub(crate) fn check_resume(&self, newest: Option<&str>, location: &str) -> Result<()> {
        let Spanned { value, span } = &self.resume;
        let wrong = |what: String, label: &str, help: &str| {
            let error = Error::new(Code::JobResume, what).help(help);
            Err(self.source.point(error, span.as_ref(), label))
        };
        match (value, newest) {
            (Resume::Never, Some(name)) => wrong(
                format!("{location} already has the checkpoint {name}"),
                "never resumes",
                "choose another model_dir, remove this one, or set resume = \"auto\"",
            ),
            (Resume::Must, None) => wrong(
                format!("{location} has no checkpoint to resume from"),
                "must resume",
                "correct model_dir (or --model-dir), or set resume = \"auto\" to start a new run",
            ),
            _ => Ok(()),
        }
    }

    fn start_from(&self, config: &RunConfig, path: &str, location: &str) -> Result<Option<String>> {
        let estimator = Estimator::new(&self.model, config.clone())?;
        match estimator.start_from(path)? {
            Some(from) => tracing::info!("starting from {from}"),
            None => {
                let error = Error::new(Code::JobResume, format!("{location} already has a checkpoint"))
                    .because(format!("resume = {path:?} starts a new run from there"))
                    .help("choose another model_dir, or set resume = \"auto\"");
                return Err(self.source.point(error, self.resume.span.as_ref(), "starts a new run"));
            }
        }
        estimator.latest_checkpoint()
    }

    fn train_spec(&self, location: Option<&str>) -> Result<TrainSpec> {
        let inputs = self.inputs.clone();
        let train = set!(TrainSpec::new(move |cx| inputs.training(cx)), max_steps: self.max_steps);
        // Only the chief stops early, and it ends the job for all tasks.
        let (Some(stopping), Some(location)) = (&self.stopping, location) else { return Ok(train) };
        let make = if stopping.higher { EarlyStopping::no_increase } else { EarlyStopping::no_decrease };
        let mut hook = make(location, &stopping.metric.value, stopping.patience)?.run_every_secs(stopping.every_secs);
        if let Some(name) = &self.eval.name {
            hook = hook.evaluations(location, name)?;
        }
        Ok(train.hook(hook))
    }

    fn eval_spec(&self, eval: &Eval) -> EvalSpec {
        let (inputs, own) = (self.inputs.clone(), eval.clone());
        set!(
            EvalSpec::new(move |_| inputs.evaluation(&own)).steps(eval.steps).every_steps(eval.every_steps),
            start_delay_secs: eval.start_delay_secs,
            throttle_secs: eval.throttle_secs,
            name: eval.name.clone(),
        )
    }

    /// The evaluations of the job. The first one exports.
    fn eval_specs(&self, exports: bool) -> Result<Vec<EvalSpec>> {
        let mut all = vec![self.first_eval_spec(exports)?];
        all.extend(self.more_evals.iter().map(|eval| self.eval_spec(eval)));
        Ok(all)
    }

    fn first_eval_spec(&self, exports: bool) -> Result<EvalSpec> {
        let mut eval = self.eval_spec(&self.eval);
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

    /// Evaluates the newest checkpoint on `files`, or on the job's own files.
    pub(crate) fn evaluate_newest(
        &self,
        estimator: &Estimator<Canned>,
        files: Option<Vec<String>>,
    ) -> Result<phalanx_estimator::Evaluation> {
        let input = |_| self.inputs.evaluation_of(files.clone());
        match &self.eval.name {
            Some(name) => estimator.evaluate_named(name, input, self.eval.steps),
            None => estimator.evaluate(input, self.eval.steps),
        }
    }
}

/// The number of parameter servers of a job; 0 in a single process.
pub(crate) fn servers(task: &TaskConfig) -> usize {
    task.tasks().iter().filter(|(task, _)| task.role == Role::Ps).count()
}

/// Logs the columns, variables and servers of the model.
fn log_summary(model: &Canned, task: &TaskConfig) -> Result<()> {
    model.summary(servers(task))?.to_string().lines().for_each(|line| tracing::info!("{line}"));
    Ok(())
}

/// Joins the job only to report a failure. Parameter servers, which read no data and detect no error, would otherwise wait
/// for this trainer until the formation of the job times out.
fn report_failure(task: &TaskConfig, error: &Error) {
    let trains = |task: TaskId| matches!(task.role, Role::Chief | Role::Worker);
    // Workers without parameter servers have no roster to report to.
    if !task.task().is_some_and(trains) || task.tasks().len() == 1 || task.ps_addresses().is_empty() {
        return;
    }
    let start = || ServerOptions::from_env().and_then(|options| Server::start_with(task.clone(), options));
    if let Ok(server) = logging::silence(start) {
        server.leave(Some(&with_place(error)));
    }
}

/// The error with its position in words, for tasks that receive its text but not its snippet.
fn with_place(error: &Error) -> Error {
    match (error.pointed_at(), error.place()) {
        (Some(place), None) => error.clone().at(place),
        _ => error.clone(),
    }
}

/// The newest checkpoint of a directory. A missing directory is not created.
pub(crate) fn newest(dir: &Dir) -> Result<Option<String>> {
    use phalanx_train::checkpoint::{BASENAME, CheckpointStore, Retention};
    if dir.size("checkpoint")?.is_none() {
        return Ok(None);
    }
    Ok(CheckpointStore::open(dir, BASENAME, Retention::default())?.newest_first().into_iter().next())
}
