//! The thread of a session. It owns the session, computes nothing, and is asked through a channel: Python never waits for a server
//! with the GIL held, and a step's values and gradients cross the border between two requests.

use crate::module::Variables;
use phalanx::burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::{HostBuffer, ParameterRegistry};
use phalanx_train::{RowReader, RowValues, Session, Step, StepGradients, Supervisor, TableId};
use std::sync::mpsc::{Receiver, Sender};

/// What the calling thread asks for.
pub(super) enum Ask {
    /// Begins a step that needs the rows of these ids: answered by `Values`, or by `Stepped(None)` when the job is over.
    Begin(Vec<(TableId, Vec<i64>)>),
    /// The gradients of the step that has begun.
    End(StepGradients),
    /// The step that has begun failed.
    Abandon(Error),
    /// Rows of a table.
    Rows(TableId, Vec<i64>),
    /// The newest values.
    Refresh,
    /// The step at which training ends.
    StopAt(Option<u64>),
    /// The position in the input, which goes with the next step.
    Position(Vec<u8>),
    /// Sends the pending gradients; answered by the newest values.
    Commit,
    /// Saves a checkpoint.
    Save,
    /// Ends the task's training; the last request.
    Stop { with_workers: bool },
}

/// What it is told.
pub(super) enum Answer {
    /// The session is ready.
    Prepared(Prepared),
    /// The values to compute with: of the variables, of the states, and the rows.
    Values { variables: Vec<HostBuffer>, rows: Vec<RowValues> },
    /// What came of a step.
    Stepped(Option<Step>),
    /// The unique ids of a look-up, and their rows.
    Rows(Vec<i64>, RowValues),
    /// Done.
    Done,
    /// It failed.
    Failed(Error),
}

/// What a new session tells about itself.
pub(super) struct Prepared {
    pub(super) position: Option<Vec<u8>>,
    pub(super) tables: Vec<TableId>,
}

/// An answer, the request that it is for, and the global step by then.
pub(super) struct Answered {
    pub(super) number: u64,
    pub(super) answer: Answer,
    pub(super) global_step: u64,
}

/// The session's side of the two channels.
pub(super) struct Caller {
    pub(super) asks: Receiver<(u64, Ask)>,
    pub(super) answers: Sender<Answered>,
}

impl Caller {
    /// Tells an answer. A caller that is gone does not get it.
    fn tell(&self, number: u64, global_step: u64, answer: Result<Answer>) {
        let answer = answer.unwrap_or_else(Answer::Failed);
        let _gone = self.answers.send(Answered { number, answer, global_step });
    }
}

/// Prepares the session and serves it until it is stopped, or until its caller is gone.
pub(super) fn serve(supervisor: Supervisor, tables: Vec<TableId>, variables: Variables, caller: &Caller) {
    let server = supervisor.server().clone();
    server.in_scope(|| {
        let prepared = supervisor.prepare_or_wait_for_session(variables).and_then(|mut session| {
            let reader = if tables.is_empty() { None } else { Some(session.row_reader()?) };
            Ok((session, reader))
        });
        match prepared {
            Ok((session, reader)) => {
                let position = session.restore_position().map(<[u8]>::to_vec);
                caller.tell(0, session.global_step(), Ok(Answer::Prepared(Prepared { position, tables })));
                Serving { supervisor, session, reader, caller, steps: 0 }.run();
            }
            Err(error) => caller.tell(0, 0, Err(error)),
        }
    });
}

/// The number of steps after which Burn's graph is emptied.
const GRAPH_STEPS: u64 = 32;

struct Serving<'a> {
    supervisor: Supervisor,
    session: Session<Variables>,
    /// Reads rows while a step is computed, where the model has tables.
    reader: Option<RowReader>,
    caller: &'a Caller,
    /// The steps of this session.
    steps: u64,
}

impl Serving<'_> {
    fn run(mut self) {
        let mut next = self.caller.asks.recv().ok();
        while let Some((number, ask)) = next.take() {
            let answer = match ask {
                Ask::Begin(ids) => {
                    let (number, answer, then) = self.step(number, &ids);
                    self.caller.tell(number, self.session.global_step(), answer);
                    next = then.or_else(|| self.caller.asks.recv().ok());
                    continue;
                }
                Ask::Stop { with_workers } => {
                    let Self { supervisor, session, caller, .. } = self;
                    let step = session.global_step();
                    let stopped =
                        if with_workers { supervisor.stop_with_workers(session) } else { supervisor.stop(session) };
                    return caller.tell(number, step, stopped.map(|()| Answer::Done));
                }
                ask => self.simple(ask),
            };
            self.caller.tell(number, self.session.global_step(), answer);
            next = self.caller.asks.recv().ok();
        }
    }

    fn simple(&mut self, ask: Ask) -> Result<Answer> {
        let session = &mut self.session;
        match ask {
            Ask::Refresh | Ask::Commit => {
                if matches!(ask, Ask::Commit) {
                    session.commit()?
                } else {
                    session.refresh()?
                }
                let variables = values(&ParameterRegistry::beside_tables(session.model()?)?, session.model()?)?;
                return Ok(Answer::Values { variables, rows: Vec::new() });
            }
            Ask::Rows(table, ids) => {
                let (unique, rows) = session.row_reader()?.read(table, &ids)?;
                return Ok(Answer::Rows(unique, rows));
            }
            Ask::StopAt(last) => session.stop_at(last),
            Ask::Position(position) => session.save_position(position),
            Ask::Save => session.save()?,
            Ask::Begin(_) | Ask::Stop { .. } => return Err(Error::new(Code::Internal, "not a simple request")),
            Ask::End(_) | Ask::Abandon(_) => {
                return Err(Error::new(Code::BadSetting, "no step has begun").help("call step with a function"));
            }
        }
        Ok(Answer::Done)
    }

    /// One step. Returns the request that its answer is for, the answer, and a request that cut the step short.
    fn step(&mut self, number: u64, ids: &[(TableId, Vec<i64>)]) -> (u64, Result<Answer>, Option<(u64, Ask)>) {
        let (caller, reader) = (self.caller, self.reader.clone());
        let global_step = self.session.global_step();
        let (mut answered, mut then) = (number, None);
        let ids: Vec<(TableId, &[i64])> = ids.iter().map(|(table, ids)| (*table, &ids[..])).collect();
        let stepped = self.session.step_with_gradients(&ids, |model, registry, rows| {
            let variables = values(registry, model)?;
            caller.tell(number, global_step, Ok(Answer::Values { variables, rows }));
            loop {
                let Ok((number, ask)) = caller.asks.recv() else {
                    return Err(Error::new(Code::Cancelled, "the program dropped its session within a step"));
                };
                match ask {
                    Ask::End(gradients) => {
                        answered = number;
                        return Ok(gradients);
                    }
                    Ask::Abandon(error) => {
                        answered = number;
                        return Err(error);
                    }
                    Ask::Rows(table, ids) => {
                        let read =
                            reader.as_ref().ok_or_else(|| Error::new(Code::NoSuchVariable, "the model has no table"));
                        let read = read.and_then(|reader| reader.read(table, &ids));
                        let answer = read.map(|(unique, rows)| Answer::Rows(unique, rows));
                        caller.tell(number, global_step, answer);
                    }
                    // Nobody waits for the step any more.
                    other @ (Ask::Begin(_) | Ask::Stop { .. }) => {
                        then = Some((number, other));
                        return Err(Error::new(Code::Cancelled, "the step was left before it had ended"));
                    }
                    _ => caller.tell(number, global_step, Err(within_a_step())),
                }
            }
        });
        self.steps += 1;
        if self.steps.is_multiple_of(GRAPH_STEPS) {
            empty_graph();
        }
        (answered, stepped.map(Answer::Stepped), then)
    }
}

/// Burn keeps a node for every value that was loaded into a variable until the next backward pass, whichever it is. Another library
/// does the backward passes of these models, so this is one of nothing.
fn empty_graph() {
    let _no_gradients = Tensor::<1>::zeros([1], &phalanx::default_device()).require_grad().backward();
}

fn within_a_step() -> Error {
    Error::new(Code::BadSetting, "the session is within a step")
        .because("a step has one exchange with the servers, which is over")
        .help("do this before the step or after it")
}

/// Returns the values of the variables and then of the states.
pub(crate) fn values(registry: &ParameterRegistry, model: &Variables) -> Result<Vec<HostBuffer>> {
    let mut values = registry.values(model)?;
    values.extend(registry.state_values(model)?);
    Ok(values)
}
