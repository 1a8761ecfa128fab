//! The chief: it schedules steps, waits for them, and deals with workers that are lost.

use super::shared::{Shared, Work};
use super::watcher::Watcher;
use super::{RemoteValue, Steps};
use crate::session::Turn;
use crate::{Server, Session};
use phalanx_base::{Code, Context, Error, Incarnation, Result, TaskId};
use phalanx_cluster::schedule::{Effect, Life, Options, Why, WorkerView};
use phalanx_nn::burn::module::Module;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How old updates were when they were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Staleness {
    /// How many updates came so many steps after the values that they were computed on; the last of 64 numbers counts all
    /// that were older.
    pub counts: Vec<u64>,
    /// How many steps an update's worker was behind the foremost one at most.
    pub widest_lag: u64,
}

/// Hands steps to workers; [`ParameterServerStrategy::run`](super::ParameterServerStrategy::run) makes one.
///
/// ```
/// use phalanx_nn::burn::nn::{Linear, LinearConfig};
/// use phalanx_optim::Sgd;
/// use phalanx_train::{MiniCluster, ParameterServerStrategy, Steps, Supervisor};
/// let sums = MiniCluster::start(1, 3)?.run(|server| {
///     let steps = Steps::<Linear>::new().evaluation("square", |cx| Ok(vec![cx.arguments()[0] * cx.arguments()[0]]));
///     let model = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
///     ParameterServerStrategy::new(Supervisor::new(server, Sgd::new(0.1))).run(model, steps, |coordinator| {
///         let squares = [1.0, 2.0, 3.0].map(|x| coordinator.schedule("square", &[x]));
///         coordinator.join()?;
///         squares.into_iter().map(|value| Ok(value?.fetch()?[0])).sum::<phalanx_base::Result<f64>>()
///     })
/// })?;
/// assert_eq!(sums, Some(14.0));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Coordinator<M> {
    server: Server,
    session: Option<Session<M>>,
    steps: Steps<M>,
    shared: Arc<Shared>,
    watching: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl<M: Module> Coordinator<M> {
    pub(super) fn start(server: &Server, mut session: Session<M>, steps: Steps<M>, options: Options) -> Result<Self> {
        let client = server.client()?;
        let known = client.lives()?;
        let (step, description) = client.progress()?;
        let shared = Arc::new(Shared::new(server.client_options().incarnation.0, options, step));
        shared.lock().start_at(description.newest_clock, step);
        server.desk()?.open(Arc::clone(&shared));
        let stop = Arc::new(AtomicBool::new(false));
        let services = session.follow({
            let shared = Arc::clone(&shared);
            Arc::new(move || shared.committed.load(Ordering::Acquire))
        });
        let watcher =
            Watcher { server: server.clone(), shared: Arc::clone(&shared), stop: Arc::clone(&stop), services };
        let thread = std::thread::Builder::new().name("phalanx-losses".into()).spawn(move || watcher.run());
        let thread = thread.context(Code::Internal, "the thread that looks for losses cannot be started")?;
        let watching = Some((stop, thread));
        let mut coordinator = Self { server: server.clone(), session: Some(session), steps, shared, watching };
        coordinator.wait_for_former_workers(known)?;
        Ok(coordinator)
    }

    /// Workers of a former chief finish what they were pushing and join this one, or are shut out: from then on, the count
    /// of committed steps does not change by itself.
    fn wait_for_former_workers(&mut self, known: BTreeSet<(TaskId, Incarnation)>) -> Result<()> {
        if known.is_empty() {
            return Ok(());
        }
        self.server.take_over(known.clone());
        let own = self.server.task();
        let began = Instant::now();
        let mut told = began;
        loop {
            self.shared.check()?;
            let queue = self.shared.lock();
            let away = |life: Life| life.task != own && !queue.has(life) && !queue.is_over(life);
            let away: Vec<Life> = known.iter().map(|&life| Life::from(life)).filter(|&life| away(life)).collect();
            if away.is_empty() {
                return Ok(());
            }
            if began.elapsed() > self.server.options().formation_deadline {
                // Whatever keeps them: the job does not wait for them any longer.
                self.server.job().add_lost(away.iter().map(|life| (life.task, life.incarnation)).collect());
            }
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                let names: Vec<String> = away.iter().map(|life| life.task.to_string()).collect();
                self.server.say(&format!("waiting for {} to finish their steps of the former chief", names.join(", ")));
            }
            drop(self.shared.wait(queue, Duration::from_millis(20)));
        }
    }

    /// Puts a step into the queue: the function that every worker registered under this name, with these arguments.
    /// Waits where the queue is full.
    ///
    /// # Errors
    /// When nothing is registered under that name, an earlier step failed (its error is then raised here, once), or the
    /// job cannot go on.
    pub fn schedule(&mut self, function: &str, arguments: &[f64]) -> Result<RemoteValue> {
        let (effect, _) = *self.steps.function(function)?;
        let mut work = Work { function: function.into(), arguments: arguments.into() };
        let bytes = function.len() + 8 * arguments.len();
        let mut queue = self.shared.lock();
        loop {
            self.shared.check()?;
            if let Some(error) = queue.raise() {
                return Err(error);
            }
            match queue.schedule(work, bytes, effect) {
                Ok(step) => {
                    if effect == Effect::Update {
                        queue.adopt_owed(step);
                    }
                    drop(queue);
                    self.shared.notify_work();
                    return Ok(RemoteValue::new(step, Arc::clone(&self.shared)));
                }
                Err(refused) if matches!(refused.why, Why::TooLarge) => {
                    return Err(Error::new(Code::BadSetting, format!("a step's arguments take {bytes} bytes"))
                        .because("they are more than the whole queue may hold"));
                }
                Err(refused) => {
                    work = refused.work;
                    queue = self.shared.wait(queue, Duration::from_millis(200));
                }
            }
        }
    }

    /// Waits until every step is done.
    ///
    /// # Errors
    /// The first error of a step, once, when nothing runs any more; and when the job cannot go on.
    pub fn join(&mut self) -> Result<()> {
        let mut queue = self.shared.lock();
        loop {
            self.shared.check()?;
            if let Some(error) = queue.raise() {
                return Err(error);
            }
            // The last round may have fewer gradients; it is closed now.
            if queue.is_done() && queue.complete_round().is_none() {
                return Ok(());
            }
            queue = self.shared.wait(queue, Duration::from_millis(200));
        }
    }

    /// Whether every step is done.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn done(&mut self) -> Result<bool> {
        self.shared.check()?;
        let mut queue = self.shared.lock();
        queue.raise().map_or_else(|| Ok(queue.is_done()), Err)
    }

    /// How every worker is doing: steps done, and how old its oldest one is.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerView> {
        self.shared.lock().workers(self.shared.now()).collect()
    }

    /// How old updates were when they were applied, since the server that counts steps was started.
    ///
    /// # Errors
    /// When that server does not answer.
    pub fn staleness(&self) -> Result<Staleness> {
        let (_, description) = self.server.client()?.progress()?;
        Ok(Staleness { counts: description.staleness, widest_lag: description.widest_lag })
    }

    /// The model with the newest values, for an evaluation by the chief itself.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn newest_model(&mut self) -> Result<&M> {
        self.refresh()?;
        self.session()?.model()
    }

    pub(super) fn refresh(&mut self) -> Result<()> {
        let closed = self.shared.lock().closed_rounds();
        let session = self.session_mut()?;
        session.take_turn(Turn { closed, ..Turn::default() });
        session.refresh()
    }

    /// The steps that were ever committed; in rounds, those that were closed. A program that was started again goes on
    /// from here.
    ///
    /// # Errors
    /// When the server that counts them does not answer.
    pub fn global_step(&mut self) -> Result<u64> {
        self.refresh()?;
        Ok(self.session()?.global_step())
    }

    /// Runs a function of all workers once for each of `parts` parts, with the arguments (part, parts), and adds their
    /// results up, number by number: an evaluation in which every example counts once, whoever is lost meanwhile.
    ///
    /// # Errors
    /// The error of a part, and as [`Self::schedule`].
    pub fn sum_over_parts(&mut self, function: &str, parts: usize) -> Result<Vec<f64>> {
        let scheduled: Result<Vec<RemoteValue>> =
            (0..parts).map(|part| self.schedule(function, &[part as f64, parts as f64])).collect();
        let mut sums: Vec<f64> = Vec::new();
        for value in scheduled? {
            let result = value.fetch()?;
            sums.resize(sums.len().max(result.len()), 0.0);
            sums.iter_mut().zip(result).for_each(|(sum, number)| *sum += number);
        }
        Ok(sums)
    }

    /// Waits for several results.
    ///
    /// # Errors
    /// As [`RemoteValue::fetch`].
    pub fn fetch(&self, values: &[RemoteValue]) -> Result<Vec<Vec<f64>>> {
        values.iter().map(RemoteValue::fetch).collect()
    }

    /// The chief's own connection to the model: values, checkpoints, summaries.
    ///
    /// # Errors
    /// When there is no model.
    pub fn session_mut(&mut self) -> Result<&mut Session<M>> {
        self.session.as_mut().ok_or_else(gone)
    }

    pub(super) fn session(&self) -> Result<&Session<M>> {
        self.session.as_ref().ok_or_else(gone)
    }

    /// Whether nothing waits or runs.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.lock().is_done()
    }

    /// Ends coordinating; the session is left.
    pub(super) fn finish(mut self) -> Result<Session<M>> {
        self.stop();
        self.session.take().ok_or_else(gone)
    }
}

impl<M> Coordinator<M> {
    fn stop(&mut self) {
        if let Some((stop, thread)) = self.watching.take() {
            stop.store(true, Ordering::Release);
            // It ends by its own deadlines.
            let _ = thread.join();
        }
        self.shared.lock().end();
        self.shared.notify_changed();
        self.shared.notify_work();
    }
}

impl<M> Drop for Coordinator<M> {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(super) fn gone() -> Error {
    Error::new(Code::Internal, "the model is gone")
}
