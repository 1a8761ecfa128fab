//! How patient a task is, and whom it tells.

use crate::Interrupt;
use phalanx_base::Result;
use phalanx_wire::Token;
use std::sync::Arc;
use std::time::Duration;

/// Where a task's remarks go: one line at a time, without the line's end.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of a task. The defaults suit a job on a few machines. A program starts from [`ServerOptions::from_env`], a test
/// from [`ServerOptions::default`], which takes nothing from the process around it.
///
/// ```
/// use phalanx_train::ServerOptions;
/// use std::time::Duration;
/// let options = ServerOptions { lease: Duration::from_secs(30), threads: 4, ..ServerOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct ServerOptions {
    /// What both ends of every connection must know; `None`: whoever reaches a port may take part.
    pub token: Option<Token>,
    /// How long the job may take to form.
    pub formation_deadline: Duration,
    /// How long a task may be silent before it counts as lost.
    pub lease: Duration,
    /// How often a task says that it is here.
    pub beat: Duration,
    /// How long a task waits for a chief that has gone silent.
    pub grace: Duration,
    /// How long a lost parameter server may take to come back, where there is a checkpoint to restore it from.
    pub server_grace: Duration,
    /// Threads that serve other tasks; one of the same machine has a thread of its own besides.
    pub threads: usize,
    /// Where remarks go.
    pub say: Say,
    /// Where the task writes how it is, every half second, for a launcher's page; `None`: nowhere.
    pub status_dir: Option<std::path::PathBuf>,
    /// Whether somebody asked this process to stop: the chief then saves and ends the job.
    pub interrupt: Interrupt,
    /// What stands for the executable; for tests that pretend to be another build.
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
            say: Arc::new(|line| eprintln!("{line}")),
            status_dir: None,
            interrupt: Interrupt::default(),
            build: None,
        }
    }
}

impl ServerOptions {
    /// The defaults for a process of its own: the token from `PHALANX_TOKEN`, the place for the status from
    /// `PHALANX_STATUS_DIR`, where they are set; and Ctrl-C and SIGTERM, which from now on ask the task to save and end.
    ///
    /// # Errors
    /// When the token cannot be used, or signals cannot be listened for.
    pub fn from_env() -> Result<Self> {
        let token = Token::from_env()?;
        let status_dir = std::env::var_os("PHALANX_STATUS_DIR").map(Into::into);
        Ok(Self { token, status_dir, interrupt: Interrupt::listen()?, ..Self::default() })
    }
}
