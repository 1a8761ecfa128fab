//! The chief's second thread: it fences lost workers and reassigns their steps, closes rounds, and writes the progress of
//! training.

use super::state::CoordinatorState;
use crate::Server;
use crate::services::ProgressWriter;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::{Consistency, TaskIncarnation};
use phalanx_ps::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval of the loop while nothing happens.
const LOOK: Duration = Duration::from_millis(10);
/// How often the servers are asked for the global step.
const ASK: Duration = Duration::from_millis(200);

/// Since when there has been no worker, and when that was last logged.
#[derive(Default)]
struct Alone {
    since: Option<Instant>,
    logged: Duration,
}

pub(super) struct Watcher {
    pub(super) server: Server,
    pub(super) state: Arc<CoordinatorState>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) services: ProgressWriter,
}

impl Watcher {
    pub(super) fn run(mut self) {
        let client = match self.server.client() {
            Ok(client) => client,
            Err(error) => return self.state.fail(error),
        };
        let mut asked = Instant::now();
        let mut alone = Alone::default();
        while !self.stop.load(Ordering::Acquire) {
            let job = self.server.job();
            if let Some(error) = job.interrupted().or_else(|| job.failure()) {
                // Wakes the program, whatever it waits for.
                self.state.fail(error);
            }
            self.fence_lost_workers(&client);
            if let Err(error) = self.close_round(&client) {
                self.fail(error);
            }
            self.log_stalled_workers();
            self.log_refused_workers();
            self.check_workers(&mut alone);
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                // A server that does not answer is handled elsewhere.
                if let Ok(description) = client.describe(0) {
                    self.services.reached(description.global_step, &description.staleness);
                }
            }
            if !matches!(self.state.options.consistency, Consistency::Rounds { .. }) {
                // Nobody waits for this thread, so it need not wake at every step.
                std::thread::sleep(LOOK);
                continue;
            }
            let queue = self.state.lock();
            if queue.complete_round().is_none() {
                drop(self.state.wait(queue, LOOK));
            }
        }
    }

    fn fail(&self, error: Error) {
        if !self.server.should_stop() {
            self.state.fail(error);
        }
    }

    fn fence_lost_workers(&self, client: &Client) {
        let mut lost: BTreeSet<TaskIncarnation> =
            self.server.job().take_lost().into_iter().map(TaskIncarnation::from).collect();
        {
            let mut queue = self.state.lock();
            lost.retain(|&life| !queue.is_over(life));
            for &life in &lost {
                // A worker that never polled has no steps, but may have pushed for a former chief.
                let _ = queue.lost(life);
            }
            lost.extend(queue.to_fence());
        }
        for life in lost {
            match client.fence(life.task, life.incarnation) {
                Ok(progress) => {
                    let mut queue = self.state.lock();
                    let known = queue.has(life);
                    let rejection = queue.fenced(life, &progress).err();
                    drop(queue);
                    if known {
                        let rejection = rejection.map_or(String::new(), |rejection| format!(" ({rejection})"));
                        let task = life.task;
                        self.server.in_scope(|| {
                            tracing::warn!(worker = %task, "{task} is lost; its steps go to other workers{rejection}");
                        });
                    }
                    self.state.notify_changed();
                    self.state.notify_work();
                }
                Err(_) if self.server.should_stop() => return,
                // Tried again with the next loop.
                Err(error) => {
                    let task = life.task;
                    self.server.in_scope(|| {
                        tracing::warn!(worker = %task, code = %error.code(), "{task} cannot be fenced yet: {error}");
                    });
                    self.server.job().add_lost(vec![(life.task, life.incarnation)]);
                }
            }
        }
    }

    fn close_round(&self, client: &Client) -> Result<()> {
        let Some(round) = self.state.lock().complete_round() else { return Ok(()) };
        if client.close_round(round)? {
            self.state.lock().round_closed(round);
            self.state.committed.store(round + 1, Ordering::Release);
            self.state.notify_changed();
            self.state.notify_work();
        }
        Ok(())
    }

    /// Fails the job where steps have waited too long for a worker.
    fn check_workers(&self, alone: &mut Alone) {
        let waiting = {
            let queue = self.state.lock();
            let nobody = queue.workers(self.state.now()).all(|worker| worker.lost);
            (nobody && !queue.is_done()).then(|| queue.unfinished())
        };
        let Some(steps) = waiting else { return *alone = Alone::default() };
        let since = *alone.since.get_or_insert_with(Instant::now);
        let longest = self.server.options().formation_deadline;
        if since.elapsed() > longest {
            let error = Error::new(Code::JobFailed, format!("no worker is left, and {steps} steps wait"));
            let why = format!("none has come for {} s", longest.as_secs());
            self.fail(error.because(why).help("start workers, then the chief again: it takes the job over"));
        } else if since.elapsed() > alone.logged + Duration::from_secs(10) {
            alone.logged = since.elapsed();
            let seconds = alone.logged.as_secs();
            self.server.in_scope(|| tracing::warn!("{steps} steps wait: no worker has been here for {seconds} s"));
        }
    }

    fn log_refused_workers(&self) {
        for error in self.state.take_refused() {
            self.server.in_scope(|| tracing::warn!(code = %error.code(), "{error}"));
        }
    }

    fn log_stalled_workers(&self) {
        let stalled = self.state.lock().stalled_workers(self.state.now());
        for stalled in stalled {
            self.server.in_scope(|| tracing::warn!("{stalled}"));
        }
    }
}
