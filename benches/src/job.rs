//! A job of this same program on this machine.

use crate::local_job::LocalJob;
use crate::watch;
use phalanx::prelude::*;
use phalanx::{ClusterSpec, Code, Error, Result};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What the tasks of a job reported.
pub(crate) struct Done {
    /// What the chief measured.
    pub(crate) measured: String,
    /// What each server counted.
    pub(crate) loads: Vec<String>,
}

/// Runs every task of `cluster` as `subcommand` with the arguments of this process and `more`.
pub(crate) fn run(cluster: &ClusterSpec, subcommand: &str, more: &[String]) -> Result<Done> {
    let executable =
        std::env::current_exe().map_err(|error| Error::new(Code::Internal, "no executable").because(error))?;
    run_as(cluster, || {
        let mut command = Command::new(&executable);
        // The same arguments again; only the subcommand differs.
        command.arg(subcommand).args(std::env::args_os().skip(2)).args(more);
        command
    })
}

/// Runs every task of `cluster` as a command, whose chief prints `best` and what it measured.
pub(crate) fn run_as(cluster: &ClusterSpec, command: impl Fn() -> Command) -> Result<Done> {
    let (measured, all) = channel();
    let (load, loads) = channel();
    // A closed channel means that the job has failed.
    let lines =
        Arc::new(move |task: TaskId, line: &str| match (line.strip_prefix("best "), line.strip_prefix("load ")) {
            (Some(best), _) if task.role == Role::Chief => {
                eprintln!("{}", watch::MEASURED);
                drop(measured.send(best.to_owned()));
            }
            (_, Some(counted)) if task.role == Role::Ps => drop(load.send(counted.to_owned())),
            _ => eprintln!("{task}: {line}"),
        });
    let mut job = LocalJob::start(cluster, |_| command(), lines)?;
    let ended = job.wait(Duration::from_secs(1800))?;
    if let Some(ended) = ended.iter().find(|ended| !ended.status.success()) {
        return Err(Error::new(Code::JobFailed, format!("{} failed", ended.task)).because(ended.status));
    }
    let measured = all.try_recv().map_err(|_| Error::new(Code::Internal, "the chief measured nothing"))?;
    Ok(Done { measured, loads: loads.try_iter().collect() })
}
