//! A task's connections themselves, for tests and measurements that speak to parameter servers without a session. Not for
//! programs: `phalanx` does not have them, and they change with the protocol.

use crate::{Server, Session, Supervisor};
use phalanx_base::{Result, TaskId};
use phalanx_nn::burn::module::Module;
use phalanx_ps::Client;
use phalanx_ps::client::Options;
use phalanx_wire::Address;

/// Connections to the parameter servers.
///
/// # Errors
/// When the cluster has none.
pub fn client(server: &Server) -> Result<Client> {
    server.client()
}

/// Who a task is to parameter servers, and how patient it is.
#[must_use]
pub fn client_options(server: &Server) -> Options {
    server.client_options()
}

/// The parameter servers and where they are.
///
/// # Errors
/// When the cluster has none.
pub fn servers(server: &Server) -> Result<Vec<(TaskId, Address)>> {
    server.servers()
}

/// A session over connections of one's own, such as a test's that lose messages; `client` speaks for the supervisor's task.
///
/// # Errors
/// As [`Supervisor::prepare_or_wait_for_session`].
pub fn session_over<M: Module>(supervisor: &Supervisor, module: M, client: Client) -> Result<Session<M>> {
    supervisor.prepare_with_client(module, client)
}
