//! The chief's thread that saves at an interval and restores a server that returns. Training does not wait for it.

use super::{CheckpointInterval, Recovered, Restorer, Saved, Saver};
use crate::Server;
use crate::job::Job;
use crate::summary::SummaryWriter;
use phalanx_base::{Code, Context, Error, Fault, Result, TaskId};
use phalanx_cluster::Phase;
use phalanx_ps::Client;
use phalanx_ps::client::{RemoteModel, ServerDescription};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread checks whether there is something to do.
const LOOK: Duration = Duration::from_millis(50);

/// The pause before another attempt to restore a server.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How often, and for how long, a server is asked what it has missed.
const COUNT: Duration = Duration::from_millis(500);
const COUNT_FOR: Duration = Duration::from_secs(30);

/// How often the run directory is checked.
const CHECK_DIRECTORY: Duration = Duration::from_secs(2);

/// Returns the global step, for a chief that does not train itself.
pub(crate) type StepSource = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Default)]
struct State {
    step: u64,
    /// The source of the step, where it is not set.
    source: Option<StepSource>,
    /// How many saves were requested, how many of those are done, and the error of the newest.
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

/// The handle of the thread. Dropping it ends the thread.
pub(crate) struct CheckpointManager {
    shared: Arc<Shared>,
    /// Set when the thread is not needed any more: a call that waits for a server then gives up.
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CheckpointManager {
    /// Starts the thread, with connections of its own. `saved` is the step of the newest checkpoint, where the servers are at that
    /// step: the first interval then begins now.
    pub(crate) fn start(
        server: &Server,
        remote: RemoteModel,
        saver: Saver,
        (interval, saved): (CheckpointInterval, Option<u64>),
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
        let (retry, began, empty) = (Retry::default(), Instant::now(), Vec::new());
        let last = saved.map(|step| (began, step));
        let pause = interval.time.map_or(Duration::ZERO, |time| time.pause(Duration::ZERO, Duration::ZERO));
        let checked = began;
        let work = Work {
            server,
            client,
            saving,
            remote,
            saver,
            interval,
            summaries,
            began,
            last,
            pause,
            retry,
            checked,
            empty,
            counting,
        };
        let thread = std::thread::Builder::new().name("phalanx-ckpt".into()).spawn(move || work.run(&theirs));
        let thread = thread.context(Code::Internal, "the thread that saves cannot be started")?;
        Ok(Self { shared, ending, thread: Some(thread) })
    }

    /// Sets the global step.
    pub(crate) fn reached(&self, step: u64) {
        self.shared.lock().step = step;
    }

    /// Takes the global step from `source` from now on.
    pub(crate) fn follow(&self, source: StepSource) {
        self.shared.lock().source = Some(source);
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

    /// Returns the newest checkpoint that this incarnation saved.
    pub(crate) fn newest(&self) -> Option<Saved> {
        self.shared.lock().newest.clone()
    }
}

impl Drop for CheckpointManager {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.ending.store(true, Ordering::Release);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Work {
    server: Server,
    client: Client,
    saving: Client,
    remote: RemoteModel,
    saver: Saver,
    interval: CheckpointInterval,
    summaries: Arc<SummaryWriter>,
    began: Instant,
    /// The time and the step of the last attempt to save, or of the start with a checkpoint of that step.
    last: Option<(Instant, u64)>,
    /// The time from that attempt to the next.
    pause: Duration,
    retry: Retry,
    /// When the run directory was last checked.
    checked: Instant,
    /// Servers that are back and not restored yet.
    empty: Vec<Empty>,
    /// Servers whose loss is not known yet.
    counting: Vec<Counting>,
}

/// A restored server that counts the steps it has missed while trainers push to it again.
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

/// When a save that failed is tried again: after 5 s, 10 s, 20 s and so on, at most 300 s.
#[derive(Debug, Default)]
struct Retry {
    failures: u32,
    at: Option<Instant>,
}

impl Retry {
    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(300);

    fn record(&mut self, ok: bool, now: Instant) {
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
    /// The deadline, and the time of the next attempt.
    until: Instant,
    next: Instant,
}

impl Work {
    fn run(mut self, shared: &Shared) {
        if let Err(error) = self.saver.checkpoints().sweep() {
            self.warn(&error);
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
                let (step, source) = (state.step, state.source.clone());
                let asked = state.asked;
                drop(state);
                (source.map_or(step, |source| source()), asked)
            };
            self.recover(step);
            self.count_missed();
            self.check_directory();
            // A server that is not restored cannot be saved.
            let awaited = asked > shared.lock().done;
            if self.empty.is_empty() && (awaited || self.is_due(step)) {
                let started = Instant::now();
                self.last = Some((started, step));
                let saved = self.save(awaited);
                if let Some(time) = self.interval.time {
                    self.pause = time.pause(started - self.began, started.elapsed());
                }
                self.retry.record(saved.is_ok(), Instant::now());
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
        if self.interval == CheckpointInterval::default() {
            return false;
        }
        if let Some(at) = self.retry.at {
            return Instant::now() >= at;
        }
        let Some((tried, at)) = self.last else { return true };
        self.interval.time.is_some() && tried.elapsed() >= self.pause
            || self.interval.steps.is_some_and(|steps| step >= at.saturating_add(steps))
    }

    /// Saves. Logs a failure, unless a caller waits for this save and gets it.
    fn save(&mut self, awaited: bool) -> Result<Option<Saved>> {
        let saved = self.saver.save(&self.saving);
        self.log_notices();
        match &saved {
            Ok(Some(saved)) => {
                self.server.in_scope(|| saved.log());
                saved.undeleted.iter().for_each(|error| self.warn(error));
                self.summaries.saved(saved.global_step, &saved.name);
            }
            Ok(None) => {}
            // Connections are lost at the end of the job.
            Err(_) if awaited || self.server.job().phase() == Phase::Over => {}
            Err(error) => self.server.in_scope(|| {
                tracing::warn!(code = %error.code(), "training continues, but no checkpoint was saved: {error}");
            }),
        }
        saved
    }

    /// Restores servers that were started again from the newest checkpoint; tries again where that fails for reasons that may
    /// pass.
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
                    let task = empty.task;
                    self.server.in_scope(|| {
                        tracing::warn!(server = %task, code = %error.code(), "{task} could not be restored yet: {error}");
                    });
                    empty.next = Instant::now() + TRY_AGAIN;
                    self.empty.push(empty);
                }
                Err(error) => self.server.chief().into_iter().for_each(|chief| chief.fail(error.clone())),
            }
        }
    }

    fn recover_one(&mut self, task: TaskId, seen: u64) -> Result<()> {
        let server = task.index as usize;
        let recover = |restorer: &Restorer<'_>| restorer.recover(&mut self.remote, server, seen);
        if let Recovered::Restored { loss, .. } = self.saver.restoring(&self.server, &self.client, recover)? {
            self.counting.retain(|counting| counting.server != server);
            if loss.at_most.is_none() {
                self.counting.push(Counting::new(server));
            }
        }
        Ok(())
    }

    /// Checks every few seconds whether the run directory was deleted, and saves at once where it was.
    fn check_directory(&mut self) {
        if self.checked.elapsed() < CHECK_DIRECTORY {
            return;
        }
        self.checked = Instant::now();
        if let Err(error) = self.saver.check_directory() {
            self.warn(&error);
        }
        if self.log_notices() {
            self.last = None;
        }
    }

    fn warn(&self, error: &Error) {
        self.server.in_scope(|| tracing::warn!(code = %error.code(), "training continues, but: {error}"));
    }

    /// Logs what there is to know about the directory, and returns whether there was something.
    fn log_notices(&mut self) -> bool {
        let notices = self.saver.take_notices();
        for notice in &notices {
            let code = notice.code();
            self.server.in_scope(|| tracing::warn!(%code, "{code}: {notice}"));
        }
        !notices.is_empty()
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
            let state = self.client.describe_within(counting.server, COUNT);
            let trainers = self.server.config().trainers();
            let mut live = self.server.live();
            live.retain(|(task, _)| trainers.iter().any(|(trainer, _)| trainer == task));
            let pushed = |state: &ServerDescription| {
                let records = &state.survey.records;
                live.iter().all(|life| records.iter().any(|record| record.task == *life && !record.behind))
            };
            match state {
                Ok(state) if pushed(&state) || now >= counting.until => {
                    let (server, missed) = (counting.server, state.missed);
                    self.server.in_scope(|| {
                        tracing::warn!(
                            server,
                            missed,
                            "ps/{server} has missed {missed} steps that the trainers here had pushed before"
                        );
                    });
                }
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
        let (mut retry, start) = (Retry::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            retry.record(false, start);
            pauses.push((retry.at.unwrap() - start).as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        retry.record(true, start);
        assert!(retry.at.is_none());
        retry.record(false, start);
        assert_eq!((retry.at.unwrap() - start).as_secs(), 5);
    }
}
