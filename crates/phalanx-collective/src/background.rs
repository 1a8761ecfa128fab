//! Reductions that run while the caller computes.

use crate::{Group, Reduce};
use phalanx_base::{Code, Context, Error, Result};
use std::sync::mpsc;
use std::thread::JoinHandle;

type Work = Box<dyn FnOnce(&mut Group) + Send>;

/// A thread that owns a group and does what is asked of it in order. All members must ask in the same order.
///
/// ```
/// use phalanx_collective::{Background, Group, Reduce};
/// let members = Group::in_process(2).into_iter().map(|group| Background::new(group).unwrap());
/// let mut members: Vec<_> = members.collect();
/// // Each member starts a bucket as soon as its gradients are there ...
/// let started: Vec<_> = members.iter_mut().map(|member| member.start(vec![1.0; 4], Reduce::Sum)).collect();
/// // ... computes the next one, and waits when it needs the result.
/// for handle in started {
///     assert_eq!(handle.wait().unwrap(), [2.0; 4]);
/// }
/// ```
pub struct Background {
    work: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<Group>>,
    rank: usize,
    size: usize,
}

/// A reduction under way.
#[must_use = "the result comes from `wait`"]
pub struct Handle<T>(mpsc::Receiver<Result<T>>);

impl<T> Handle<T> {
    /// Waits for the end.
    ///
    /// # Errors
    /// When the reduction failed.
    pub fn wait(self) -> Result<T> {
        self.0.recv().unwrap_or_else(|_| Err(Error::new(Code::Internal, "the thread that reduces has ended")))
    }
}

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system gives us none.
    pub fn new(mut group: Group) -> Result<Self> {
        let (rank, size) = (group.rank(), group.size());
        let (work, queue) = mpsc::channel::<Work>();
        let run = move || {
            queue.into_iter().for_each(|work| work(&mut group));
            group
        };
        let thread = std::thread::Builder::new().name("phalanx-reduce".into()).spawn(run);
        let thread = thread.context(Code::Internal, "the thread that reduces cannot be started")?;
        Ok(Self { work: Some(work), thread: Some(thread), rank, size })
    }

    /// This member's number, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Starts to reduce; the numbers come back from [`Handle::wait`], in the same memory.
    pub fn start(&mut self, mut numbers: Vec<f32>, reduce: Reduce) -> Handle<Vec<f32>> {
        self.ask(move |group| group.all_reduce(&mut numbers, reduce).map(|()| numbers))
    }

    /// Starts anything else that a group does, in turn.
    pub fn ask<T: Send + 'static>(&mut self, work: impl FnOnce(&mut Group) -> Result<T> + Send + 'static) -> Handle<T> {
        let (done, result) = mpsc::channel();
        let work: Work = Box::new(move |group| {
            // Nobody may want to know.
            let _ = done.send(work(group));
        });
        if let Some(queue) = &self.work {
            // Where the thread has ended, so has the handle's channel, and `wait` says so.
            let _ = queue.send(work);
        }
        Handle(result)
    }

    /// Gives the group back when everything that was started has ended.
    ///
    /// # Errors
    /// When the thread panicked.
    pub fn finish(mut self) -> Result<Group> {
        self.work = None;
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.ok_or_else(|| Error::new(Code::Internal, "the thread that reduces has panicked"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // Its group is dropped with what it returns; a panic has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}
