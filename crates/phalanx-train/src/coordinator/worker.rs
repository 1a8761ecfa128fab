//! A worker: it runs the steps that the coordinator gives it, and says how they ended.
//!
//! A step that pushed gradients is reported when every server has them: they go with the exchange of the next step, or at
//! once where there is none. One that was to push and did not is reported, and the report answered, before anything else
//! is pushed; so the coordinator knows which step every name belongs to.

use super::asker::Asker;
use super::inbox::{Inbox, Next};
use super::inputs::Inputs;
use super::{StepContext, Steps};
use crate::mini_cluster::panic_text;
use crate::session::Turn;
use crate::{Server, Session};
use phalanx_base::{Code, Context, Error, Result, UpdateName};
use phalanx_cluster::schedule::Effect;
use phalanx_data::InputContext;
use phalanx_nn::burn::module::Module;
use phalanx_wire::proto::coordinate::{Assignment, Report};
use phalanx_wire::to_wire;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves steps until the job is over.
pub(super) fn serve<M: Module>(server: &Server, session: &mut Session<M>, steps: &Steps<M>) -> Result<()> {
    let asker = Asker::new(server)?;
    let inbox = Arc::new(Inbox::default());
    let asking = {
        let inbox = Arc::clone(&inbox);
        let thread = std::thread::Builder::new().name("phalanx-ask".into());
        thread.spawn(move || asker.run(&inbox)).context(Code::Internal, "the thread that asks cannot be started")?
    };
    let inputs = Inputs::new(share(server), session.recalled());
    let served =
        Worker { server, session, steps, inputs, inbox: &inbox, waiting: None, pace: AHEAD.as_secs_f64() }.run();
    inbox.leave();
    // It ends by its own deadlines.
    let _ = asking.join();
    served
}

/// The chief computes no steps: input is the workers'. A worker that the cluster does not list reads a share of its own
/// among so many more.
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

/// A worker has as many steps as take it this long: enough that it need not ask for every one, few enough that others get
/// theirs.
const AHEAD: Duration = Duration::from_millis(20);
/// And at least and at most so many.
const WINDOW: std::ops::RangeInclusive<f64> = 2.0..=64.0;

struct Worker<'a, M> {
    server: &'a Server,
    session: &'a mut Session<M>,
    steps: &'a Steps<M>,
    inputs: Inputs,
    inbox: &'a Inbox,
    /// A step that is computed, whose gradients are not on every server yet.
    waiting: Option<Report>,
    /// How long a step takes, in seconds: mostly that of the last ones.
    pace: f64,
}

impl<M: Module> Worker<'_, M> {
    fn run(mut self) -> Result<()> {
        loop {
            let next = match self.inbox.try_next() {
                Some(next) => next,
                None => {
                    self.settle()?;
                    self.inbox.next()?
                }
            };
            match next {
                Next::Step(assignment) => {
                    let began = Instant::now();
                    if !self.step(&assignment)? {
                        return Ok(());
                    }
                    self.pace += (began.elapsed().as_secs_f64() - self.pace) / 8.0;
                }
                Next::Renew => {
                    // Whose step it was, the new coordinator does not know; that it counts, the servers do.
                    self.session.flush()?;
                    self.waiting = None;
                    self.inbox.settled(self.session.sent());
                }
                Next::Over => return Ok(()),
            }
        }
    }

    /// Sends what is pending, and reports the step it belongs to.
    fn settle(&mut self) -> Result<()> {
        self.session.flush()?;
        self.report_waiting();
        Ok(())
    }

    fn report_waiting(&mut self) {
        if let Some(report) = self.waiting.take() {
            self.report(report);
        }
    }

    fn report(&self, report: Report) {
        let window = (AHEAD.as_secs_f64() / self.pace.max(1e-9)).clamp(*WINDOW.start(), *WINDOW.end());
        self.inbox.report(report, window as usize);
    }

    /// Runs one step; `false` when the job is ending.
    fn step(&mut self, assignment: &Assignment) -> Result<bool> {
        let mut report = Report { step: assignment.step, turn: assignment.turn, ..Report::default() };
        let turn = turn(assignment)?;
        let before = self.session.pending_name();
        let (effect, done) = self.compute(assignment, turn);
        let pushed = self.session.pending_name().filter(|name| before != Some(*name));
        if pushed.is_some() {
            // Its exchange has carried what was waiting.
            self.report_waiting();
        }
        match done {
            Ok(result) => report.result = result,
            Err(_) if self.server.should_stop() => return Ok(false),
            Err(error) => {
                let place = format!(
                    "{}, step {} ({}){}",
                    self.server.task(),
                    assignment.step,
                    assignment.function,
                    self.inputs.place()
                );
                let place = error.place().map_or_else(|| place.clone(), |inner| format!("{place}, {inner}"));
                report.fault = Some(to_wire(&error.at(place)));
            }
        }
        match pushed {
            // A step that fails after it computed its gradients must not push them.
            Some(_) if report.fault.is_some() => {
                self.session.forget_last_step();
                self.report_and_wait(report)?;
            }
            Some(name) => {
                report.sequence = name.sequence;
                self.waiting = Some(report);
                if turn.round.is_some() {
                    // Others wait for the round.
                    self.settle()?;
                }
            }
            None if effect == Effect::Update => self.report_and_wait(report)?,
            None => self.report(report),
        }
        Ok(true)
    }

    fn report_and_wait(&mut self, report: Report) -> Result<()> {
        self.settle()?;
        self.report(report);
        self.inbox.wait_until_answered()
    }

    fn compute(&mut self, assignment: &Assignment, turn: Turn) -> (Effect, Result<Vec<f64>>) {
        let (effect, function) = match self.steps.function(&assignment.function) {
            Ok((effect, function)) => (*effect, Arc::clone(function)),
            Err(error) => return (Effect::Update, Err(error)),
        };
        self.session.take_turn(turn);
        let mut cx = StepContext {
            session: self.session,
            inputs: &mut self.inputs,
            steps: self.steps,
            arguments: &assignment.arguments,
            id: assignment.step,
            may_push: effect == Effect::Update,
        };
        let done = catch_unwind(AssertUnwindSafe(|| function(&mut cx))).unwrap_or_else(|panic| {
            Err(Error::new(Code::StepPanicked, "the step panicked").because(panic_text(&*panic)))
        });
        (effect, done)
    }
}

fn turn(assignment: &Assignment) -> Result<Turn> {
    let on_behalf_of = match &assignment.on_behalf_of {
        None => None,
        Some(other) => {
            let (task, incarnation) = phalanx_ps::life_of(Some(other))?;
            Some(UpdateName { task, incarnation, sequence: assignment.sequence })
        }
    };
    let round = assignment.round.checked_sub(1);
    Ok(Turn { on_behalf_of, clock: assignment.clock, round, closed: assignment.closed })
}
