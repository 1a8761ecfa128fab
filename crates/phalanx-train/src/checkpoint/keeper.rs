//! The chief's thread that saves at its pace and restores a server that returns. Training does not wait for it.

use super::{Recovered, Restorer, Saved, Saver};
use crate::Server;
use crate::job::Job;
use crate::summary::SummaryWriter;
use phalanx_base::{Code, Context, Error, Fault, Result, TaskId};
use phalanx_cluster::Phase;
use phalanx_ps::Client;
use phalanx_ps::client::{Remote, ServerState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks whether there is something to do.
const LOOK: Duration = Duration::from_millis(50);

/// How long after a server could not be restored it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How often a server is asked what it has missed, and for how long.
const COUNT: Duration = Duration::from_millis(500);
const COUNT_FOR: Duration = Duration::from_secs(30);

/// How often the run directory is looked for.
const LOOK_AT_DIRECTORY: Duration = Duration::from_secs(2);

/// When to save: at once, then whenever so much time or so many steps have passed; never, where neither is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) every: Option<Duration>,
    pub(crate) steps: Option<u64>,
}

/// How far training is, as far as a chief has heard that does not train itself.
pub(crate) type Follow = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Default)]
struct State {
    step: u64,
    /// Where the step is found instead.
    follows: Option<Follow>,
    /// How many saves were asked for, how many of those are done, and how the newest went.
    asked: u64,
    done: u64,
    failure: Option<Error>,
    newest: Option<Saved>,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's handle; dropped, it ends the thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// Set when nobody needs the thread any more: a call that waits for a server then gives up.
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread, with connections of its own.
    pub(crate) fn start(
        server: &Server,
        remote: Remote,
        saver: Saver,
        pace: Pace,
        summaries: Arc<SummaryWriter>,
        uncounted: Vec<usize>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let ending = Arc::new(AtomicBool::new(false));
        let needless = {
            let ending = Arc::clone(&ending);
            move |job: &Job| job.phase() == Phase::Over || ending.load(Ordering::Acquire)
        };
        let client = server.client_until(needless.clone())?;
        // A save that waits for a lost server would keep this thread from restoring it.
        let saving = server.client_until(move |job| needless(job) || job.lacks_a_server())?;
        let (server, theirs) = (server.clone(), Arc::clone(&shared));
        let counting = uncounted.into_iter().map(Counting::new).collect();
        let (last, again, looked, empty) = (None, Again::default(), Instant::now(), Vec::new());
        let work =
            Work { server, client, saving, remote, saver, pace, summaries, last, again, looked, empty, counting };
        let thread = std::thread::Builder::new().name("phalanx-keeper".into()).spawn(move || work.run(&theirs));
        let thread = thread.context(Code::Internal, "the thread that saves cannot be started")?;
        Ok(Self { shared, ending, thread: Some(thread) })
    }

    /// Takes note how far training is.
    pub(crate) fn reached(&self, step: u64) {
        self.shared.lock().step = step;
    }

    /// For a chief that does not train itself: see [`Follow`].
    pub(crate) fn follow(&self, follow: Follow) {
        self.shared.lock().follows = Some(follow);
    }

    /// Saves now and waits for it.
    pub(crate) fn save(&self, deadline: Duration) -> Result<()> {
        let until = Instant::now() + deadline;
        let mut state = self.shared.lock();
        state.asked += 1;
        let wanted = state.asked;
        self.shared.changed.notify_all();
        while state.done < wanted {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(Error::new(Code::OutcomeUnknown, "the checkpoint was not saved in time"));
            }
            let waited = self.shared.changed.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// The newest checkpoint that this life saved.
    pub(crate) fn newest(&self) -> Option<Saved> {
        self.shared.lock().newest.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.ending.store(true, Ordering::Release);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Work {
    server: Server,
    client: Client,
    saving: Client,
    remote: Remote,
    saver: Saver,
    pace: Pace,
    summaries: Arc<SummaryWriter>,
    /// When and at which step a save was last tried.
    last: Option<(Instant, u64)>,
    /// When a save that failed is tried again.
    again: Again,
    /// When the run directory was last looked for.
    looked: Instant,
    /// Servers that are back and have not got their part yet.
    empty: Vec<Empty>,
    /// Servers of which nobody could say how much they had lost.
    counting: Vec<Counting>,
}

/// A server that counts what it has missed while trainers push to it again.
struct Counting {
    server: usize,
    until: Instant,
    next: Instant,
}

impl Counting {
    fn new(server: usize) -> Self {
        let now = Instant::now();
        Self { server, until: now + COUNT_FOR, next: now + COUNT }
    }
}

/// When a save that failed is tried again: after 5 s, 10 s, 20 s and so on, and not after a whole interval.
#[derive(Debug, Default)]
struct Again {
    failures: u32,
    at: Option<Instant>,
}

impl Again {
    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(300);

    fn tried(&mut self, ok: bool, now: Instant) {
        if ok {
            *self = Self::default();
            return;
        }
        let pause = Self::FIRST.saturating_mul(1 << self.failures.min(10)).min(Self::LONGEST);
        self.failures += 1;
        self.at = Some(now + pause);
    }
}

/// A server that is back and holds nothing.
struct Empty {
    task: TaskId,
    /// When it is given up, and when it is tried next.
    until: Instant,
    next: Instant,
}

impl Work {
    fn run(mut self, shared: &Shared) {
        if let Err(error) = self.saver.catalog().sweep() {
            self.server.say(&format!("training goes on, but: {error}"));
        }
        loop {
            let (step, asked) = {
                let mut state = shared.lock();
                if !state.stop && state.asked == state.done {
                    let waited = shared.changed.wait_timeout(state, LOOK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                if state.stop && state.asked == state.done {
                    return;
                }
                let (step, follow) = (state.step, state.follows.clone());
                let asked = state.asked;
                drop(state);
                (follow.map_or(step, |follow| follow()), asked)
            };
            self.recover(step);
            self.count_missed();
            self.look_after_directory();
            // A server without its part could not be saved.
            let awaited = asked > shared.lock().done;
            if self.empty.is_empty() && (awaited || self.is_due(step)) {
                self.last = Some((Instant::now(), step));
                let saved = self.save(awaited);
                self.again.tried(saved.is_ok(), Instant::now());
                let mut state = shared.lock();
                state.done = asked;
                match saved {
                    Ok(saved) => {
                        state.newest = saved.or(state.newest.take());
                        state.failure = None;
                    }
                    Err(error) => state.failure = Some(error),
                }
                shared.changed.notify_all();
            }
        }
    }

    fn is_due(&self, step: u64) -> bool {
        if self.pace == Pace::default() {
            return false;
        }
        if let Some(at) = self.again.at {
            return Instant::now() >= at;
        }
        let Some((tried, at)) = self.last else { return true };
        self.pace.every.is_some_and(|every| tried.elapsed() >= every)
            || self.pace.steps.is_some_and(|steps| step >= at.saturating_add(steps))
    }

    /// Saves. What goes wrong is said, unless somebody waits for this save: they hear it from us.
    fn save(&mut self, awaited: bool) -> Result<Option<Saved>> {
        let saved = self.saver.save(&self.saving);
        for notice in self.saver.take_notices() {
            self.server.say(&format!("{}: {notice}", notice.code()));
        }
        match &saved {
            Ok(Some(saved)) => {
                self.server.say(&saved.to_string());
                saved.undeleted.iter().for_each(|error| self.server.say(&format!("training goes on, but: {error}")));
                self.summaries.saved(saved.global_step, &saved.name);
            }
            Ok(None) => {}
            // At the end of the job, connections go with it.
            Err(_) if awaited || self.server.job().phase() == Phase::Over => {}
            Err(error) => self.server.say(&format!("training goes on, but no checkpoint was saved: {error}")),
        }
        saved
    }

    /// Gives servers that were started anew their part of the newest checkpoint; tries again where that fails for reasons
    /// that may pass.
    fn recover(&mut self, step: u64) {
        for task in self.server.job().take_returned() {
            self.saver.forget_who_sees();
            self.empty.retain(|known| known.task != task);
            let now = Instant::now();
            self.empty.push(Empty { task, until: now + self.server.options().server_grace, next: now });
        }
        for mut empty in std::mem::take(&mut self.empty) {
            if Instant::now() < empty.next {
                self.empty.push(empty);
                continue;
            }
            match self.recover_one(empty.task, step) {
                Ok(()) => {}
                Err(error) if error.code().fault() == Fault::Infrastructure && Instant::now() < empty.until => {
                    self.server.say(&format!("{} could not be restored yet: {error}", empty.task));
                    empty.next = Instant::now() + TRY_AGAIN;
                    self.empty.push(empty);
                }
                Err(error) => self.server.fail_job(error),
            }
        }
    }

    fn recover_one(&mut self, task: TaskId, seen: u64) -> Result<()> {
        let server = task.index as usize;
        let restorer = Restorer::new(&self.server, &self.client, &self.saver);
        let recovered = restorer.recover(&mut self.remote, server, seen);
        if let Ok(Recovered::Restored { name, loss }) = &recovered {
            restorer.report(server, name, loss);
        }
        let damaged = restorer.into_damaged();
        self.saver.forget(&damaged);
        if let Recovered::Restored { loss, .. } = recovered? {
            self.counting.retain(|counting| counting.server != server);
            if loss.at_most.is_none() {
                self.counting.push(Counting::new(server));
            }
        }
        Ok(())
    }

    /// Notices every few seconds whether the run directory was deleted, and saves at once where it was.
    fn look_after_directory(&mut self) {
        if self.looked.elapsed() < LOOK_AT_DIRECTORY {
            return;
        }
        self.looked = Instant::now();
        if let Err(error) = self.saver.look_after_directory() {
            self.server.say(&format!("training goes on, but: {error}"));
        }
        for notice in self.saver.take_notices() {
            self.server.say(&format!("{}: {notice}", notice.code()));
            self.last = None;
        }
    }

    /// Logs what a server has missed, once every trainer that is here has pushed to it again.
    fn count_missed(&mut self) {
        for mut counting in std::mem::take(&mut self.counting) {
            let now = Instant::now();
            if now < counting.next {
                self.counting.push(counting);
                continue;
            }
            counting.next = now + COUNT;
            let state = self.client.state_within(counting.server, COUNT);
            let trainers = self.server.config().trainers();
            let mut live = self.server.live();
            live.retain(|(task, _)| trainers.iter().any(|(trainer, _)| trainer == task));
            let pushed = |state: &ServerState| {
                let records = &state.survey.records;
                live.iter().all(|life| records.iter().any(|record| record.life == *life && !record.behind))
            };
            match state {
                Ok(state) if pushed(&state) || now >= counting.until => self.server.say(&format!(
                    "ps/{} has missed {} steps that the trainers here had pushed before",
                    counting.server, state.missed
                )),
                Err(_) if now >= counting.until => {}
                _ => self.counting.push(counting),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_that_failed_is_tried_again_soon_and_then_less_often() {
        let (mut again, start) = (Again::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            again.tried(false, start);
            pauses.push((again.at.unwrap() - start).as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        again.tried(true, start);
        assert!(again.at.is_none());
        again.tried(false, start);
        assert_eq!((again.at.unwrap() - start).as_secs(), 5);
    }
}
