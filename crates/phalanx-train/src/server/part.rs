//! A task's own part of a job: whether it is done, and how a program runs it.

use super::Server;
use phalanx_base::{Code, Error, Result, Role, TaskId};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;

/// How far a task's own part is.
#[derive(Default)]
pub(super) enum Part {
    #[default]
    Working,
    /// With its first error.
    Failed(Error),
    /// Everything is sent and saved: the task may end.
    Done,
}

impl Part {
    pub(super) fn fail(&mut self, error: &Error) {
        if !matches!(self, Self::Failed(_)) {
            *self = Self::Failed(error.clone());
        }
    }

    /// Returns what a task leaves with that ends here.
    pub(super) fn end(&mut self, task: TaskId) -> Result<()> {
        match std::mem::take(self) {
            Self::Done => Ok(()),
            Self::Failed(error) => Err(error),
            Self::Working => Err(Error::new(Code::JobFailed, format!("{task} stopped without finishing its part"))
                .help("end a trainer's part with Supervisor::stop, and a parameter server's with Server::join")),
        }
    }
}

impl Server {
    /// Runs `part` if this task trains, and ends the task with it; a parameter server serves until the job is over and
    /// returns `None`. So a program need not know its role. An error or a panic of the part ends the job for all tasks.
    ///
    /// The part trains with [`Server::trainer`], or with a [`Supervisor`](crate::Supervisor) that it stops: a part that
    /// returns without either fails.
    ///
    /// ```
    /// use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::{Server, Supervisor};
    /// let device = phalanx_nn::default_device();
    /// let steps = Server::local()?.run(|task| {
    ///     let supervisor = Supervisor::new(task, Sgd::new(0.1));
    ///     let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
    ///     session.stop_at(3);
    ///     while session.step(|model| model.forward(Tensor::<2>::ones([4, 2], &device)).mean())?.is_some() {}
    ///     let steps = session.global_step();
    ///     supervisor.stop(session).map(|()| steps)
    /// })?;
    /// assert_eq!(steps, Some(3));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the part returns, and when the job fails.
    ///
    /// # Panics
    /// When the part does, after the other tasks know.
    pub fn run<T>(&self, part: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        if self.task().role == Role::Ps {
            return self.join().map(|()| None);
        }
        let (done, panic) = self.in_scope(|| catch_panic(self, part));
        if let Err(error) = &done {
            self.leave(Some(error));
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        let done = done?;
        self.inner.end_part().map(|()| Some(done))
    }

    /// Records that this task works again, and would leave unfinished work behind.
    pub(crate) fn begin_part(&self) {
        *self.inner.part.lock().unwrap_or_else(PoisonError::into_inner) = Part::Working;
    }

    /// Records that this task may end: everything is sent and saved.
    pub(crate) fn finish_part(&self) {
        *self.inner.part.lock().unwrap_or_else(PoisonError::into_inner) = Part::Done;
    }
}

/// Runs a task's part. A panic becomes an error, and is returned beside it.
pub(crate) fn catch_panic<T>(
    server: &Server,
    part: impl FnOnce(&Server) -> Result<T>,
) -> (Result<T>, Option<Box<dyn Any + Send>>) {
    match catch_unwind(AssertUnwindSafe(|| part(server))) {
        Ok(done) => (done, None),
        Err(panic) => {
            let error = Error::new(Code::StepPanicked, format!("{} panicked", server.task()));
            (Err(error.because(panic_text(&*panic))), Some(panic))
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
