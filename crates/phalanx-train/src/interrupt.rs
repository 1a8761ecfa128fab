//! Ctrl-C and SIGTERM: the first asks the task to save and end, the second ends the process at once.

use phalanx_base::{Code, Context, Error, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const NONE: u32 = 0;
const CTRL_C: u32 = 1;
const TERMINATE: u32 = 2;

/// Whether this process was asked to stop.
///
/// [`ServerOptions::from_env`](crate::ServerOptions::from_env), which a task's program starts from, listens for signals.
/// [`ServerOptions::default`](crate::ServerOptions::default) holds an `Interrupt` that nothing sets: tests, and programs that
/// handle signals themselves, start from that.
///
/// ```
/// use phalanx_train::{Interrupt, ServerOptions};
/// let options = ServerOptions::from_env()?; // Ctrl-C and SIGTERM: save, then end
/// assert!(options.interrupt.error().is_none());
/// let mine = ServerOptions { interrupt: Interrupt::default(), ..ServerOptions::default() };
/// # let _ = mine;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicU32>);

/// What the process's signal handler sets. A process has one handler for a signal, however many tasks it runs.
static OF_PROCESS: Mutex<Option<Interrupt>> = Mutex::new(None);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM from now on. A second signal ends the process at once. Every call in one process
    /// returns the same `Interrupt`.
    ///
    /// # Errors
    /// When the signal handlers cannot be installed.
    pub fn listen() -> Result<Self> {
        let mut listening = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if listening.is_none() {
            *listening = Some(Self::install()?);
        }
        Ok(listening.clone().unwrap_or_default())
    }

    fn install() -> Result<Self> {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.0);
        let wrong = "signals cannot be listened to";
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context(Code::Internal, wrong)?;
        let (mut int, mut term) = {
            use tokio::signal::unix::{SignalKind, signal};
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt()).context(Code::Internal, wrong)?,
                signal(SignalKind::terminate()).context(Code::Internal, wrong)?,
            )
        };
        let wait = move || {
            runtime.block_on(async {
                loop {
                    let seen = tokio::select! { _ = int.recv() => CTRL_C, _ = term.recv() => TERMINATE };
                    if flag.swap(seen, Ordering::AcqRel) != NONE {
                        std::process::exit(if seen == CTRL_C { 130 } else { 143 });
                    }
                }
            });
        };
        std::thread::Builder::new().name("phalanx-signals".into()).spawn(wait).context(Code::Internal, wrong)?;
        Ok(interrupt)
    }

    /// Asks the task to save and end, as Ctrl-C does: for a program that handles signals itself.
    ///
    /// ```
    /// use phalanx_train::Interrupt;
    /// let interrupt = Interrupt::default();
    /// interrupt.ctrl_c();
    /// assert_eq!(interrupt.error().unwrap().exit_code(), 130);
    /// ```
    pub fn ctrl_c(&self) {
        self.ask(CTRL_C);
    }

    /// Asks the task to save and end, as SIGTERM does: for a program that handles signals itself.
    pub fn terminate(&self) {
        self.ask(TERMINATE);
    }

    /// Clears the request, so that a program such as a notebook can continue after it was stopped.
    ///
    /// ```
    /// use phalanx_train::Interrupt;
    /// let interrupt = Interrupt::default();
    /// interrupt.ctrl_c();
    /// interrupt.clear();
    /// assert!(interrupt.error().is_none());
    /// ```
    pub fn clear(&self) {
        self.0.store(NONE, Ordering::Release);
    }

    /// The first request counts.
    fn ask(&self, why: u32) {
        let _known = self.0.compare_exchange(NONE, why, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns one that has received SIGTERM.
    #[cfg(test)]
    pub(crate) fn terminated() -> Self {
        let interrupt = Self::default();
        interrupt.terminate();
        interrupt
    }

    /// Returns the request to stop as an error, if there was one.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        match self.0.load(Ordering::Acquire) {
            CTRL_C => Some(Error::new(Code::Interrupted, "stopped by Ctrl-C")),
            TERMINATE => Some(Error::new(Code::Terminated, "stopped by SIGTERM")),
            _ => None,
        }
    }
}
