//! Random histories, after which the scheduler's records must agree.

use super::super::step::StepState;
use super::super::{Consistency, StepOutcome};
use super::*;
use phalanx_base::{Code, Error};
use proptest::prelude::*;

const WORKERS: u32 = 3;
const BOUND: u64 = 2;

#[derive(Clone, Debug)]
enum Act {
    Schedule(bool),
    Take(u32, usize),
    Commit(u32),
    Fail(u32),
    GiveBack(u32),
    Lose(u32, u8),
    Leave(u32),
    Raise,
}

fn act() -> impl Strategy<Value = Act> {
    let worker = 0..WORKERS;
    prop_oneof![
        6 => any::<bool>().prop_map(Act::Schedule),
        6 => (worker.clone(), 0_usize..4).prop_map(|(worker, want)| Act::Take(worker, want)),
        6 => worker.clone().prop_map(Act::Commit),
        1 => worker.clone().prop_map(Act::Fail),
        1 => worker.clone().prop_map(Act::GiveBack),
        1 => (worker.clone(), 0_u8..3).prop_map(|(worker, reach)| Act::Lose(worker, reach)),
        1 => worker.prop_map(Act::Leave),
        1 => Just(Act::Raise),
    ]
}

/// A worker as the scheduler sees it: its incarnation, its steps, and its next sequence number.
struct Peer {
    worker_id: TaskIncarnation,
    held: Vec<Assignment<u64>>,
    sequence: u64,
}

impl Peer {
    fn restart(&mut self, queue: &mut Queue) {
        self.worker_id.incarnation.0 += 1;
        (self.held, self.sequence) = (Vec::new(), 0);
        queue.joined(NOW, self.worker_id, 0);
    }
}

fn perform(queue: &mut Queue, peers: &mut [Peer], act: Act) {
    match act {
        Act::Schedule(updates) => {
            let _ = queue.schedule(7, 3, if updates { StepEffect::Update } else { StepEffect::Nothing });
        }
        Act::Take(at, want) => {
            let peer = &mut peers[at as usize];
            peer.held.extend(queue.take(NOW, peer.worker_id, u64::MAX, want).unwrap());
        }
        Act::Commit(at) if !peers[at as usize].held.is_empty() => {
            let peer = &mut peers[at as usize];
            let given = peer.held.remove(0);
            let own = given.effect == StepEffect::Update && given.on_behalf_of.is_none();
            peer.sequence += u64::from(own);
            let sequence = if own { Some(peer.sequence) } else { given.on_behalf_of.map(|name| name.sequence) };
            assert_eq!(queue.committed(NOW, peer.worker_id, given.attempt_id, sequence, 1), Receipt::Taken);
        }
        Act::Fail(at) if !peers[at as usize].held.is_empty() => {
            let peer = &mut peers[at as usize];
            let error = Error::new(Code::DataRow, "x");
            assert_eq!(queue.failed(NOW, peer.worker_id, peer.held.remove(0).attempt_id, error), Receipt::Taken);
        }
        Act::GiveBack(at) if !peers[at as usize].held.is_empty() => {
            let peer = &mut peers[at as usize];
            assert_eq!(queue.gave_back(NOW, peer.worker_id, peer.held.remove(0).attempt_id, "x"), Receipt::Taken);
        }
        Act::Lose(at, reach) => {
            let peer = &mut peers[at as usize];
            let own = peer.held.iter().any(|given| given.effect == StepEffect::Update && given.on_behalf_of.is_none());
            let next = peer.sequence + u64::from(own);
            let (one, two) = [(peer.sequence, peer.sequence), (next, peer.sequence), (next, next)][reach as usize];
            assert!(queue.lost(peer.worker_id));
            assert_eq!(queue.fenced(peer.worker_id, &[(one, true), (two, true)]), Ok(()));
            peer.restart(queue);
        }
        Act::Leave(at) => {
            let peer = &mut peers[at as usize];
            assert_eq!(queue.left(peer.worker_id), Ok(()));
            peer.restart(queue);
        }
        Act::Raise => {
            let due = queue.is_done() && queue.is_failing();
            assert_eq!(queue.raise().is_some(), due);
        }
        Act::Commit(_) | Act::Fail(_) | Act::GiveBack(_) => {}
    }
}

fn books_agree(queue: &Queue, peers: &[Peer]) {
    let held: usize = peers.iter().map(|peer| peer.held.len()).sum();
    assert_eq!(queue.unfinished, queue.queue.len() + held, "every open step is in one place");
    let open = queue.steps.values().filter(|step| !matches!(step.state, StepState::Done(_)));
    assert_eq!(queue.bytes, open.map(|step| step.bytes).sum::<usize>());
    for (&id, step) in &queue.steps {
        assert_eq!(queue.queue.contains(&id), matches!(step.state, StepState::Queued), "{id}");
        if matches!(step.state, StepState::Done(StepOutcome::Cancelled)) {
            assert_eq!(step.runs, 0, "{id} was cancelled and had run");
        }
    }
    let numbers = || peers.iter().flat_map(|peer| peer.held.iter().map(|given| given.number));
    if let (Some(low), Some(high)) = (numbers().min(), numbers().max()) {
        assert!(high - low <= BOUND, "numbers {low} and {high} are in flight");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn every_step_is_in_one_place_and_ends_with_one_true_outcome(acts in proptest::collection::vec(act(), 1..150)) {
        let consistency = Consistency::Bounded(BOUND);
        let mut queue = queue(SchedulerOptions { steps: 20, bytes: 50, attempts: 3, consistency, ..SchedulerOptions::default() }, WORKERS, 0);
        let peer = |index| Peer { worker_id: worker_id(index, 1), held: Vec::new(), sequence: 0 };
        let mut peers: Vec<Peer> = (0..WORKERS).map(peer).collect();
        for act in acts {
            perform(&mut queue, &mut peers, act);
            books_agree(&queue, &peers);
        }
        // Nothing keeps the queue from draining.
        for round in 0.. {
            prop_assert!(round < 200, "the queue does not drain");
            if queue.is_done() {
                break;
            }
            for at in 0..WORKERS {
                perform(&mut queue, &mut peers, Act::Take(at, 2));
                perform(&mut queue, &mut peers, Act::Commit(at));
            }
        }
        let failing = queue.is_failing();
        prop_assert_eq!(queue.raise().is_some(), failing);
        prop_assert!((0..queue.steps.len() as u64).all(|id| queue.outcome(StepId(id)).is_some()));
    }
}
