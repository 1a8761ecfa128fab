//! A job of this same program on this machine.

use crate::local_job::{LocalJob, local_cluster};
use crate::network::{Link, Network};
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

/// The tasks of a job, and where they run.
#[derive(Clone, Copy)]
pub(crate) struct Tasks {
    pub(crate) ps: usize,
    /// The chief among them.
    pub(crate) trainers: usize,
    /// Each task on a machine of its own with such a link, or all on loopback.
    pub(crate) network: Option<Link>,
    /// Whether connections between machines are encrypted.
    pub(crate) tls: bool,
}

impl Tasks {
    /// Returns tasks on loopback.
    pub(crate) fn local(ps: usize, trainers: usize) -> Self {
        Self { ps, trainers, network: None, tls: false }
    }
}

/// Runs every task as `subcommand` with the arguments of this process and `more`.
pub(crate) fn run(tasks: Tasks, subcommand: &str, more: &[String]) -> Result<Done> {
    let Tasks { ps, trainers, network, tls } = tasks;
    if tls && network.is_none() {
        return Err(
            Error::new(Code::BadSetting, "--tls is for tasks on machines of their own").help("add --network unlimited")
        );
    }
    let network = network.map(|link| Network::new(ps + trainers, link)).transpose()?;
    let cluster = network.as_ref().map_or_else(|| local_cluster(ps, trainers), |network| Ok(network.cluster(ps)))?;
    let executable =
        std::env::current_exe().map_err(|error| Error::new(Code::Internal, "no executable").because(error))?;
    let command = |task| {
        let mut command = Command::new(&executable);
        // The same arguments again; only the subcommand differs.
        command.arg(subcommand).args(std::env::args_os().skip(2)).args(more).env_remove("PHALANX_TOKEN");
        if tls {
            // A job with a token encrypts.
            command.env("PHALANX_TOKEN", "of a job that is measured");
        }
        match &network {
            Some(network) => network.on(network.machine(ps, task), &command),
            None => command,
        }
    };
    run_as(&cluster, command)
}

/// Runs every task of `cluster` as a command, whose chief prints `best` and what it measured.
pub(crate) fn run_as(cluster: &ClusterSpec, command: impl Fn(TaskId) -> Command) -> Result<Done> {
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
    let mut job = LocalJob::start(cluster, command, lines)?;
    let ended = job.wait(Duration::from_secs(1800))?;
    if let Some(ended) = ended.iter().find(|ended| !ended.status.success()) {
        return Err(Error::new(Code::JobFailed, format!("{} failed", ended.task)).because(ended.status));
    }
    let measured = all.try_recv().map_err(|_| Error::new(Code::Internal, "the chief measured nothing"))?;
    Ok(Done { measured, loads: loads.try_iter().collect() })
}
