//! The settings of a task.

use crate::Interrupt;
use phalanx_base::{Address, Code, Error, Result, TaskId};
use phalanx_wal::{Durability, WAL_DIR_VAR};
use phalanx_wire::Token;
use std::time::Duration;

/// The settings of a task. The defaults suit a job on a few machines. A program starts from [`ServerOptions::from_env`], a test
/// from [`ServerOptions::default`], which reads nothing from the environment.
///
/// ```
/// use phalanx_train::ServerOptions;
/// use std::time::Duration;
/// let options = ServerOptions { lease: Duration::from_secs(30), threads: 4, ..ServerOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct ServerOptions {
    /// The secret that both ends of every connection must know; with `None`, anybody who reaches a port may take part.
    pub token: Option<Token>,
    /// Whether a task without a token may listen on an address that other hosts reach.
    pub insecure: bool,
    /// How long the job may take to form.
    pub formation_deadline: Duration,
    /// How long a task may be silent before it counts as lost.
    pub lease: Duration,
    /// How often a task sends a heartbeat to the chief.
    pub beat: Duration,
    /// How long a task waits for a chief that has gone silent.
    pub grace: Duration,
    /// How long the chief waits for a lost parameter server, where there is a checkpoint to restore it from.
    pub server_grace: Duration,
    /// The number of threads that serve other tasks; each task on the same machine has an additional one.
    pub threads: usize,
    /// Where the task writes its status, every half second, for the dashboard; `None`: nowhere.
    pub status_dir: Option<std::path::PathBuf>,
    /// What a parameter server promises about the updates that it has acknowledged; `None`: [`Durability::Log`] where a launcher
    /// offers memory for it and there is enough, and [`Durability::Checkpoint`] otherwise.
    pub durability: Option<Durability>,
    /// The folder for the logs of the job's servers, in memory that outlives a process. `None`: a folder in `/dev/shm` that
    /// belongs to the job's cluster, if a log is required.
    pub wal_dir: Option<std::path::PathBuf>,
    /// Whether this process was asked to stop: the chief then saves and ends the job.
    pub interrupt: Interrupt,
    /// The task that logs, status and errors name, where it is not the server's own: a mirrored worker holds its model in a job
    /// of its own process.
    pub known_as: Option<TaskId>,
    /// Replaces the fingerprint of the executable: for a program whose code is elsewhere, such as a script, and for tests.
    /// [`build_fingerprint`](crate::build_fingerprint) is the default.
    pub build: Option<String>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            token: None,
            insecure: false,
            formation_deadline: Duration::from_secs(600),
            lease: Duration::from_secs(5),
            beat: Duration::from_millis(200),
            grace: Duration::from_secs(30),
            server_grace: Duration::from_secs(120),
            threads: 2,
            status_dir: None,
            durability: None,
            wal_dir: None,
            interrupt: Interrupt::default(),
            known_as: None,
            build: None,
        }
    }
}

impl ServerOptions {
    /// Returns the defaults for a program: what [`Self::from_variables`] finds; Ctrl-C and SIGTERM ask the task to save and
    /// end from now on.
    ///
    /// # Errors
    /// When the token is malformed, the durability is none, or the signal handlers cannot be installed.
    pub fn from_env() -> Result<Self> {
        Ok(Self { interrupt: Interrupt::listen()?, ..Self::from_variables()? })
    }

    /// Returns the defaults with the token from `PHALANX_TOKEN`, the status directory from `PHALANX_STATUS_DIR`, the durability
    /// from `PHALANX_DURABILITY` and its folder from `PHALANX_WAL_DIR`, where they are set, and `insecure` if `PHALANX_INSECURE`
    /// is 1: for a program that handles signals itself.
    ///
    /// # Errors
    /// When the token is malformed, or there is no such durability.
    pub fn from_variables() -> Result<Self> {
        let status_dir = std::env::var_os("PHALANX_STATUS_DIR").map(Into::into);
        let insecure = std::env::var_os("PHALANX_INSECURE").is_some_and(|value| value == "1");
        let wal_dir = std::env::var_os(WAL_DIR_VAR).filter(|dir| !dir.is_empty()).map(Into::into);
        let (token, durability) = (Token::from_env()?, Durability::from_env()?);
        Ok(Self { token, insecure, status_dir, durability, wal_dir, ..Self::default() })
    }

    /// Fails if a task at this address would be open to anybody on the network.
    pub(crate) fn check_protected(&self, task: TaskId, address: &Address) -> Result<()> {
        if self.token.is_some() || self.insecure || address.is_loopback() {
            return Ok(());
        }
        Err(Error::new(Code::WrongToken, format!("{task} would be open to anybody on the network"))
            .at(address.to_string())
            .because(
                "the job has no token: whoever reaches the port could take part in it, and nothing would be encrypted",
            )
            .help(
                "set PHALANX_TOKEN to the same long random text on every task; on a network that you trust, \
                 PHALANX_INSECURE=1 goes without",
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Role;

    #[test]
    fn a_task_that_other_hosts_reach_needs_a_token_or_says_that_it_needs_none() {
        let check = |options: &ServerOptions, address: &str| {
            options.check_protected(TaskId::new(Role::Ps, 0), &address.parse().unwrap())
        };
        let (bare, insecure) = (ServerOptions::default(), ServerOptions { insecure: true, ..ServerOptions::default() });
        let with_token = ServerOptions { token: Some(Token::new("secret").unwrap()), ..ServerOptions::default() };
        for address in ["10.0.0.2:2222", "ps-0.example:2222", "[2001:db8::4]:2222"] {
            let error = check(&bare, address).unwrap_err();
            assert_eq!(error.code(), Code::WrongToken);
            assert!(error.next().is_some_and(|help| help.contains("PHALANX_TOKEN")), "{error}");
            assert!(check(&insecure, address).is_ok() && check(&with_token, address).is_ok());
        }
        assert!(["127.0.0.1:1", "localhost:1", "[::1]:1"].iter().all(|address| check(&bare, address).is_ok()));
    }
}
