//! A job of this same program on this machine.

use phalanx::prelude::*;
use phalanx::{ClusterSpec, Code, Error, Result};
use phalanx_launch::LocalJob;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Runs every task of `cluster` as `subcommand` with the arguments of this process; prints what the chief measured.
pub(crate) fn run(cluster: &ClusterSpec, subcommand: &str) -> Result<()> {
    let executable =
        std::env::current_exe().map_err(|error| Error::new(Code::Internal, "no executable").because(error))?;
    let command = |_| {
        let mut command = Command::new(&executable);
        // The same arguments again; only the subcommand differs.
        command.arg(subcommand).args(std::env::args_os().skip(2));
        command
    };
    let lines = Arc::new(|task: TaskId, line: &str| match line.strip_prefix("best ") {
        Some(best) if task.role == Role::Chief => println!("{best}"),
        _ => eprintln!("{task}: {line}"),
    });
    let mut job = LocalJob::start(cluster, command, lines)?;
    let ended = job.wait(Duration::from_secs(1800))?;
    match ended.iter().find(|ended| !ended.status.success()) {
        Some(ended) => Err(Error::new(Code::JobFailed, format!("{} failed", ended.task)).because(ended.status)),
        None => Ok(()),
    }
}
