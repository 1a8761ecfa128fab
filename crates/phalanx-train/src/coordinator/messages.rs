//! The steps that a coordinator hands out and the reports that come back, as the code sees them and as they are sent.

use super::codec::LARGEST;
use super::state::Work;
use crate::session::StepDirective;
use bytes::Bytes;
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
    /// The position in which the step was registered.
    pub(super) function: usize,
    pub(super) argument: Bytes,
    pub(super) directive: StepDirective,
}

impl AssignedStep {
    /// Decodes a step, and takes its argument from the front of `body`.
    pub(super) fn decode(step: proto::Assignment, body: &mut Bytes) -> Result<Self> {
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
        Ok(Self { attempt_id, function: step.function as usize, argument: take(body, step.argument_bytes)?, directive })
    }
}

/// Encodes as many steps as fit into one frame, and returns their arguments. The others are handed out again with the next
/// poll.
pub(super) fn encode_assignments(assignments: Vec<Assignment<Work>>) -> (Vec<proto::Assignment>, Vec<Bytes>) {
    let mut left = LARGEST;
    let fits = |assignment: &Assignment<Work>| {
        let bytes = assignment.work.argument.len();
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    assignments.into_iter().take_while(fits).map(encode_assignment).unzip()
}

fn encode_assignment(assignment: Assignment<Work>) -> (proto::Assignment, Bytes) {
    let Assignment { attempt_id, work, on_behalf_of, number, round, closed, .. } = assignment;
    let update_id =
        |id: UpdateId| proto::UpdateId { task: Some(encode_task(id.task, id.incarnation)), sequence: id.sequence };
    let step = proto::Assignment {
        step: attempt_id.step.0,
        turn: attempt_id.turn,
        function: work.function as u32,
        argument_bytes: work.argument.len() as u64,
        on_behalf_of: on_behalf_of.map(update_id),
        clock: number,
        round,
        closed_rounds: closed,
    };
    (step, work.argument)
}

/// What a step brings back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StepOutput {
    pub(super) result: Bytes,
    /// What it adds to metrics.
    pub(super) metrics: Bytes,
}

/// How a step ended on a worker.
#[derive(Clone, Debug)]
pub(super) struct StepReport {
    pub(super) attempt_id: AttemptId,
    /// The sequence number of its update, where it pushed one.
    pub(super) sequence: Option<u64>,
    pub(super) output: Result<StepOutput>,
}

impl StepReport {
    /// Encodes the oldest reports that fit into one frame, with the bytes of what they bring back.
    pub(super) fn encode_all(reports: &[Self]) -> (Vec<proto::Report>, Vec<Bytes>) {
        let (mut encoded, mut body, mut left) = (Vec::new(), Vec::new(), LARGEST);
        for report in reports {
            let StepOutput { result, metrics } = report.output.as_ref().cloned().unwrap_or_default();
            let bytes = result.len() + metrics.len();
            if bytes > left {
                break;
            }
            left -= bytes;
            encoded.push(proto::Report {
                step: report.attempt_id.step.0,
                turn: report.attempt_id.turn,
                sequence: report.sequence,
                fault: report.output.as_ref().err().map(|error| phalanx_wire::error_to_fault(error).encode_to_vec()),
                result_bytes: result.len() as u64,
                metric_bytes: metrics.len() as u64,
            });
            body.extend([result, metrics]);
        }
        (encoded, body)
    }

    /// Decodes a report, and takes what it brings back from the front of `body`.
    pub(super) fn decode(report: proto::Report, body: &mut Bytes) -> Result<Self> {
        let unknown = || Error::new(Code::Internal, "a step failed in a way that this build does not know");
        let error = |fault: Vec<u8>| {
            Message::decode(&*fault).ok().and_then(phalanx_wire::error_from_fault).unwrap_or_else(unknown)
        };
        let output = StepOutput { result: take(body, report.result_bytes)?, metrics: take(body, report.metric_bytes)? };
        let output = report.fault.map_or(Ok(output), |fault| Err(error(fault)));
        let attempt_id = AttemptId { step: StepId(report.step), turn: report.turn };
        Ok(Self { attempt_id, sequence: report.sequence, output })
    }
}

/// Takes bytes from the front of a frame's body. They are copied, because the body may be memory of the connection.
fn take(body: &mut Bytes, length: u64) -> Result<Bytes> {
    match usize::try_from(length) {
        Ok(length) if length <= body.len() => Ok(Bytes::copy_from_slice(&body.split_to(length))),
        _ => Err(Error::new(Code::BadMessage, "a message about steps is shorter than it should be")
            .because(format!("{length} bytes should follow, {} do", body.len()))),
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
    use phalanx_cluster::schedule::StepEffect;

    fn assignment(turn: u64, argument: impl Into<Bytes>) -> Assignment<Work> {
        let attempt_id = AttemptId { step: StepId(7), turn };
        let work = Work { function: 3, argument: argument.into() };
        let (on_behalf_of, round) = (None, None);
        let effect = StepEffect::Update;
        Assignment { attempt_id, work, effect, on_behalf_of, attempt: 1, number: 5, round, closed: 0 }
    }

    #[test]
    fn a_step_and_its_report_come_back_as_they_were_sent() {
        let lost = UpdateId { task: "worker/2".parse().unwrap(), incarnation: Incarnation(9), sequence: 40 };
        for (on_behalf_of, round, closed) in [(None, None, 0), (Some(lost), None, 0), (None, Some(0), 3)] {
            let sent = Assignment { on_behalf_of, round, closed, ..assignment(2, &b"argument"[..]) };
            let (mut steps, arguments) = encode_assignments(vec![sent]);
            let mut body = Bytes::from(arguments.concat());
            let step = AssignedStep::decode(steps.remove(0), &mut body).unwrap();
            assert_eq!((step.attempt_id.turn, step.function, &step.argument[..]), (2, 3, &b"argument"[..]));
            let directive = StepDirective { on_behalf_of, clock: 5, round, closed_rounds: closed };
            assert_eq!((step.directive, body.len()), (directive, 0));
        }
        let attempt_id = AttemptId { step: StepId(7), turn: 2 };
        let failed = Error::new(Code::DataEnd, "it has ended").at("worker/0");
        let output = StepOutput { result: Bytes::from_static(b"result"), metrics: Bytes::from_static(b"words") };
        let sent = [(Some(3), Ok(output)), (None, Ok(StepOutput::default())), (None, Err(failed))]
            .map(|(sequence, output)| StepReport { attempt_id, sequence, output });
        let (reports, body) = StepReport::encode_all(&sent);
        let mut body = Bytes::from(body.concat());
        for (report, sent) in reports.into_iter().zip(sent) {
            let found = StepReport::decode(report, &mut body).unwrap();
            assert_eq!((found.attempt_id, found.sequence), (attempt_id, sent.sequence));
            assert_eq!(found.output.map_err(|error| error.to_string()), sent.output.map_err(|error| error.to_string()));
        }
        assert_eq!(decode_task(None).unwrap_err().code(), Code::BadMessage);
    }

    #[test]
    fn what_does_not_fit_into_a_frame_waits_for_the_next_one() {
        let large = Bytes::from(vec![0; LARGEST / 2]);
        let (steps, arguments) = encode_assignments((1..=3).map(|turn| assignment(turn, large.clone())).collect());
        assert_eq!((steps.len(), arguments.len()), (2, 2));
        let report = StepReport {
            attempt_id: AttemptId { step: StepId(0), turn: 1 },
            sequence: None,
            output: Ok(StepOutput { result: large, metrics: Bytes::from_static(b"words") }),
        };
        let (reports, body) = StepReport::encode_all(&[report.clone(), report]);
        assert_eq!((reports.len(), body.len()), (1, 2));
        // A body that ends too early.
        let mut short = Bytes::from_static(b"too short");
        assert_eq!(StepReport::decode(reports[0].clone(), &mut short).unwrap_err().code(), Code::BadMessage);
    }
}
