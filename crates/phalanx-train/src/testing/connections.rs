//! A task's connections to parameter servers, without a session.

use crate::{Server, Session, Supervisor};
use phalanx_base::{Result, TaskId};
use phalanx_nn::burn::module::Module;
use phalanx_ps::Client;
use phalanx_ps::client::ClientOptions;
use phalanx_wire::Address;

/// Opens connections to the parameter servers.
///
/// # Errors
/// When the cluster has none.
pub fn client(server: &Server) -> Result<Client> {
    server.client()
}

/// Returns the identity and the deadlines of a task for calls to parameter servers.
#[must_use]
pub fn client_options(server: &Server) -> ClientOptions {
    server.client_options()
}

/// Returns the parameter servers and their addresses.
///
/// # Errors
/// When the cluster has none.
pub fn servers(server: &Server) -> Result<Vec<(TaskId, Address)>> {
    server.servers()
}

/// Prepares a session over a test's own connections, such as ones that lose messages; `client` speaks for the supervisor's task.
///
/// # Errors
/// As [`Supervisor::prepare_or_wait_for_session`].
pub fn session_over<M: Module>(supervisor: &Supervisor, module: M, client: Client) -> Result<Session<M>> {
    supervisor.prepare_with(module, || Ok(client))
}
