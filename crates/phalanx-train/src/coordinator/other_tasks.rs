//! How the chief waits for the other tasks, which make the same calls.

use crate::Server;
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the chief waits for tasks to take the outcome of a call and the values that go with it.
const CONFIRMATIONS: Duration = Duration::from_secs(30);

/// The time between two log events about the same wait.
const LOG: Duration = Duration::from_secs(10);

/// Waits until every other trainer has ended its own steps and is in this call, has left, or is lost: the call is to find all
/// their updates. A trainer that has not joined the job is waited for as long as `may_join` holds. `finish_lost_updates` is
/// called meanwhile, and once more at the end.
pub(crate) fn wait_for_trainers(
    server: &Server,
    call: u64,
    may_join: impl Fn(TaskId) -> bool,
    mut finish_lost_updates: impl FnMut() -> Result<()>,
) -> Result<()> {
    let service = server.coordinator_service()?;
    let (began, mut logged) = (Instant::now(), Duration::ZERO);
    loop {
        if let Some(error) = stop_reason(server) {
            return Err(error);
        }
        finish_lost_updates()?;
        let live: BTreeMap<TaskId, Incarnation> = server.live().into_iter().collect();
        let is_away = |task: &TaskId| {
            // A former incarnation may have been in the call; the present one trains again before it comes.
            let incarnation = live.get(task).copied();
            let comes = incarnation.is_some() || may_join(*task);
            *task != server.task() && comes && !service.is_in(call, *task, incarnation)
        };
        let trainers = server.config().trainers().into_iter().map(|(task, _)| task);
        let away: Vec<String> = trainers.filter(is_away).map(|task| task.to_string()).collect();
        if away.is_empty() {
            return finish_lost_updates();
        }
        if began.elapsed() > logged + LOG {
            logged = began.elapsed();
            server.in_scope(|| tracing::info!("waiting for {} to end their steps", away.join(", ")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the other tasks have taken the outcome of a call, the newest one, so that no server ends before.
pub(crate) fn wait_for_confirmations(server: &Server, call: u64) -> Result<()> {
    let service = server.coordinator_service()?;
    let lacks_outcome = |(task, incarnation): (TaskId, Incarnation)| {
        let is_in = |call| service.is_in(call, task, Some(incarnation));
        // A parameter server need not run the program; one that has asked for the outcome does.
        let takes_part = task != server.task() && (task.role != Role::Ps || is_in(call));
        // A task in a later call has the outcome from a former incarnation of the chief.
        takes_part && !service.newest_is_known_by((task, incarnation)) && !is_in(call + 1)
    };
    let until = Instant::now() + CONFIRMATIONS;
    while server.live().into_iter().any(lacks_outcome) && Instant::now() < until && server.job().failure().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns why the trainers of this job stop, if they do.
pub(crate) fn stop_reason(server: &Server) -> Option<Error> {
    let job = server.job();
    job.interrupted().or_else(|| job.failure()).or_else(|| server.should_stop().then(ended_early))
}

/// The error of a call that had no outcome when the job ended: its chief was asked to stop.
pub(crate) fn ended_early() -> Error {
    Error::new(Code::JobFailed, "the job ended before this part of it did").relayed()
}
