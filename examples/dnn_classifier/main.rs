//! A `DNNClassifier` over a hashed embedding, as in the documentation of `train_and_evaluate`: chief, workers, parameter servers
//! and evaluator, or one process.
//!
//! ```text
//! cargo run --release --example dnn_classifier -- --model-dir runs/words
//! ```
//!
//! `TF_CONFIG` or the classic flags (`--ps_hosts`, `--worker_hosts`, `--job_name`, `--task_index`) name the task of a process.
//! Without them the process is the whole job.

#![allow(clippy::print_stdout)]

use clap::Parser;
use phalanx::data::InputContext;
use phalanx::prelude::*;
use std::process::ExitCode;

/// Classifies generated words
#[derive(Parser)]
#[command(rename_all = "snake_case", after_help = Flags::HELP)]
struct Args {
    /// Run directory for checkpoints, events and evaluations
    #[arg(long, default_value = "runs/dnn_classifier")]
    model_dir: String,
    /// Steps of all trainers
    #[arg(long, default_value_t = 1000)]
    max_steps: u64,
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| run(task, Args::parse_from(rest))))
}

fn run(task: TaskConfig, args: Args) -> phalanx::Result<()> {
    let words = embedding_column(categorical_column_with_hash_bucket("word", 10_000), 8);
    let model = DnnClassifier::new([words]).hidden_units([64, 32, 16]).n_classes(3).optimizer(Adagrad::new(0.1));
    let train =
        TrainSpec::new(|cx| examples(3000, cx).shard(cx).shuffle(3000).repeat().batch(64)).max_steps(args.max_steps);
    let eval = EvalSpec::new(|cx| examples(300, cx).batch(100)).steps(None).start_delay_secs(0).throttle_secs(1);
    let config = RunConfig::for_task(task)?.model_dir(args.model_dir).save_checkpoints_steps(500);
    println!("{}", train_and_evaluate(&model, train, eval, config)?);
    Ok(())
}

/// Returns words of three classes. A word's class is its number modulo 3, so its hash carries no information about it.
fn examples(rows: u32, _: InputContext) -> Dataset {
    let number = |row: u32| row.wrapping_mul(2_654_435_761) >> 8;
    let words = (0..rows).map(|row| format!("word{}", number(row) % 90));
    let labels = (0..rows).map(|row| i64::from(number(row) % 90 % 3)).collect();
    let columns = [("word", Column::text(words)), ("class", Column::i64(labels))];
    Dataset::from_tensor_slices(Batch::new(columns).and_then(|rows| rows.with_label("class")).expect("two columns"))
}
