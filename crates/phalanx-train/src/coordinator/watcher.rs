//! The chief's thread beside the user's: it shuts lost workers out and gives their steps to others, closes rounds, and
//! writes down how training goes.

use super::shared::Shared;
use crate::Server;
use crate::services::Watch;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::{Consistency, Life};
use phalanx_ps::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it looks around when nothing happens.
const LOOK: Duration = Duration::from_millis(10);
/// How often the servers are asked how far training is.
const ASK: Duration = Duration::from_millis(200);

/// Since when there has been no worker, and when that was last said.
#[derive(Default)]
struct Alone {
    since: Option<Instant>,
    told: Duration,
}

pub(super) struct Watcher {
    pub(super) server: Server,
    pub(super) shared: Arc<Shared>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) services: Watch,
}

impl Watcher {
    pub(super) fn run(mut self) {
        let client = match self.server.client() {
            Ok(client) => client,
            Err(error) => return self.shared.fail(error),
        };
        let mut asked = Instant::now();
        let mut alone = Alone::default();
        while !self.stop.load(Ordering::Acquire) {
            let job = self.server.job();
            if let Some(error) = job.interrupted().or_else(|| job.failure()) {
                // Whatever the program waits for, it hears of it.
                self.shared.fail(error);
            }
            self.shut_out_the_lost(&client);
            if let Err(error) = self.close_round(&client) {
                self.fail(error);
            }
            self.say_who_stands_still();
            self.look_for_workers(&mut alone);
            if asked.elapsed() >= ASK {
                asked = Instant::now();
                // A server that does not answer is somebody else's worry.
                if let Ok((step, description)) = client.progress() {
                    self.services.reached(step, &description.staleness);
                }
            }
            if !matches!(self.shared.options.consistency, Consistency::Rounds { .. }) {
                // Nobody waits for what this thread does: it need not hear of every step.
                std::thread::sleep(LOOK);
                continue;
            }
            let queue = self.shared.lock();
            if queue.complete_round().is_none() {
                drop(self.shared.wait(queue, LOOK));
            }
        }
    }

    fn fail(&self, error: Error) {
        if !self.server.should_stop() {
            self.shared.fail(error);
        }
    }

    fn shut_out_the_lost(&self, client: &Client) {
        let mut lost: BTreeSet<Life> = self.server.job().take_lost().into_iter().map(Life::from).collect();
        {
            let mut queue = self.shared.lock();
            lost.retain(|&life| !queue.is_over(life));
            for &life in &lost {
                // One that never asked has no steps, but may have pushed for a former chief.
                let _ = queue.lost(life);
            }
            lost.extend(queue.to_fence());
        }
        for life in lost {
            match client.fence(life.task, life.incarnation) {
                Ok(progress) => {
                    let mut queue = self.shared.lock();
                    let known = queue.has(life);
                    let remark = queue.fenced(life, &progress).err();
                    drop(queue);
                    if known {
                        let remark = remark.map_or(String::new(), |remark| format!(" ({remark})"));
                        self.server.say(&format!("{} is lost; its steps go to other workers{remark}", life.task));
                    }
                    self.shared.notify_changed();
                    self.shared.notify_work();
                }
                Err(_) if self.server.should_stop() => return,
                // Tried again in a moment.
                Err(error) => {
                    self.server.say(&format!("{} cannot be shut out yet: {error}", life.task));
                    self.server.job().add_lost(vec![(life.task, life.incarnation)]);
                }
            }
        }
    }

    fn close_round(&self, client: &Client) -> Result<()> {
        let Some(round) = self.shared.lock().complete_round() else { return Ok(()) };
        if client.close_round(round)? {
            self.shared.lock().round_closed(round);
            self.shared.committed.store(round + 1, Ordering::Release);
            self.shared.notify_changed();
            self.shared.notify_work();
        }
        Ok(())
    }

    /// Steps wait for workers to come back, but not for ever.
    fn look_for_workers(&self, alone: &mut Alone) {
        let waiting = {
            let queue = self.shared.lock();
            let nobody = queue.workers(self.shared.now()).all(|worker| worker.lost);
            (nobody && !queue.is_done()).then(|| queue.unfinished())
        };
        let Some(steps) = waiting else { return *alone = Alone::default() };
        let since = *alone.since.get_or_insert_with(Instant::now);
        let longest = self.server.options().formation_deadline;
        if since.elapsed() > longest {
            let error = Error::new(Code::JobFailed, format!("no worker is left, and {steps} steps wait"));
            let why = format!("none has come for {} s", longest.as_secs());
            self.fail(error.because(why).help("start workers, then the chief again: it takes the job over"));
        } else if since.elapsed() > alone.told + Duration::from_secs(10) {
            alone.told = since.elapsed();
            self.server.say(&format!("{steps} steps wait: no worker has been here for {} s", alone.told.as_secs()));
        }
    }

    fn say_who_stands_still(&self) {
        let stalled = self.shared.lock().standing_still(self.shared.now());
        for stalled in stalled {
            self.server.say(&stalled.to_string());
        }
    }
}
