//! How a job is run: `tf.estimator.RunConfig`.

use crate::WarmStart;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_storage::Dir;
use phalanx_train::{ClusterResolver, Say, ServerOptions, TfConfigClusterResolver};
use std::sync::Arc;
use std::time::Duration;

/// When checkpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cadence {
    Seconds(u64),
    Steps(u64),
    /// Only at the start and at the end.
    Ends,
}

/// Where a job keeps itself, how often, and which task this process is; the defaults are TensorFlow's.
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
    pub(crate) cadence: Cadence,
    pub(crate) keep_checkpoint_max: usize,
    pub(crate) keep_checkpoint_every_n_hours: f64,
    pub(crate) log_step_count_steps: Option<u64>,
    pub(crate) session_creation_timeout: Duration,
    pub(crate) warm_start: Option<WarmStart>,
    pub(crate) overlap: bool,
    pub(crate) options: ServerOptions,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            task: TaskConfig::local(),
            model_dir: None,
            seed: 0,
            save_summary_steps: 100,
            cadence: Cadence::Seconds(600),
            keep_checkpoint_max: 5,
            keep_checkpoint_every_n_hours: 10_000.0,
            log_step_count_steps: Some(100),
            session_creation_timeout: Duration::from_secs(7200),
            warm_start: None,
            overlap: false,
            options: ServerOptions::default(),
        }
    }
}

impl RunConfig {
    /// One process that does everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The task that `TF_CONFIG` names, with the token of the environment; Ctrl-C and SIGTERM end it in good order.
    ///
    /// # Errors
    /// When the variable's text is not a valid `TF_CONFIG`.
    pub fn from_env() -> Result<Self> {
        let task = TfConfigClusterResolver.resolve()?;
        let options = ServerOptions::from_env()?;
        task.warnings().iter().for_each(|warning| (options.say)(&warning.report()));
        Ok(Self { task, options, ..Self::default() })
    }

    /// Which task this process is, and of which cluster.
    #[must_use]
    pub fn task_config(&self) -> &TaskConfig {
        &self.task
    }

    /// The task of a cluster that was put together by hand.
    #[must_use]
    pub fn task(mut self, task: TaskConfig) -> Self {
        self.task = task;
        self
    }

    /// The run directory: checkpoints, events, evaluations and exports. Without one, a new directory for temporary files.
    #[must_use]
    pub fn model_dir(mut self, location: impl Into<String>) -> Self {
        self.model_dir = Some(location.into());
        self
    }

    /// Where everything random begins. The same number gives the same start.
    #[must_use]
    pub fn tf_random_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The loss is written every so many steps; 0 turns it off.
    #[must_use]
    pub fn save_summary_steps(mut self, steps: u64) -> Self {
        self.save_summary_steps = steps;
        self
    }

    /// Saves every so many steps, instead of every 600 seconds.
    #[must_use]
    pub fn save_checkpoints_steps(mut self, steps: u64) -> Self {
        self.cadence = if steps == 0 { Cadence::Ends } else { Cadence::Steps(steps) };
        self
    }

    /// Saves every so many seconds; `None` saves at the start and at the end only.
    #[must_use]
    pub fn save_checkpoints_secs(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.cadence = seconds.into().map_or(Cadence::Ends, Cadence::Seconds);
        self
    }

    /// How many of the newest checkpoints stay; 0 keeps all.
    #[must_use]
    pub fn keep_checkpoint_max(mut self, count: usize) -> Self {
        self.keep_checkpoint_max = count;
        self
    }

    /// One checkpoint in so many hours stays for good.
    #[must_use]
    pub fn keep_checkpoint_every_n_hours(mut self, hours: f64) -> Self {
        self.keep_checkpoint_every_n_hours = hours;
        self
    }

    /// Loss and rate are said every so many steps; `None` says nothing.
    #[must_use]
    pub fn log_step_count_steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.log_step_count_steps = steps.into().filter(|&steps| steps > 0);
        self
    }

    /// How long a worker waits for the chief to initialise the model; and any task for the others to come, where that is
    /// shorter than the deadline in [`ServerOptions`] (ten minutes).
    #[must_use]
    pub fn session_creation_timeout_secs(mut self, seconds: u64) -> Self {
        self.session_creation_timeout = Duration::from_secs(seconds);
        self
    }

    /// Starts from what another training learned, where the run directory has no checkpoint yet.
    #[must_use]
    pub fn warm_start_from(mut self, from: WarmStart) -> Self {
        self.warm_start = Some(from);
        self
    }

    /// Under parameter servers: a worker's exchange with them goes on while its next step is computed, on values that lack
    /// its own last update. A worker then never waits for servers.
    #[must_use]
    pub fn overlap(mut self, overlap: bool) -> Self {
        self.overlap = overlap;
        self
    }

    /// How patient this task is, and whom it tells.
    #[must_use]
    pub fn server_options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    /// Where remarks go; to the standard error, unless said otherwise.
    #[must_use]
    pub fn say(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let say: Say = Arc::new(say);
        self.options.say = say;
        self
    }

    /// How patient this task is: nobody waits longer for the others than for the model.
    pub(crate) fn patience(&self) -> ServerOptions {
        let formation_deadline = self.options.formation_deadline.min(self.session_creation_timeout);
        ServerOptions { formation_deadline, ..self.options.clone() }
    }

    /// The run directory, open.
    pub(crate) fn dir(&self) -> Result<Dir> {
        let location = match (&self.model_dir, self.task.model_dir()) {
            (Some(own), Some(given)) if own != given => {
                return Err(Error::new(Code::ConfigModelDir, "there are two run directories")
                    .because(format!("TF_CONFIG says {given:?}, the program {own:?}"))
                    .help("give it in one place, or the same in both"));
            }
            (Some(own), _) => own.clone(),
            (None, Some(given)) => given.to_owned(),
            (None, None) if self.task.is_local() => {
                let made = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?.keep();
                let made = made.to_string_lossy().into_owned();
                (self.options.say)(&format!("no model_dir was given: this run is kept in {made}"));
                made
            }
            (None, None) => {
                return Err(Error::new(Code::ConfigModelDir, "a job of several tasks needs a model_dir")
                    .because("its tasks meet there: checkpoints, evaluations, exports")
                    .help("give one that all tasks see, such as RunConfig::from_env()?.model_dir(\"runs/census\")"));
            }
        };
        if location.contains("://") {
            return Dir::open(&location);
        }
        let absolute = std::path::absolute(&location).unwrap_or_else(|_| location.into());
        Dir::open(&absolute.to_string_lossy())
    }
}
