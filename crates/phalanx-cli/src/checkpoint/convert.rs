//! `phalanx checkpoint convert`: a run directory for TensorFlow's Estimator.

use std::path::PathBuf;

use phalanx::estimator::EstimatorNames;
use phalanx_base::{Code, Error, Result};
use phalanx_jobfile::{Job, Overrides, TrainedJob};
use serde_json::json;

use super::Answer;

/// The names that an Estimator gives to optimizer state.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum To {
    /// tf.compat.v1.estimator with an optimizer of tf.compat.v1.train
    TfV1,
    /// tf.estimator with an optimizer of tf.keras.optimizers.legacy
    TfV2,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx checkpoint convert runs/a --to tf-v2 --out tf/a")]
pub(super) struct ConvertArgs {
    /// The model_dir of a job, or a JOB.toml with a model_dir
    #[arg(value_name = "MODEL_DIR")]
    run: PathBuf,
    /// Names of optimizer state: those of tf.compat.v1's or of Keras' optimizers
    #[arg(long, value_enum)]
    to: To,
    /// New directory, for the Estimator's model_dir
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn convert(args: &ConvertArgs) -> Result<Answer> {
    let place = if args.run.is_file() {
        Job::read(&args.run, Overrides::default())?.trained()?
    } else {
        TrainedJob::find(&args.run)?
    };
    let TrainedJob::ModelDir(model_dir) = &place else {
        return Err(Error::new(Code::Flags, format!("{} is an export", args.run.display()))
            .because("an export has no optimizer state")
            .help("pass the model_dir of a job"));
    };
    let job = if args.run.is_file() {
        Job::read(&args.run, Overrides::default())?
    } else {
        place.job(Overrides::default())?
    };
    let names = match args.to {
        To::TfV1 => EstimatorNames::V1,
        To::TfV2 => EstimatorNames::V2,
    };
    let made = job.convert(model_dir, names, &args.out)?;
    let out = args.out.display();
    let text = format!("wrote {out}/{}: {} tensors at step {}\n", made.name, made.tensors, made.global_step);
    let json = json!({
        "out": out.to_string(), "checkpoint": made.name, "step": made.global_step, "tensors": made.tensors,
    });
    Ok(Answer { json, text, good: true, warnings: String::new() })
}
