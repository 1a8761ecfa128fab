//! A trainer's session with the model on the servers, for a model that another library computes.

mod gradients;
mod settings;
mod thread;

use crate::buffer::Buffer;
use crate::error::{Raise, caught, raised};
use crate::gate::{Gate, OnCtrlC, caught_panic};
use crate::task::Server;
use phalanx_base::{Code, Context, Error};
use phalanx_train::{RowValues, Step};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, TryLockError};
use thread::{Answer, Answered, Ask, Caller, Prepared};

pub(crate) use gradients::{GivenGradients, table};
pub(crate) use settings::{Settings, Table, Variable, variables};
pub(crate) use thread::values;

/// A trainer's session: what `phalanx.torch` is written on.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct Session {
    gate: Gate,
    asks: Sender<(u64, Ask)>,
    /// The answers, and the number of the last request.
    answers: Mutex<(Receiver<Answered>, u64)>,
    global_step: AtomicU64,
    stopped: AtomicBool,
    prepared: Prepared,
}

/// The rows that a step needs of one table: the rows, and for each id the index of its row.
pub(crate) type Exported = (Buffer, Buffer);

#[pymethods]
impl Session {
    /// Waits for the job to form and for the model to be on the servers.
    #[new]
    fn new(
        py: Python<'_>,
        server: &Server,
        variables: Vec<Variable>,
        tables: Vec<Table>,
        settings: Settings,
    ) -> PyResult<Self> {
        let gate = server.gate().clone();
        gate.check_process(py)?;
        let variables = settings::variables(py, variables)?;
        let (asks, asked) = channel();
        let (answering, answers) = channel();
        let task = server.inner().clone();
        let caller = Caller { asks: asked, answers: answering };
        let serve = move || {
            let served = caught_panic(|| {
                let (supervisor, tables) = settings.supervisor(&task, tables)?;
                thread::serve(supervisor, tables, variables, &caller);
                Ok(())
            });
            if let Err(error) = served {
                // The number of a request that nobody has made is not waited for; 0 is that of the preparation.
                let _gone = caller.answers.send(Answered { number: 0, answer: Answer::Failed(error), global_step: 0 });
            }
        };
        let named = std::thread::Builder::new().name("phalanx-session".into());
        named.spawn(serve).context(Code::Internal, "a session's thread cannot be started").or_raise(py)?;
        let answers = Mutex::new((answers, 0));
        let prepared = Prepared { position: None, tables: Vec::new() };
        let session =
            Self { gate, asks, answers, global_step: AtomicU64::new(0), stopped: AtomicBool::new(false), prepared };
        match session.wait(py, 0, OnCtrlC::Leave)? {
            Answer::Prepared(prepared) => Ok(Self { prepared, ..session }),
            _ => Err(unexpected(py)),
        }
    }

    /// Begins a step that needs the rows of these ids, of each table used. Returns the newest values of the variables, and the
    /// rows; `None` when the job is over.
    fn begin(
        &self,
        py: Python<'_>,
        ids: Vec<(usize, PyBuffer<i64>)>,
    ) -> PyResult<Option<(Vec<Buffer>, Vec<Exported>)>> {
        let ids = ids
            .into_iter()
            .map(|(table, ids)| Ok((gradients::table(py, &self.prepared.tables, table)?, ids.to_vec(py)?)));
        let ids = ids.collect::<PyResult<_>>()?;
        match self.ask(py, Ask::Begin(ids), OnCtrlC::Leave)? {
            Answer::Values { variables, rows } => {
                let rows = rows.into_iter().map(exported).collect();
                Ok(Some((variables.into_iter().map(Buffer::from).collect(), rows)))
            }
            Answer::Stepped(None) => Ok(None),
            _ => Err(unexpected(py)),
        }
    }

    /// Ends the step that has begun. Returns the global step before it; `None` when the job is over.
    fn end(&self, py: Python<'_>, gradients: GivenGradients) -> PyResult<Option<u64>> {
        let gradients = gradients.read(py, &self.prepared.tables)?;
        match self.ask(py, Ask::End(gradients), OnCtrlC::Leave)? {
            Answer::Stepped(step) => Ok(step.map(|Step { global_step, .. }| global_step)),
            _ => Err(unexpected(py)),
        }
    }

    /// Drops the step that has begun: the program raised this exception. Nothing of it reaches the servers.
    fn abandon(&self, py: Python<'_>, exception: &Bound<'_, PyBaseException>) -> PyResult<()> {
        let error = caught(py, &PyErr::from_value(exception.clone().into_any()));
        // The step fails with the exception that the program has already.
        let _failed = self.ask(py, Ask::Abandon(error), OnCtrlC::Leave);
        Ok(())
    }

    /// Reads rows of a table: the unique ids, their rows, and for each id the index of its row.
    fn rows(&self, py: Python<'_>, table: usize, ids: PyBuffer<i64>) -> PyResult<(Buffer, Buffer, Buffer)> {
        match self.ask(
            py,
            Ask::Rows(gradients::table(py, &self.prepared.tables, table)?, ids.to_vec(py)?),
            OnCtrlC::Leave,
        )? {
            Answer::Rows(unique, rows) => {
                let (rows, positions) = exported(rows);
                Ok((Buffer::from(unique), rows, positions))
            }
            _ => Err(unexpected(py)),
        }
    }

    /// Returns the newest values of the variables.
    fn refresh(&self, py: Python<'_>) -> PyResult<Vec<Buffer>> {
        self.newest(py, Ask::Refresh)
    }

    /// Sends the gradients of the last step now, instead of with the next one, and returns the newest values.
    fn commit(&self, py: Python<'_>) -> PyResult<Vec<Buffer>> {
        self.newest(py, Ask::Commit)
    }

    /// Saves a checkpoint, where this task is the chief and has a run directory.
    fn save(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Save, OnCtrlC::Leave).map(drop)
    }

    /// Ends training at this global step.
    #[pyo3(signature = (last))]
    fn stop_at(&self, py: Python<'_>, last: Option<u64>) -> PyResult<()> {
        self.ask(py, Ask::StopAt(last), OnCtrlC::Leave).map(drop)
    }

    /// Saves the position in this task's input with the next step.
    fn save_position(&self, py: Python<'_>, position: Vec<u8>) -> PyResult<()> {
        self.ask(py, Ask::Position(position), OnCtrlC::Leave).map(drop)
    }

    /// The position in the input that an earlier run of this task saved.
    #[getter]
    fn restored_position(&self) -> Option<&[u8]> {
        self.prepared.position.as_deref()
    }

    /// The number of updates of all trainers, as of this task's last exchange.
    #[getter]
    fn global_step(&self) -> u64 {
        self.global_step.load(Ordering::Acquire)
    }

    /// Ends this task's training: sends what is pending and leaves. The chief saves once more and ends the job.
    fn stop(&self, py: Python<'_>, with_workers: bool) -> PyResult<()> {
        let stopped = self.ask(py, Ask::Stop { with_workers }, OnCtrlC::Finish);
        self.stopped.store(true, Ordering::Release);
        stopped.map(drop)
    }
}

impl Session {
    fn newest(&self, py: Python<'_>, ask: Ask) -> PyResult<Vec<Buffer>> {
        match self.ask(py, ask, OnCtrlC::Leave)? {
            Answer::Values { variables, .. } => Ok(variables.into_iter().map(Buffer::from).collect()),
            _ => Err(unexpected(py)),
        }
    }

    /// Sends a request and waits for its answer.
    fn ask(&self, py: Python<'_>, ask: Ask, on_ctrl_c: OnCtrlC) -> PyResult<Answer> {
        if self.stopped.load(Ordering::Acquire) {
            return Err(raised(py, &ended()));
        }
        let number = {
            let mut answers = self.answers.try_lock().map_err(|error| busy(py, &error))?;
            answers.1 += 1;
            answers.1
        };
        self.asks.send((number, ask)).map_err(|_| raised(py, &ended()))?;
        self.wait(py, number, on_ctrl_c)
    }

    fn wait(&self, py: Python<'_>, number: u64, on_ctrl_c: OnCtrlC) -> PyResult<Answer> {
        let mut answers = self.answers.try_lock().map_err(|error| busy(py, &error))?;
        loop {
            let answered = self.gate.wait(py, on_ctrl_c, &mut answers.0)?;
            self.global_step.fetch_max(answered.global_step, Ordering::AcqRel);
            match answered.answer {
                // An answer to a call that Ctrl-C ended is nobody's.
                _ if answered.number < number => {}
                Answer::Failed(error) => return Err(raised(py, &error)),
                answer => return Ok(answer),
            }
        }
    }
}

/// Returns rows as Python reads them.
pub(crate) fn exported(rows: RowValues) -> Exported {
    let positions: Vec<i64> = rows.positions.iter().map(|&at| i64::from(at)).collect();
    (Buffer::from(rows.values), Buffer::from(positions))
}

fn busy<T>(py: Python<'_>, _: &TryLockError<T>) -> PyErr {
    let error = Error::new(Code::BadSetting, "another thread of this program uses the session")
        .because("a session belongs to one thread at a time")
        .help("step in one thread, and hand batches to it");
    raised(py, &error)
}

fn ended() -> Error {
    Error::new(Code::BadSetting, "the session has ended").help("do not use it after its with block, or after stop")
}

fn unexpected(py: Python<'_>) -> PyErr {
    raised(py, &Error::new(Code::Internal, "the thread of the session gave an answer to another question"))
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Session>()
}
