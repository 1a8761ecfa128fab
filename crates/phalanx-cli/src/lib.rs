//! The `phalanx` command: arguments and wiring. The program `phalanx` is [`run`] with the arguments of its process; the Python
//! package calls it, too.

mod checkpoint;
mod dashboard;
mod data;
mod demo;
mod demo_task;
mod doctor;
mod exit;
mod explain;
mod fetch;
mod head;
mod job;
mod launch;
mod manifest;
mod output;
mod predict;
mod records;
#[cfg(test)]
mod reference;
mod status;
mod tf_config;

use clap::Parser;
pub use exit::ExitCode;
use phalanx_launch::ThisProgram;
use std::ffi::OsString;

/// Trains one model with many processes.
#[derive(Parser)]
#[command(name = "phalanx", version, about)]
enum Command {
    /// Trains wide & deep on synthetic clicks as a job of six processes, with a dashboard
    Demo(demo::Args),
    /// Trains and evaluates the job in a file, as the task in TF_CONFIG
    Train(job::TrainArgs),
    /// Evaluates the newest checkpoint of a job
    Eval(job::EvalArgs),
    /// Predicts every row of a file with a trained job
    Predict(predict::PredictArgs),
    /// Measures how much a trained job depends on each input: a metric before and after the input is permuted
    Explain(explain::ExplainArgs),
    /// Exports the newest checkpoint of a job as a SavedModel that TensorFlow loads
    Export(job::ExportArgs),
    /// Launches a job of any program that reads TF_CONFIG: chief, workers, parameter servers, evaluator
    Launch(Box<phalanx_launch::LaunchArgs>),
    /// Serves the dashboard of a run or of a folder of runs, while they run or after they have ended
    Dashboard(dashboard::DashboardArgs),
    /// Shows the tasks of a run in a table
    Status(status::StatusArgs),
    /// Checks this machine for problems: limits, ports, disk, TF_CONFIG, peers
    Doctor(doctor::DoctorArgs),
    /// Writes deployment files for TFJob, Trainer v2, Slurm, Docker compose or systemd
    Manifest(manifest::ManifestArgs),
    /// Inspects checkpoints of TensorFlow and of Phalanx, and converts them for TensorFlow
    #[command(visible_alias = "ckpt")]
    Checkpoint(checkpoint::CheckpointArgs),
    /// Shows the first rows of a CSV, TFRecord, Parquet, npz or IDX file as a table
    Head(head::HeadArgs),
    /// Inspects data files and fetches public ones
    Data(data::DataArgs),
    /// Counts and verifies the records of TFRecord files
    Records(records::RecordsArgs),
    /// Explains a TF_CONFIG as TensorFlow reads it, or reports what is wrong with it
    TfConfig(tf_config::TfConfigArgs),
    /// Runs one task of the demo
    #[command(hide = true)]
    DemoTask(demo_task::Args),
}

/// Runs the command with these arguments, without the name of the program. `this` is how to start the program again: a guard of a
/// launched task, and the tasks of the demo, are processes of it. Wrong arguments, and `--help`, end the process.
pub fn run(args: impl IntoIterator<Item = OsString>, this: &ThisProgram) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(code) = phalanx_launch::guard(&args) {
        return code.into();
    }
    let command = Command::parse_from(std::iter::once(OsString::from("phalanx")).chain(args));
    match command {
        Command::Launch(args) => launch::run(args.started_by(this)),
        Command::Dashboard(args) => exit::exit(dashboard::run(&args)),
        Command::Status(args) => status::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Manifest(args) => manifest::run(&args),
        Command::Demo(args) => demo::run(&args, this),
        Command::DemoTask(args) => exit::exit(demo_task::run(&args)),
        Command::Train(args) => job::train(&args),
        Command::Eval(args) => job::evaluate(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Export(args) => job::export(&args),
        Command::TfConfig(args) => tf_config::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Head(args) => head::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Records(args) => records::run(&args),
    }
}
