//! Where workers ask for steps: the bulk lane of the chief.

use super::shared::Shared;
use phalanx_base::{Code, Error, Fault, Result};
use phalanx_cluster::schedule::{Assignment, Consistency, Life, Receipt, Remark, StepId, Ticket};
use phalanx_wire::bulk::{Handler, Pending};
use phalanx_wire::proto::coordinate::{self, Answer, Ask, Report};
use phalanx_wire::{InFrame, OutFrame, from_wire};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest a worker is kept waiting.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The most steps a worker may have.
const MOST: u32 = 1024;

/// Answers workers, as soon as there is a coordinator.
pub(crate) struct Desk {
    job: u64,
    shared: Mutex<Option<Arc<Shared>>>,
}

impl Desk {
    pub(crate) fn new(job: u64) -> Self {
        Self { job, shared: Mutex::default() }
    }

    pub(super) fn open(&self, shared: Arc<Shared>) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared);
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn answer(&self, frame: InFrame) -> Result<OutFrame> {
        let ask: Ask = frame.header()?;
        if ask.job != self.job {
            return Err(Error::new(Code::WrongJob, "the coordinator belongs to another job")
                .help("see whether two jobs use the same address"));
        }
        let life = Life::from(phalanx_ps::life_of(ask.worker.as_ref())?);
        let wait = Duration::from_millis(u64::from(ask.wait_millis)).min(LONGEST_WAIT);
        let Some(shared) = self.shared() else {
            // The chief is not a coordinator, or not yet.
            tokio::time::sleep(wait.min(Duration::from_millis(50))).await;
            return Ok(OutFrame::new(&Answer::default()));
        };
        if ask.coordinator != shared.coordinator {
            // Whom it had joined is gone, or it has joined nobody yet.
            return Ok(OutFrame::new(&Answer { coordinator: shared.coordinator, ..Answer::default() }));
        }
        shared.lock().joined(shared.now(), life, ask.sent);
        take_reports(&shared, life, ask.reports)?;
        if ask.leaving {
            // A life that is not known has nothing to leave.
            let _ = shared.lock().left(life);
            shared.notify_changed();
            shared.notify_work();
            return Ok(OutFrame::new(&over(&shared)));
        }
        let until = tokio::time::Instant::now() + wait;
        loop {
            let scheduled = shared.work();
            let taken = {
                let mut queue = shared.lock();
                if queue.has_ended() {
                    return Ok(OutFrame::new(&over(&shared)));
                }
                queue.take(shared.now(), life, ask.heard, ask.want.min(MOST) as usize)
            };
            let steps = taken.map_err(|remark| refused(&remark))?;
            if !steps.is_empty() || tokio::time::timeout_at(until, scheduled).await.is_err() {
                let steps = steps.into_iter().map(to_wire).collect();
                let eager = shared.options.consistency != Consistency::Async;
                return Ok(OutFrame::new(&Answer { steps, over: false, coordinator: shared.coordinator, eager }));
            }
        }
    }
}

impl Handler for Desk {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move { self.answer(frame).await })
    }
}

fn over(shared: &Shared) -> Answer {
    Answer { over: true, coordinator: shared.coordinator, ..Answer::default() }
}

fn take_reports(shared: &Shared, life: Life, reports: Vec<Report>) -> Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    let now = shared.now();
    let mut queue = shared.lock();
    for report in reports {
        let ticket = Ticket { step: StepId(report.step), turn: report.turn };
        let pushed = report.sequence > 0 && report.fault.is_none();
        let receipt = match report.fault.map(from_wire) {
            None => queue.committed(now, life, ticket, (report.sequence > 0).then_some(report.sequence), report.result),
            Some(Some(error)) if error.code().fault() == Fault::Infrastructure => {
                queue.gave_back(now, life, ticket, &error.to_string())
            }
            Some(error) => {
                let unknown = || Error::new(Code::Internal, "a step failed in a way this build does not know");
                queue.failed(now, life, ticket, error.unwrap_or_else(unknown))
            }
        };
        match receipt {
            Receipt::Taken if pushed && !matches!(shared.options.consistency, Consistency::Rounds { .. }) => {
                shared.committed.fetch_add(1, Ordering::AcqRel);
            }
            Receipt::Ignored(remark) => return Err(refused(&remark)),
            Receipt::Taken | Receipt::Repeated => {}
        }
    }
    drop(queue);
    shared.notify_changed();
    if shared.options.consistency != Consistency::Async {
        // A step that is done may be what others were held back by.
        shared.notify_work();
    }
    Ok(())
}

fn refused(remark: &Remark) -> Error {
    let code = match remark {
        Remark::Ended(_) | Remark::Lost(_) => Code::Fenced,
        _ => Code::BadMessage,
    };
    Error::new(code, remark.to_string())
}

fn to_wire(assignment: Assignment<super::shared::Work>) -> coordinate::Assignment {
    let Assignment { ticket, work, on_behalf_of, number, round, closed, .. } = assignment;
    coordinate::Assignment {
        step: ticket.step.0,
        turn: ticket.turn,
        function: work.function.to_string(),
        arguments: work.arguments.to_vec(),
        sequence: on_behalf_of.map_or(0, |name| name.sequence),
        clock: number,
        round: round.map_or(0, |round| round + 1),
        closed,
        on_behalf_of: on_behalf_of.map(|name| phalanx_ps::client_of(name.task, name.incarnation)),
    }
}
