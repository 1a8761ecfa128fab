//! The flags of a supervised training, under the names of `tf.train.Supervisor`'s arguments.

use super::Supervisor;
use crate::SyncReplicas;
use phalanx_base::Result;
use phalanx_cluster::AppFlags;

impl Supervisor {
    /// Defines `--model-dir` (or `--logdir`), `--save-model-secs`, `--save-model-steps`, `--max-to-keep`, `--save-summaries-secs`,
    /// `--sync` and `--replicas-to-aggregate`, and returns what applies their values to a supervisor.
    ///
    /// ```
    /// use phalanx_cluster::AppFlags;
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::{Server, Supervisor};
    /// let mut flags = AppFlags::new(["train", "--sync", "--replicas_to_aggregate=2"]);
    /// let configure = Supervisor::flags(&mut flags);
    /// flags.finish("Trains a model")?;
    /// let supervisor = configure(Supervisor::new(&Server::local()?, Sgd::new(0.1)))?;
    /// # drop(supervisor);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// Applying fails if the run directory is malformed, or this build cannot reach it.
    pub fn flags(flags: &mut AppFlags) -> impl FnOnce(Self) -> Result<Self> + Send + use<> {
        let model_dir: Option<String> = flags.optional(
            "model-dir",
            "Run directory for checkpoints and event files: a path, or an object store that is built in",
        );
        let logdir = flags.optional("logdir", "The same as --model-dir");
        let seconds: u64 = flags.value("save-model-secs", 600, "Seconds between two checkpoints");
        let steps = flags.optional("save-model-steps", "Steps between two checkpoints, in addition to the seconds");
        let kept = flags.value("max-to-keep", 5, "Newest checkpoints to keep");
        let summary_seconds: u64 = flags.value("save-summaries-secs", 120, "Seconds between two summaries");
        let sync = flags.switch("sync", "Train synchronously");
        let replicas_to_aggregate = flags
            .optional("replicas-to-aggregate", "With --sync: gradients per update [default: one from each worker]");
        move |mut supervisor| {
            if sync {
                supervisor = supervisor.sync(SyncReplicas { replicas_to_aggregate });
            }
            if let Some(steps) = steps {
                supervisor = supervisor.save_model_steps(steps);
            }
            supervisor = supervisor.save_model_secs(seconds).max_to_keep(kept).save_summaries_secs(summary_seconds);
            match model_dir.or(logdir) {
                Some(dir) => supervisor.logdir(&dir),
                None => Ok(supervisor),
            }
        }
    }
}
