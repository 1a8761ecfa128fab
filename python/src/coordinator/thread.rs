//! The thread of a coordinated job. It makes the calls of this task; the program is asked to compute steps, and asks for the rest.

use super::step::{StepEvent, Steps};
use crate::module::Variables;
use crate::session::values;
use phalanx::coordinator::{Coordinated, RemoteValue, ShardedVariable, StepHandle};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::{HostBuffer, ParameterRegistry};
use phalanx_train::{Coordinator, Interrupt, RowValues, TableId};
use std::sync::mpsc::{Receiver, Sender};

/// Results of steps by their numbers.
pub(super) type Results = Vec<(u64, Result<Vec<u8>>)>;

/// What the program asks for.
pub(super) enum Ask {
    /// Begins a call. In the chief the next requests belong to it, until `End`; the other tasks answer with its outcome.
    Call,
    /// Schedules a step under a number.
    Schedule(u64, Vec<u8>),
    /// The results that are there.
    Collect,
    /// Waits for all results.
    Join,
    /// The variables and their shards.
    Variables,
    /// The newest values of the variables.
    Values,
    /// Saves a checkpoint.
    Save,
    /// Ends the call with this outcome.
    End(Vec<u8>),
    /// Rows of a table.
    Rows(TableId, Vec<i64>),
}

/// What the program is told.
pub(super) enum Event {
    /// A step is to be computed.
    Step(StepEvent),
    /// The chief is in a call.
    Begun,
    /// A call is over: its outcome, and the values by then.
    Outcome(Vec<u8>, Vec<HostBuffer>),
    /// Results of steps by their numbers, and the global step if all are done.
    Finished(Results, Option<u64>),
    Variables(Vec<ShardedVariable>),
    Values(Vec<HostBuffer>),
    /// The unique ids of a look-up, and their rows.
    Rows(Vec<i64>, RowValues),
    /// Done.
    Done,
    Failed(Error),
}

/// Makes the calls that the program asks for, until it is gone. Dropping the job ends this task's part of it.
pub(super) fn serve(
    mut job: Coordinated<Variables>,
    asks: &Receiver<Ask>,
    events: &Sender<Event>,
    interrupt: &Interrupt,
) {
    while let Ok(ask) = asks.recv() {
        let event = match ask {
            Ask::Call => call(&mut job, asks, events, interrupt),
            Ask::Rows(table, ids) => job.row_reader().and_then(|reader| {
                let (unique, rows) = reader.read(table, &ids)?;
                Ok(Event::Rows(unique, rows))
            }),
            _ => Err(Error::new(Code::Internal, "the coordinator is in no call")),
        };
        if events.send(event.unwrap_or_else(Event::Failed)).is_err() {
            break;
        }
    }
}

fn call(
    job: &mut Coordinated<Variables>,
    asks: &Receiver<Ask>,
    events: &Sender<Event>,
    interrupt: &Interrupt,
) -> Result<Event> {
    let steps = Steps::new(events);
    let handle = steps.handle;
    let outcome = job.call(steps.functions, |coordinator| {
        Calling { coordinator, handle, events, interrupt, pending: Vec::new() }.run(asks)
    })?;
    let outcome = outcome.ok_or_else(|| {
        Error::new(Code::JobFailed, "the job ended before this part of it did")
            .because("its chief was asked to stop")
            .relayed()
    })?;
    let values = values(&ParameterRegistry::beside_tables(job.module())?, job.module())?;
    Ok(Event::Outcome(outcome, values))
}

/// The chief's part of a call.
struct Calling<'a> {
    coordinator: &'a mut Coordinator<Variables>,
    handle: StepHandle<Vec<u8>, Vec<u8>>,
    events: &'a Sender<Event>,
    interrupt: &'a Interrupt,
    /// The steps whose results the program does not have.
    pending: Vec<Pending>,
}

/// A step that was scheduled under a number.
type Pending = (u64, Result<RemoteValue<Vec<u8>>>);

impl Calling<'_> {
    fn run(mut self, asks: &Receiver<Ask>) -> Result<Vec<u8>> {
        self.tell(Event::Begun)?;
        loop {
            let event = match asks.recv().map_err(|_| self.interrupt.error().unwrap_or_else(gone))? {
                Ask::Schedule(number, request) => {
                    let scheduled = self.coordinator.schedule(&self.handle, request);
                    self.pending.push((number, scheduled));
                    Event::Done
                }
                Ask::Collect => {
                    let (finished, pending): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
                        .into_iter()
                        .partition(|(_, value)| value.as_ref().map_or(true, RemoteValue::is_done));
                    self.pending = pending;
                    Event::Finished(results(finished), self.global_step_if_done()?)
                }
                Ask::Join => {
                    // The error of a step is in its result, too; any other one ends the job.
                    let _of_a_step = self.coordinator.join();
                    self.coordinator.done()?;
                    Event::Finished(results(std::mem::take(&mut self.pending)), self.global_step_if_done()?)
                }
                Ask::Variables => Event::Variables(self.coordinator.variables()?),
                Ask::Values => {
                    let model = self.coordinator.newest_model()?;
                    Event::Values(values(&ParameterRegistry::beside_tables(model)?, model)?)
                }
                Ask::Save => {
                    self.coordinator.session_mut()?.save()?;
                    Event::Done
                }
                Ask::End(outcome) => return Ok(outcome),
                Ask::Rows(table, ids) => {
                    let (unique, rows) = self.coordinator.session_mut()?.row_reader()?.read(table, &ids)?;
                    Event::Rows(unique, rows)
                }
                Ask::Call => return Err(Error::new(Code::Internal, "a call is within another one")),
            };
            self.tell(event)?;
        }
    }

    fn global_step_if_done(&mut self) -> Result<Option<u64>> {
        if self.pending.is_empty() { self.coordinator.global_step().map(Some) } else { Ok(None) }
    }

    fn tell(&self, event: Event) -> Result<()> {
        self.events.send(event).map_err(|_| gone())
    }
}

fn results(finished: Vec<Pending>) -> Results {
    finished.into_iter().map(|(number, value)| (number, value.and_then(|value| value.fetch()))).collect()
}

fn gone() -> Error {
    Error::new(Code::Cancelled, "the program dropped its coordinator within a call")
}
