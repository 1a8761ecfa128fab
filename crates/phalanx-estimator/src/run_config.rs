//! `tf.estimator.RunConfig`: the settings of a run.

use crate::{StrategyChoice, WarmStart};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_ps::{Partitioner, Placement};
use phalanx_storage::Dir;
use phalanx_train::checkpoint::Retention;
use phalanx_train::{
    ClusterResolver, Durability, NonFinite, ServerOptions, TfConfigClusterResolver, logging, open_run_dir,
};
use std::time::Duration;

/// How often checkpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointInterval {
    /// After 5 seconds, then less and less often, and every 600 seconds in the long run.
    Growing,
    Seconds(u64),
    Steps(u64),
    /// Only at the start and at the end.
    Ends,
}

/// The run directory, checkpoint settings, and the identity of this task, with TensorFlow's defaults; only the first
/// checkpoints are saved sooner.
///
/// ```
/// use phalanx_estimator::RunConfig;
/// let config = RunConfig::new().model_dir("runs/census").save_checkpoints_steps(1_000).keep_checkpoint_max(3);
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct RunConfig {
    pub(crate) task: TaskConfig,
    pub(crate) model_dir: Option<String>,
    pub(crate) seed: u64,
    pub(crate) save_summary_steps: u64,
    pub(crate) save_histograms: bool,
    pub(crate) checkpoint_interval: CheckpointInterval,
    pub(crate) retention: Retention,
    pub(crate) log_step_count_steps: Option<u64>,
    pub(crate) session_creation_timeout: Duration,
    pub(crate) warm_start: Option<WarmStart>,
    pub(crate) overlap: bool,
    pub(crate) non_finite: NonFinite,
    pub(crate) options: ServerOptions,
    pub(crate) train_distribute: Option<StrategyChoice>,
    pub(crate) eval_distribute: Option<StrategyChoice>,
    pub(crate) partitioner: Partitioner,
    pub(crate) placement: Placement,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            task: TaskConfig::local(),
            model_dir: None,
            seed: 0,
            save_summary_steps: 100,
            save_histograms: false,
            checkpoint_interval: CheckpointInterval::Growing,
            retention: Retention::default(),
            log_step_count_steps: Some(100),
            session_creation_timeout: Duration::from_secs(7200),
            warm_start: None,
            overlap: false,
            non_finite: NonFinite::default(),
            options: ServerOptions::default(),
            train_distribute: None,
            eval_distribute: None,
            partitioner: Partitioner::default(),
            placement: Placement::default(),
        }
    }
}

impl RunConfig {
    /// Creates the settings of a job in one process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the settings of the task that `TF_CONFIG` names, with the token from the environment. Ctrl-C and SIGTERM
    /// stop it gracefully.
    ///
    /// # Errors
    /// Fails if `TF_CONFIG` is not valid.
    pub fn from_env() -> Result<Self> {
        let task = TfConfigClusterResolver.resolve()?;
        logging::log_warnings(&task);
        Self::for_task(task)
    }

    /// Creates the settings of a task, such as the one that the command line names, otherwise as [`RunConfig::from_env`].
    ///
    /// ```no_run
    /// use phalanx_estimator::RunConfig;
    /// let (task, arguments) = phalanx_train::task_from_args_or_env()?;
    /// let config = RunConfig::for_task(task)?.model_dir("runs/census");
    /// # let _ = (config, arguments);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the token is malformed, or signals cannot be listened to.
    pub fn for_task(task: TaskConfig) -> Result<Self> {
        Ok(Self { task, options: ServerOptions::from_env()?, ..Self::default() })
    }

    /// Returns the cluster and the task of this process.
    #[must_use]
    pub fn task_config(&self) -> &TaskConfig {
        &self.task
    }

    phalanx_train::setters! {
        /// Sets the cluster and the task of this process.
        task(task: TaskConfig) { task = task }
        /// Sets the run directory for checkpoints, events, evaluations and exports. The default is a new temporary directory.
        model_dir(location: impl Into<String>) { model_dir = Some(location.into()) }
        /// Sets the seed of everything random. The same seed gives the same start.
        tf_random_seed(seed: u64) { seed = seed }
        /// Writes summaries every `steps` steps: loss, learning rate, norm of the gradients, staleness and rate. 0 turns it off.
        save_summary_steps(steps: u64) { save_summary_steps = steps }
        /// Sets whether the summaries have a histogram of every variable.
        save_histograms(histograms: bool) { save_histograms = histograms }
        /// Saves a checkpoint every `steps` steps, instead of by time.
        save_checkpoints_steps(steps: u64) {
            checkpoint_interval = if steps == 0 { CheckpointInterval::Ends } else { CheckpointInterval::Steps(steps) }
        }
        /// Saves a checkpoint every `seconds` seconds; `None` saves only at the start and at the end. By default, checkpoints
        /// are saved after 5 seconds, then less and less often, and every 600 seconds in the long run.
        save_checkpoints_secs(seconds: impl Into<Option<u64>>) {
            checkpoint_interval = seconds.into().map_or(CheckpointInterval::Ends, CheckpointInterval::Seconds)
        }
        /// Sets how many of the newest checkpoints are kept; 0 keeps all.
        keep_checkpoint_max(count: usize) { retention.max_to_keep = count }
        /// Also keeps one checkpoint every `hours` hours forever.
        keep_checkpoint_every_n_hours(hours: f64) { retention.keep_every_n_hours = hours }
        /// Logs loss and speed every `steps` steps; `None` turns it off.
        log_step_count_steps(steps: impl Into<Option<u64>>) {
            log_step_count_steps = steps.into().filter(|&steps| steps > 0)
        }
        /// Sets how long a worker waits for the chief to initialise the model. Also limits how long a task waits for the others
        /// to join, if shorter than the formation deadline of [`ServerOptions`] (ten minutes).
        session_creation_timeout_secs(seconds: u64) { session_creation_timeout = Duration::from_secs(seconds) }
        /// Starts from another training's weights if the run directory has no checkpoint.
        warm_start_from(from: WarmStart) { warm_start = Some(from) }
        /// With parameter servers: overlaps a worker's exchange with the computation of its next step, which then uses values
        /// without the worker's last update. The worker never waits for the servers.
        overlap(overlap: bool) { overlap = overlap }
        /// Sets the strategy of training: `default`, `one_device`, `mirrored:2`, `central_storage:2`, `multi_worker_mirrored`,
        /// `parameter_server:async`, `parameter_server:ssp:3` (no trainer is more than 3 steps ahead of the slowest), or
        /// `parameter_server:sync:1` (an update is the mean of the gradients of all trainers but 1). By default, a cluster with
        /// parameter servers trains asynchronously, and one of workers only is `multi_worker_mirrored`.
        ///
        /// A [`Strategy`](phalanx_train::Strategy) may be given instead of a name: TensorFlow's `train_distribute=strategy`. The
        /// training then uses the task that the strategy has started in this process, and ends it; the strategy and these
        /// settings must be made for the same task.
        ///
        /// ```
        /// use phalanx_cluster::TaskConfig;
        /// use phalanx_data::{Batch, Column, Dataset, SourceExt};
        /// use phalanx_estimator::{Estimator, LinearRegressor, RunConfig, TrainSteps};
        /// use phalanx_feature::numeric_column;
        /// use phalanx_train::{ParameterServerOptions, ServerOptions, Strategy};
        /// let settings = ParameterServerOptions::default();
        /// let strategy = Strategy::parameter_server(&TaskConfig::local(), &ServerOptions::default(), settings)?;
        /// let config = RunConfig::new().train_distribute(strategy).log_step_count_steps(None);
        /// let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), config)?;
        /// let rows = Batch::new([("x", Column::f32(vec![0.0, 1.0])), ("y", Column::f32(vec![1.0, 3.0]))])?.with_label("y")?;
        /// let data = Dataset::from_tensor_slices(rows).repeat().batch(2);
        /// assert_eq!(estimator.train(move |_| data.clone(), TrainSteps::Max(10))?.global_step, 10);
        /// # Ok::<(), phalanx_base::Error>(())
        /// ```
        ///
        /// The replicas of one process share each batch of the input; every task reads batches of its own.
        train_distribute(strategy: impl Into<StrategyChoice>) { train_distribute = Some(strategy.into()) }
        /// Sets the strategy of evaluations: `default`, or `mirrored:2` for replicas that share each batch.
        eval_distribute(strategy: impl Into<StrategyChoice>) { eval_distribute = Some(strategy.into()) }
        /// Sets how every variable is split over parameter servers.
        partitioner(partitioner: Partitioner) { partitioner = partitioner }
        /// Sets how variables and tables are placed on parameter servers, and which are [pinned](Placement::pin) to one.
        placement(placement: Placement) { placement = placement }
        /// Sets what happens to a step whose loss or gradients are not finite. The default ends the job.
        non_finite(policy: NonFinite) { non_finite = policy }
        /// Sets deadlines, token and logging of this task.
        server_options(options: ServerOptions) { options = options }
    }

    /// Sets what parameter servers promise about the updates that they have acknowledged. A durability that the environment
    /// names, as `phalanx launch --durability` makes it, comes before this one.
    ///
    /// ```
    /// use phalanx_estimator::RunConfig;
    /// use phalanx_train::Durability;
    /// let config = RunConfig::new().durability(Durability::Checkpoint);
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability.get_or_insert(durability);
        self
    }

    /// Returns the server options: no task waits longer for the others than for the model.
    pub(crate) fn patience(&self) -> ServerOptions {
        let formation_deadline = self.options.formation_deadline.min(self.session_creation_timeout);
        ServerOptions { formation_deadline, ..self.options.clone() }
    }

    /// Opens the run directory.
    pub(crate) fn dir(&self) -> Result<Dir> {
        let location = match (&self.model_dir, self.task.model_dir()) {
            (Some(own), Some(given)) if !same_dir(own, given) => {
                return Err(Error::new(Code::ConfigModelDir, "there are two run directories")
                    .because(format!("TF_CONFIG has {given:?}, the program {own:?}"))
                    .help("set it once, or the same in both"));
            }
            (Some(own), _) => own.clone(),
            (None, Some(given)) => given.to_owned(),
            (None, None) if self.task.output_dir().is_some() => self.task.output_dir().unwrap_or_default().to_owned(),
            (None, None) if self.task.is_local() => {
                let made = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?.keep();
                let made = made.to_string_lossy().into_owned();
                logging::init();
                tracing::info!("no model_dir was given: this run is kept in {made}");
                made
            }
            (None, None) => {
                return Err(Error::new(Code::ConfigModelDir, "a job of several tasks needs a model_dir")
                    .because("its tasks share checkpoints, evaluations and exports there")
                    .help("set one that all tasks see, such as RunConfig::from_env()?.model_dir(\"runs/census\")"));
            }
        };
        open_run_dir(&location)
    }
}

/// Whether two texts name the same directory: one may be relative to the working directory of this process.
fn same_dir(one: &str, other: &str) -> bool {
    let absolute = |dir: &str| std::path::absolute(dir).ok();
    one == other || absolute(one).is_some_and(|one| Some(one) == absolute(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(program: Option<&str>, tf_config: Option<&str>, offered: Option<&str>) -> Result<String> {
        let text = tf_config.map_or_else(|| "{}".to_owned(), |dir| format!(r#"{{"model_dir": "{dir}"}}"#));
        let task = TaskConfig::from_tf_config(Some(&text))?.with_output_dir(offered.map(str::to_owned));
        let mut config = RunConfig::new().task(task);
        config.model_dir = program.map(str::to_owned);
        Ok(config.dir()?.location())
    }

    #[test]
    fn the_run_directory_comes_from_the_program_tf_config_or_the_launcher() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (a, b) = (path("a"), path("b"));
        assert_eq!(with(Some(&a), None, Some(&b)).unwrap(), a);
        assert_eq!(with(None, Some(&a), Some(&b)).unwrap(), a);
        assert_eq!(with(None, None, Some(&b)).unwrap(), b);
        assert_eq!(with(Some(&a), Some(&b), None).unwrap_err().code(), Code::ConfigModelDir);
        // The same directory in two spellings.
        let here = std::env::current_dir().unwrap().join("runs/x").display().to_string();
        assert!(same_dir("runs/x", &here) && same_dir("runs/x", "runs/x") && !same_dir("runs/x", "runs/y"));
    }
}
