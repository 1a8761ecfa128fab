//! A job of one process: a chief that computes and a parameter server beside it, which it reaches without a network
//! (`server/connect.rs`). Both listen on loopback, as tasks of any job do.

use crate::{Server, ServerOptions, identity};
use phalanx_base::{Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_wire::{Address, Listening, Token};

pub(crate) fn start(mut options: ServerOptions) -> Result<Server> {
    options.build = Some(options.build.map_or_else(identity::build, Ok)?);
    // All its tasks are in this process, so nobody else needs to know the token.
    options.token = Some(options.token.map_or_else(Token::random, Ok)?);
    let any: Address = "127.0.0.1:0".parse()?;
    let (chief, ps) = (Listening::bind(&any, 1)?, Listening::bind(&any, options.threads)?);
    let cluster = ClusterSpec::new()
        .job("chief", [format!("127.0.0.1:{}", chief.port())])
        .job("ps", [format!("127.0.0.1:{}", ps.port())]);
    let config = |role| TaskConfig::from_cluster(cluster.clone(), TaskId::new(role, 0));
    let ps = Server::start_on(ps, config(Role::Ps)?, options.clone(), None)?;
    Server::start_on(chief, config(Role::Chief)?, options, Some(ps))
}
