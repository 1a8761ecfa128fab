//! A worker: it runs the steps that the coordinator assigns to it, and reports how they ended.
//!
//! A step that pushed gradients is reported when every server has them: they go with the exchange of the next step, or at
//! once where there is none. A step that should have pushed and did not is reported, and the report acknowledged, before
//! anything else is pushed; so the coordinator knows which step every update id belongs to.

use super::codec::check_size;
use super::inputs::Inputs;
use super::messages::{AssignedStep, StepOutput, StepReport};
use super::metrics::StepMetrics;
use super::step_poller::StepPoller;
use super::step_queue::{Next, StepQueue};
use super::{StepContext, StepFunctions};
use crate::mini_cluster::panic_text;
use crate::{Server, Session};
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::schedule::StepEffect;
use phalanx_data::InputContext;
use phalanx_nn::burn::module::Module;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves the steps of a call until it is over; `outcomes` are those of the calls before it.
pub(super) fn serve<M: Module>(
    server: &Server,
    session: &mut Session<M>,
    steps: &StepFunctions<M>,
    call: u64,
    outcomes: &[Bytes],
) -> Result<()> {
    let poller = StepPoller::new(server, steps.describe(), call, outcomes)?;
    let queue = Arc::new(StepQueue::default());
    let polling = {
        let queue = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("phalanx-poll".into());
        thread.spawn(move || poller.run(&queue)).context(Code::Internal, "the thread that polls cannot be started")?
    };
    let inputs = Inputs::new(share(server), session.restore_position());
    let metrics = StepMetrics::new(steps.metrics());
    let step_seconds = AHEAD.as_secs_f64();
    let served = Worker { server, session, steps, inputs, metrics, queue: &queue, unpushed: None, step_seconds }.run();
    queue.leave();
    // It ends by its own deadlines.
    let _ = polling.join();
    served
}

/// Returns this worker's share of the input. The chief computes no steps and has none. A worker that the cluster does not list
/// has a share after those that it lists.
fn share(server: &Server) -> InputContext {
    let config = server.config();
    let listed = config.trainers().len().saturating_sub(1);
    let index = match config.trainer_index() {
        Some(index) => index.saturating_sub(1),
        None => (server.task().index as usize).max(listed),
    };
    let workers = listed.max(index + 1);
    InputContext { num_input_pipelines: workers, input_pipeline_id: index, num_replicas_in_sync: workers }
}

/// A worker holds as many steps as take it this long: enough that it does not poll for every one, few enough to leave others
/// theirs.
const AHEAD: Duration = Duration::from_millis(20);
/// The bounds of that number of steps.
const WINDOW: std::ops::RangeInclusive<f64> = 2.0..=64.0;

struct Worker<'a, M> {
    server: &'a Server,
    session: &'a mut Session<M>,
    steps: &'a StepFunctions<M>,
    inputs: Inputs,
    metrics: StepMetrics,
    queue: &'a StepQueue,
    /// The report of a step whose gradients are not on every server yet.
    unpushed: Option<StepReport>,
    /// How long a step takes: a moving average.
    step_seconds: f64,
}

impl<M: Module> Worker<'_, M> {
    fn run(mut self) -> Result<()> {
        loop {
            let next = match self.queue.try_next() {
                Some(next) => next,
                None => {
                    self.settle()?;
                    self.queue.next()?
                }
            };
            match next {
                Next::Step(assigned) => {
                    let began = Instant::now();
                    if !self.step(&assigned)? {
                        return Ok(());
                    }
                    self.step_seconds += (began.elapsed().as_secs_f64() - self.step_seconds) / 8.0;
                }
                Next::Renew => {
                    // The new coordinator does not know the step; the servers count its update.
                    self.session.flush()?;
                    self.unpushed = None;
                    self.queue.settled(self.session.sent());
                }
                Next::Over => return Ok(()),
            }
        }
    }

    /// Sends the pending gradients, and reports their step.
    fn settle(&mut self) -> Result<()> {
        self.session.flush()?;
        self.report_pushed();
        Ok(())
    }

    fn report_pushed(&mut self) {
        if let Some(report) = self.unpushed.take() {
            self.report(report);
        }
    }

    fn report(&self, report: StepReport) {
        let window = (AHEAD.as_secs_f64() / self.step_seconds.max(1e-9)).clamp(*WINDOW.start(), *WINDOW.end());
        self.queue.report(report, window as usize);
    }

    /// Runs one step; `false` when the job is ending.
    fn step(&mut self, assigned: &AssignedStep) -> Result<bool> {
        let before = self.session.pending_name();
        let (effect, done) = self.compute(assigned);
        let pushed = self.session.pending_name().filter(|name| before != Some(*name));
        if pushed.is_some() {
            // Its exchange has carried the gradients of the step before.
            self.report_pushed();
        }
        if done.is_err() && self.server.should_stop() {
            return Ok(false);
        }
        let output = done.map_err(|error| {
            let (task, id) = (self.server.task(), assigned.attempt_id.step.0);
            let name = self.steps.step(assigned.function).map_or("unknown", |step| &step.name);
            let place = format!("{task}, step {id} ({name}){}", self.inputs.place(self.steps));
            let place = error.place().map_or_else(|| place.clone(), |inner| format!("{place}, {inner}"));
            error.at(place)
        });
        let mut report = StepReport { attempt_id: assigned.attempt_id, sequence: None, output };
        match pushed {
            // A step that fails after it computed its gradients must not push them.
            Some(_) if report.output.is_err() => {
                self.session.forget_last_step();
                self.report_and_wait(report)?;
            }
            Some(name) => {
                report.sequence = Some(name.sequence);
                self.unpushed = Some(report);
                if assigned.directive.round.is_some() {
                    // Others wait for the round.
                    self.settle()?;
                }
            }
            None if effect == StepEffect::Update => self.report_and_wait(report)?,
            None => self.report(report),
        }
        Ok(true)
    }

    fn report_and_wait(&mut self, report: StepReport) -> Result<()> {
        self.settle()?;
        self.report(report);
        self.queue.wait_until_answered()
    }

    fn compute(&mut self, assigned: &AssignedStep) -> (StepEffect, Result<StepOutput>) {
        let step = match self.steps.step(assigned.function) {
            Ok(step) => step,
            Err(error) => return (StepEffect::Update, Err(error)),
        };
        self.session.set_directive(assigned.directive);
        self.metrics.begin();
        let mut cx = StepContext {
            session: self.session,
            inputs: &mut self.inputs,
            metrics: &mut self.metrics,
            steps: self.steps,
            id: assigned.attempt_id.step.0,
            may_push: step.effect == StepEffect::Update,
        };
        let done = catch_unwind(AssertUnwindSafe(|| (step.run)(&mut cx, &assigned.argument))).unwrap_or_else(|panic| {
            Err(Error::new(Code::StepPanicked, "the step panicked").because(panic_text(&*panic)))
        });
        let output = done.and_then(|result| {
            let metrics = self.metrics.encode()?;
            check_size("its result, with the state of its metrics,", result.len() + metrics.len())?;
            Ok(StepOutput { result, metrics })
        });
        (step.effect, output)
    }
}
