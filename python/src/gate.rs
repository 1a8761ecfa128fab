//! The one way into calls that can wait.
//!
//! Such a call runs on a thread of its own, without the GIL. The calling thread waits for it and looks for signals: the first
//! Ctrl-C asks the task to save and end, and `KeyboardInterrupt` is raised.

use crate::error::{Raise, raised};
use crate::process::Process;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_train::Interrupt;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How often a waiting call looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// When a call that Ctrl-C interrupts returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCtrlC {
    /// At once; what it began ends by itself.
    Leave,
    /// When the operation has ended, which Ctrl-C asks it to; a second Ctrl-C returns at once.
    Finish,
}

/// What belongs to an object of this process: which process that is, and how it is asked to stop.
///
/// ```ignore
/// #[pymethods]
/// impl Table {
///     fn read(&self, py: Python<'_>) -> PyResult<Buffer> {
///         let table = Arc::clone(&self.table);
///         self.gate.enter(py, move || table.read())
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    process: Process,
    interrupt: Interrupt,
}

impl Gate {
    /// A gate of this process.
    pub(crate) fn new() -> Self {
        Self { process: Process::this(), interrupt: Interrupt::default() }
    }

    /// Returns what Ctrl-C in one of its calls sets: for the options of a task.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Runs `work` without the GIL; Ctrl-C returns at once.
    pub(crate) fn enter<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.enter_as(py, OnCtrlC::Leave, work)
    }

    /// Runs `work` without the GIL.
    pub(crate) fn enter_as<T: Send + 'static>(
        &self,
        py: Python<'_>,
        on_ctrl_c: OnCtrlC,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.check_process(py)?;
        let (sender, mut receiver) = sync_channel(1);
        let thread = std::thread::Builder::new().name("phalanx-call".into());
        let run = move || {
            // A caller that was interrupted does not wait for it.
            let _ = sender.send(caught_panic(work));
        };
        thread.spawn(run).context(Code::Internal, "a thread cannot be started").or_raise(py)?;
        self.wait(py, on_ctrl_c, &mut receiver)?.or_raise(py)
    }

    /// Waits for an answer of another thread without the GIL.
    pub(crate) fn wait<T: Send>(&self, py: Python<'_>, on_ctrl_c: OnCtrlC, answers: &mut Receiver<T>) -> PyResult<T> {
        self.check_process(py)?;
        let mut ctrl_c: Option<PyErr> = None;
        loop {
            // By the one mutable reference: a shared one could not leave this thread's hold on the GIL.
            let only = &mut *answers;
            let answer = py.detach(move || only.recv_timeout(SIGNALS));
            match (answer, py.check_signals()) {
                (_, Err(signal)) if ctrl_c.is_some() || on_ctrl_c == OnCtrlC::Leave => {
                    self.interrupt.ctrl_c();
                    return Err(signal);
                }
                (Err(RecvTimeoutError::Timeout), Err(signal)) => {
                    self.interrupt.ctrl_c();
                    ctrl_c = Some(signal);
                }
                (Err(RecvTimeoutError::Timeout), Ok(())) => {}
                (_, Err(signal)) => {
                    self.interrupt.ctrl_c();
                    return Err(signal);
                }
                (Ok(answer), Ok(())) => return ctrl_c.map_or(Ok(answer), Err),
                (Err(RecvTimeoutError::Disconnected), Ok(())) => return Err(ctrl_c.unwrap_or_else(|| ended(py))),
            }
        }
    }

    /// Fails in a process that was forked from the one that this gate belongs to: its threads and connections are not here.
    pub(crate) fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        self.process.check().or_raise(py)
    }
}

fn ended(py: Python<'_>) -> PyErr {
    raised(py, &Error::new(Code::Internal, "the thread of a call ended without an answer"))
}

/// Runs `work`, and returns a panic as an error.
pub(crate) fn caught_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Error::new(Code::Internal, "Phalanx panicked")
        .because(text.unwrap_or_else(|| "the panic has no message".to_owned()))
        .help("this is a bug in Phalanx; please report it with this message")
}
