//! The command line.

use phalanx::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// Trains softmax regression on MNIST with parameter servers.
#[derive(clap::Parser)]
#[command(version, about, after_help = Flags::HELP)]
pub(crate) struct Args {
    /// Folder with MNIST's four IDX files, gzip or plain
    #[arg(long)]
    pub(crate) data_dir: PathBuf,
    /// Run directory for checkpoints and event files: a path, or an object store that is built in
    #[arg(long = "model-dir", alias = "model_dir", alias = "logdir")]
    model_dir: Option<String>,
    /// Seconds between two checkpoints
    #[arg(long, alias = "save_model_secs", default_value_t = 600)]
    save_model_secs: u64,
    /// Steps between two checkpoints, in addition to the seconds
    #[arg(long)]
    save_model_steps: Option<u64>,
    /// Newest checkpoints to keep
    #[arg(long, default_value_t = 5)]
    max_to_keep: usize,
    /// Seconds between two summaries
    #[arg(long, alias = "save_summaries_secs", default_value_t = 120)]
    save_summaries_secs: u64,
    /// Train synchronously
    #[arg(long)]
    pub(crate) sync: bool,
    /// With --sync: gradients per update [default: one from each worker]
    #[arg(long)]
    replicas_to_aggregate: Option<u32>,
    /// sgd, momentum, adagrad, rmsprop, adam, adamw or ftrl
    #[arg(long, default_value = "sgd")]
    optimizer: String,
    #[arg(long, default_value_t = 0.5)]
    learning_rate: f32,
    /// Batch size of one worker
    #[arg(long, default_value_t = 100)]
    pub(crate) batch_size: usize,
    /// Steps of all workers
    #[arg(long, default_value_t = 2000)]
    pub(crate) max_steps: u64,
    /// Compute threads
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Seconds to wait for the job to form
    #[arg(long, default_value_t = 600)]
    formation_deadline: u64,
    /// With --model-dir: seconds to wait for a lost parameter server
    #[arg(long, default_value_t = 120)]
    server_grace: u64,
}

impl Args {
    pub(crate) fn server_options(&self) -> phalanx::Result<ServerOptions> {
        let mut options = ServerOptions::from_env()?;
        options.formation_deadline = Duration::from_secs(self.formation_deadline);
        options.server_grace = Duration::from_secs(self.server_grace);
        Ok(options)
    }

    pub(crate) fn optimizer(&self) -> phalanx::Result<Optimizer> {
        Optimizer::parse(&self.optimizer, self.learning_rate)
    }

    /// Sets consistency, run directory and checkpoint options.
    pub(crate) fn configure(&self, mut supervisor: Supervisor) -> phalanx::Result<Supervisor> {
        if self.sync {
            supervisor = supervisor.sync(SyncReplicas { replicas_to_aggregate: self.replicas_to_aggregate });
        }
        let Some(model_dir) = &self.model_dir else { return Ok(supervisor) };
        supervisor = supervisor
            .logdir(model_dir)?
            .save_model_secs(self.save_model_secs)
            .max_to_keep(self.max_to_keep)
            .save_summaries_secs(self.save_summaries_secs);
        Ok(match self.save_model_steps {
            Some(steps) => supervisor.save_model_steps(steps),
            None => supervisor,
        })
    }
}
