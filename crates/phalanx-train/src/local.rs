//! A job of one process: a chief and a parameter server beside it, which it reaches without a network
//! (`server/connect.rs`), and a worker where the chief does not compute. All listen on loopback, as tasks of any job do.

use crate::{Server, ServerOptions, identity};
use phalanx_base::{Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_wire::{Address, Listening, Token};

/// Starts a chief that computes, with the run directories of its configuration.
pub(crate) fn start(config: &TaskConfig, options: ServerOptions) -> Result<Server> {
    start_tasks(config, options, None).map(|(chief, _)| chief)
}

/// Starts a chief that schedules steps, and a worker that computes them.
pub(crate) fn start_with_worker(options: ServerOptions) -> Result<(Server, Server)> {
    let listening = Listening::bind(&any()?, 1)?;
    let (chief, worker) = start_tasks(&TaskConfig::local(), options, Some(listening))?;
    let worker = worker.ok_or_else(|| phalanx_base::Error::new(phalanx_base::Code::Internal, "there is no worker"))?;
    Ok((chief, worker))
}

fn start_tasks(
    given: &TaskConfig,
    mut options: ServerOptions,
    worker: Option<Listening>,
) -> Result<(Server, Option<Server>)> {
    options.build = Some(options.build.map_or_else(identity::build_fingerprint, Ok)?);
    // All its tasks are in this process, so nobody else needs to know the token.
    options.token = Some(options.token.map_or_else(Token::random, Ok)?);
    let (chief, ps) = (Listening::bind(&any()?, 1)?, Listening::bind(&any()?, options.threads)?);
    let address = |listening: &Listening| [format!("127.0.0.1:{}", listening.port())];
    let mut cluster = ClusterSpec::new().job("chief", address(&chief)).job("ps", address(&ps));
    if let Some(worker) = &worker {
        cluster = cluster.job("worker", address(worker));
    }
    let config = |role| {
        let config = TaskConfig::from_cluster(cluster.clone(), TaskId::new(role, 0))?;
        let output_dir = given.output_dir().map(str::to_owned);
        Ok::<_, phalanx_base::Error>(config.with_model_dir(given.model_dir()).with_output_dir(output_dir))
    };
    // It dies with the process that trains, so a log would not help. What the server holds is part of the chief's status: nobody launched a task of that name.
    let ps = Server::start_on(
        ps,
        config(Role::Ps)?,
        ServerOptions { status_dir: None, wal_dir: None, durability: None, ..options.clone() },
        None,
    )?;
    let chief = Server::start_on(chief, config(Role::Chief)?, options.clone(), Some(ps))?;
    let start = |listening| Server::start_on(listening, config(Role::Worker)?, options, None);
    Ok((chief, worker.map(start).transpose()?))
}

fn any() -> Result<Address> {
    "127.0.0.1:0".parse()
}
