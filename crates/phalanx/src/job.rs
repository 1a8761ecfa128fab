//! A whole program in one call: any role of a job, or all of it.

use crate::exit;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::{AppFlags, Flags, TaskConfig};
use phalanx_nn::with_threads;
use phalanx_train::{Server, ServerOptions, task_from_args_or_env};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Runs `part` as the task that this process is, and returns the exit code of `main`.
///
/// The flags `--ps_hosts --worker_hosts --job_name --task_index` name the task, or else `TF_CONFIG` does; without both this process
/// is the whole job ([`task_from_args_or_env`]). A parameter server serves until the job is over and does not run `part`; the
/// chief and the workers do. Ctrl-C and SIGTERM save and end the job. An error in one task reaches every other one, is reported
/// on standard error, and determines the exit code ([`exit`]). Such a job has no evaluator: a task of that role is refused.
///
/// ```no_run
/// use phalanx::burn::nn::LinearConfig;
/// use phalanx::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     phalanx::job(|task| {
///         let mut trainer = task.trainer(LinearConfig::new(2, 1).init(&default_device()), Sgd::new(0.1)).model_dir("runs/line")?;
///         trainer.train(points()?.shuffle(1000).repeat().batch(32), 500, |model, _, batch| {
///             let error = model.forward(batch.tensor::<2>("x", &default_device())?) - batch.tensor("y", &default_device())?;
///             Ok(error.powf_scalar(2.0).mean())
///         })
///     })
/// }
/// # fn points() -> phalanx::Result<Dataset> { Ok(Dataset::range(0, 1, 1)) }
/// ```
///
/// The program takes no arguments but those flags: any other one is an error. [`job_with_flags`] and [`job_with_args`] run programs
/// with arguments of their own.
pub fn job<T>(part: impl FnOnce(&Server) -> Result<T>) -> ExitCode {
    exit(task_from_args_or_env().and_then(|(config, rest)| {
        check_no_arguments(&rest)?;
        run(config, ServerOptions::from_env()?, part)
    }))
}

/// As [`job`], for a program with arguments: `parse` gets those that are left, the name of the program first, and `part` gets
/// what it returns.
///
/// ```no_run
/// use phalanx::prelude::*;
///
/// #[derive(clap::Parser)]
/// struct Args {
///     #[arg(long, default_value_t = 1000)]
///     steps: u64,
/// }
///
/// fn main() -> std::process::ExitCode {
///     use clap::Parser;
///     phalanx::job_with_args(Args::parse_from, |task, args| train(task, args.steps))
/// }
/// # fn train(_: &Server, _: u64) -> phalanx::Result<()> { Ok(()) }
/// ```
pub fn job_with_args<A, T>(
    parse: impl FnOnce(Vec<OsString>) -> A,
    part: impl FnOnce(&Server, A) -> Result<T>,
) -> ExitCode {
    exit(task_from_args_or_env().and_then(|(config, rest)| {
        let args = parse(rest);
        run(config, ServerOptions::from_env()?, |task| part(task, args))
    }))
}

/// As [`job`], for a program with flags of its own: `define` defines them and returns their values, which `part` gets. It needs no
/// parser: TensorFlow's programs define their flags so, with `tf.app.flags`.
///
/// Every such program also takes `--threads`, `--formation-deadline` and `--server-grace`, which are settings of the task, and
/// `--help`, which prints `about` and all flags. [`Supervisor::flags`](crate::Supervisor::flags) defines those of the run directory,
/// of checkpoints and of synchronous training.
///
/// ```no_run
/// use phalanx::burn::nn::LinearConfig;
/// use phalanx::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     phalanx::job_with_flags(
///         "Learns a line",
///         |flags| (flags.value("max-steps", 500, "Steps of all workers"), Supervisor::flags(flags)),
///         |task, (max_steps, configure)| {
///             let line = LinearConfig::new(1, 1).init(&default_device());
///             let mut trainer = task.trainer(line, Sgd::new(0.1)).try_configure(configure)?;
///             trainer.train(points()?.repeat().batch(32), max_steps, |model, _, batch| {
///                 let error = model.forward(batch.tensor::<2>("x", &default_device())?) - batch.tensor("y", &default_device())?;
///                 Ok(error.powf_scalar(2.0).mean())
///             })
///         },
///     )
/// }
/// # fn points() -> phalanx::Result<Dataset> { Ok(Dataset::range(0, 1, 1)) }
/// ```
pub fn job_with_flags<A: Send, T>(
    about: &str,
    define: impl FnOnce(&mut AppFlags) -> A,
    part: impl FnOnce(&Server, A) -> Result<T> + Send,
) -> ExitCode {
    exit(task_from_args_or_env().and_then(|(config, rest)| {
        let mut flags = AppFlags::new(rest);
        let args = define(&mut flags);
        let threads = flags.value("threads", 1, "Compute threads");
        let formation = flags.value("formation-deadline", 600, "Seconds to wait for the job to form");
        let grace =
            flags.value("server-grace", 120, "With a run directory: seconds to wait for a lost parameter server");
        if let Some(help) = flags.finish(about)? {
            // A reader that has gone does not want it.
            let _gone = std::io::stdout().write_all(help.as_bytes());
            return Ok(());
        }
        let mut options = ServerOptions::from_env()?;
        (options.formation_deadline, options.server_grace) =
            (Duration::from_secs(formation), Duration::from_secs(grace));
        with_threads(threads, || run(config, options, |task| part(task, args)))
    }))
}

fn run<T>(config: TaskConfig, options: ServerOptions, part: impl FnOnce(&Server) -> Result<T>) -> Result<()> {
    let server = Server::start_with(config.or_local_if_alone(), options)?;
    server.run(part).map(drop)
}

/// Fails if a program that takes no arguments got some; `rest` begins with the name of the program.
///
/// # Errors
/// When there is an argument.
pub fn check_no_arguments(rest: &[OsString]) -> Result<()> {
    match AppFlags::new(rest).finish("")? {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::Flags, "this program has no flags of its own").help(Flags::HELP)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_nobody_understands_is_an_error() {
        assert!(check_no_arguments(&["train".into()]).is_ok());
        let error = check_no_arguments(&["train".into(), "--ps_host=a:1".into()]).unwrap_err();
        assert_eq!((error.exit_code(), error.next()), (2, Some("did you mean --ps_hosts?")));
        assert!(check_no_arguments(&["train".into(), "in.csv".into()]).unwrap_err().to_string().contains("in.csv"));
    }
}
