//! The steps that a coordinator hands out and the reports that come back, as the code sees them and as they are sent.

use super::state::Work;
use crate::session::StepDirective;
use phalanx_base::{Code, Error, Incarnation, Result, TaskId, UpdateId};
use phalanx_cluster::schedule::{Assignment, AttemptId, StepId};
use prost::Message;

/// The messages that coordinate.proto defines.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub(crate) mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.coordinate.rs"));
}

/// A step as a worker gets it.
#[derive(Clone, Debug)]
pub(super) struct AssignedStep {
    pub(super) attempt_id: AttemptId,
    pub(super) function: String,
    pub(super) arguments: Vec<f64>,
    pub(super) directive: StepDirective,
}

impl AssignedStep {
    pub(super) fn decode(step: proto::Assignment) -> Result<Self> {
        let update_id = |id: proto::UpdateId| -> Result<UpdateId> {
            let (task, incarnation) = decode_task(id.task)?;
            Ok(UpdateId { task, incarnation, sequence: id.sequence })
        };
        let directive = StepDirective {
            on_behalf_of: step.on_behalf_of.map(update_id).transpose()?,
            clock: step.clock,
            round: step.round,
            closed_rounds: step.closed_rounds,
        };
        let attempt_id = AttemptId { step: StepId(step.step), turn: step.turn };
        Ok(Self { attempt_id, function: step.function, arguments: step.arguments, directive })
    }
}

pub(super) fn encode_assignment(assignment: Assignment<Work>) -> proto::Assignment {
    let Assignment { attempt_id, work, on_behalf_of, number, round, closed, .. } = assignment;
    let update_id =
        |id: UpdateId| proto::UpdateId { task: Some(encode_task(id.task, id.incarnation)), sequence: id.sequence };
    proto::Assignment {
        step: attempt_id.step.0,
        turn: attempt_id.turn,
        function: work.function.to_string(),
        arguments: work.arguments.to_vec(),
        on_behalf_of: on_behalf_of.map(update_id),
        clock: number,
        round,
        closed_rounds: closed,
    }
}

/// How a step ended on a worker.
#[derive(Clone, Debug)]
pub(super) struct StepReport {
    pub(super) attempt_id: AttemptId,
    /// The sequence number of its update, where it pushed one.
    pub(super) sequence: Option<u64>,
    pub(super) result: Result<Vec<f64>>,
}

impl StepReport {
    pub(super) fn encode(&self) -> proto::Report {
        let error = self.result.as_ref().err();
        proto::Report {
            step: self.attempt_id.step.0,
            turn: self.attempt_id.turn,
            sequence: self.sequence,
            result: self.result.as_ref().cloned().unwrap_or_default(),
            fault: error.map(|error| phalanx_wire::error_to_fault(error).encode_to_vec()),
        }
    }

    pub(super) fn decode(report: proto::Report) -> Self {
        let unknown = || Error::new(Code::Internal, "a step failed in a way that this build does not know");
        let error = |fault: Vec<u8>| {
            Message::decode(&*fault).ok().and_then(phalanx_wire::error_from_fault).unwrap_or_else(unknown)
        };
        let result = report.fault.map_or(Ok(report.result), |fault| Err(error(fault)));
        let attempt_id = AttemptId { step: StepId(report.step), turn: report.turn };
        Self { attempt_id, sequence: report.sequence, result }
    }
}

pub(super) fn encode_task(task: TaskId, incarnation: Incarnation) -> proto::TaskIncarnation {
    proto::TaskIncarnation { task: task.to_string(), incarnation: incarnation.0 }
}

pub(super) fn decode_task(task: Option<proto::TaskIncarnation>) -> Result<(TaskId, Incarnation)> {
    let task = task.ok_or_else(|| Error::new(Code::BadMessage, "a message does not name its task"))?;
    Ok((task.task.parse()?, Incarnation(task.incarnation)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_step_and_its_report_come_back_as_they_were_sent() {
        let lost = UpdateId { task: "worker/2".parse().unwrap(), incarnation: Incarnation(9), sequence: 40 };
        for (on_behalf_of, round, closed) in [(None, None, 0), (Some(lost), None, 0), (None, Some(0), 3)] {
            let attempt_id = AttemptId { step: StepId(7), turn: 2 };
            let work = Work { function: Arc::from("train"), arguments: Arc::from([0.5, f64::NAN]) };
            let effect = phalanx_cluster::schedule::StepEffect::Update;
            let sent = Assignment { attempt_id, work, effect, on_behalf_of, attempt: 1, number: 5, round, closed };
            let step = AssignedStep::decode(encode_assignment(sent)).unwrap();
            assert_eq!((step.attempt_id, step.function.as_str(), step.arguments[0]), (attempt_id, "train", 0.5));
            let directive = StepDirective { on_behalf_of, clock: 5, round, closed_rounds: closed };
            assert_eq!(step.directive, directive);
        }
        let failed = Error::new(Code::DataEnd, "it has ended").at("worker/0");
        for (sequence, result) in [(Some(3), Ok(vec![1.0])), (None, Ok(vec![])), (None, Err(failed))] {
            let report = StepReport { attempt_id: AttemptId { step: StepId(7), turn: 2 }, sequence, result };
            let found = StepReport::decode(report.encode());
            assert_eq!((found.attempt_id, found.sequence), (report.attempt_id, report.sequence));
            assert_eq!(
                found.result.map_err(|error| error.to_string()),
                report.result.map_err(|error| error.to_string())
            );
        }
        assert_eq!(decode_task(None).unwrap_err().code(), Code::BadMessage);
    }
}
