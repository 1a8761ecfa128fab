//! A job of this same program on this machine.

use phalanx::prelude::*;
use phalanx::{ClusterSpec, Code, Error, Result};
use phalanx_launch::LocalJob;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Runs every task of `cluster` as `subcommand` with the arguments of this process and `more`; answers what the chief
/// measured.
pub(crate) fn run(cluster: &ClusterSpec, subcommand: &str, more: &[String]) -> Result<String> {
    let executable =
        std::env::current_exe().map_err(|error| Error::new(Code::Internal, "no executable").because(error))?;
    let command = |_| {
        let mut command = Command::new(&executable);
        // The same arguments again; only the subcommand differs.
        command.arg(subcommand).args(std::env::args_os().skip(2)).args(more);
        command
    };
    let (measured, all) = channel();
    let lines = Arc::new(move |task: TaskId, line: &str| match line.strip_prefix("best ") {
        // Nobody listens any more only where the job has failed.
        Some(best) if task.role == Role::Chief => drop(measured.send(best.to_owned())),
        _ => eprintln!("{task}: {line}"),
    });
    let mut job = LocalJob::start(cluster, command, lines)?;
    let ended = job.wait(Duration::from_secs(1800))?;
    match ended.iter().find(|ended| !ended.status.success()) {
        Some(ended) => Err(Error::new(Code::JobFailed, format!("{} failed", ended.task)).because(ended.status)),
        None => all.try_recv().map_err(|_| Error::new(Code::Internal, "the chief measured nothing")),
    }
}
