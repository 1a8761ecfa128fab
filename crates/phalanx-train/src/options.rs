//! The settings of a task.

use crate::Interrupt;
use phalanx_base::{Result, TaskId};
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
    /// Returns the defaults for a program: the token from `PHALANX_TOKEN`, the status directory from `PHALANX_STATUS_DIR`, the
    /// durability from `PHALANX_DURABILITY` and its folder from `PHALANX_WAL_DIR`, where they are set; Ctrl-C and SIGTERM ask the task to save and end from now on.
    ///
    /// # Errors
    /// When the token is malformed, the durability is none, or the signal handlers cannot be installed.
    pub fn from_env() -> Result<Self> {
        let token = Token::from_env()?;
        let status_dir = std::env::var_os("PHALANX_STATUS_DIR").map(Into::into);
        Self { token, status_dir, interrupt: Interrupt::listen()?, ..Self::default() }.with_durability_from_env()
    }

    /// Takes the durability from `PHALANX_DURABILITY` and its folder from `PHALANX_WAL_DIR`, where they are set.
    ///
    /// # Errors
    /// When the durability is none.
    pub fn with_durability_from_env(self) -> Result<Self> {
        let wal_dir = std::env::var_os(WAL_DIR_VAR).filter(|dir| !dir.is_empty()).map(Into::into);
        Ok(Self { durability: Durability::from_env()?.or(self.durability), wal_dir: wal_dir.or(self.wal_dir), ..self })
    }
}
