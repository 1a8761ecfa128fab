//! A whole program in one call: any role of a job, or all of it.

use crate::exit;
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_train::{Server, ServerOptions, task_from_args_or_env};
use std::ffi::OsString;
use std::process::ExitCode;

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
/// The program takes no arguments but those flags: any other one is an error. [`job_with_args`] runs programs with arguments of
/// their own.
pub fn job<T>(part: impl FnOnce(&Server) -> Result<T>) -> ExitCode {
    exit(task_from_args_or_env().and_then(|(config, rest)| {
        check_no_arguments(&rest)?;
        run(config, part)
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
        run(config, |task| part(task, args))
    }))
}

fn run<T>(config: phalanx_cluster::TaskConfig, part: impl FnOnce(&Server) -> Result<T>) -> Result<()> {
    let server = Server::start_with(config.or_local_if_alone(), ServerOptions::from_env()?)?;
    server.run(part).map(drop)
}

/// Fails if a program that takes no arguments got some; `rest` begins with the name of the program.
///
/// # Errors
/// When there is an argument.
pub fn check_no_arguments(rest: &[OsString]) -> Result<()> {
    let Some(argument) = rest.get(1) else { return Ok(()) };
    let argument = argument.to_string_lossy();
    let error = Error::new(Code::Flags, format!("nothing here understands the argument {argument:?}"))
        .because("this program takes --ps_hosts, --worker_hosts, --job_name and --task_index only");
    let name = argument.split('=').next().unwrap_or_default();
    Err(match nearest(name, ["--ps_hosts", "--worker_hosts", "--job_name", "--task_index"]) {
        Some(near) => error.help(format!("did you mean {near}?")),
        None => error.help("leave it out"),
    })
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
