//! The store of one server, message by message: what must hold whatever the order of messages is.

use bytes::Bytes;
use phalanx_base::{Code, Incarnation, Result, Role, Shape, TaskId};
use phalanx_optim::Sgd;
use phalanx_ps::plan::{CHUNK, ItemKind, ItemSpec, RowInitializer};
use phalanx_ps::proto::{self, Assign, Exchange, Exchanged, Range, Rows, UpdatePart};
use phalanx_ps::{Executor, Store, TaskIncarnation};
use phalanx_wire::task_to_wire;
use std::sync::{Arc, Barrier};

fn worker(index: u32) -> TaskIncarnation {
    (TaskId::new(Role::Worker, index), Incarnation(7))
}

fn variable(numbers: usize) -> ItemSpec {
    let kind = ItemKind::Dense { shape: Shape::new([numbers]).expect("a shape"), rows: 0..numbers };
    ItemSpec { name: "w".into(), optimizer: Sgd::new(1.0).into(), kind }
}

fn table(dim: usize) -> ItemSpec {
    let kind = ItemKind::Table { dim, initializer: RowInitializer::constant(0.0), pinned: None };
    ItemSpec { name: "t".into(), optimizer: Sgd::new(1.0).into(), kind }
}

fn whole(numbers: usize) -> Vec<Range> {
    vec![Range { handle: 0, start: 0, count: numbers as u64, held: 0, slot: 0 }]
}

fn exchange(store: &Store, from: TaskIncarnation, ask: &Exchange, body: &[u8]) -> Result<(Exchanged, Vec<u8>)> {
    store.exchange(from, ask, &[Bytes::copy_from_slice(body)], Executor::Serial, |len| vec![0; len])
}

fn ones(numbers: usize) -> Vec<u8> {
    1.0_f32.to_le_bytes().repeat(numbers)
}

fn values(store: &Store, numbers: usize, closed: u64) -> Vec<f32> {
    let ask = Exchange { closed, dense_pull: whole(numbers), ..Exchange::default() };
    let (_, bytes) = exchange(store, worker(9), &ask, &[]).expect("a pull");
    let mut out = vec![0.0; numbers];
    phalanx_base::read_f32s(&bytes, &mut out);
    out
}

/// A gradient for a round, for the dense variable or for rows of the table.
fn contribution(round: u64, dense: usize, rows: usize) -> (Exchange, Vec<u8>) {
    let update = Some(UpdatePart { step: round + 1, part: 0, parts: 1 });
    let mut ask = Exchange { update, round: Some(round), closed: round, ..Exchange::default() };
    let mut body = Vec::new();
    if dense > 0 {
        ask.dense_push = whole(dense);
        body.extend(ones(dense));
    }
    if rows > 0 {
        ask.row_push = vec![Rows { handle: 1, count: rows as u64, ..Rows::default() }];
        (0..rows as i64).for_each(|id| body.extend(id.to_le_bytes()));
        body.extend(ones(rows));
    }
    (ask, body)
}

/// Two workers contribute to each round at the same time; one of them closes it as soon as its own is in, so the
/// other's comes before, after, or in the middle of that.
fn race(dense: usize, rows: usize, rounds: u64) -> Store {
    let store = Store::default();
    store.create(&[variable(dense.max(1)), table(1)]).expect("new variables");
    let meet = Barrier::new(2);
    let contribute = |who: TaskIncarnation, close: bool| {
        for round in 0..rounds {
            meet.wait();
            let (ask, body) = contribution(round, dense, rows);
            if !close {
                // Somewhere in the time that the other one needs.
                std::thread::sleep(std::time::Duration::from_micros(round % 10 * 100));
            }
            exchange(&store, who, &ask, &body).expect("a contribution");
            if close {
                let mut pull = Exchange { closed: round + 1, ..Exchange::default() };
                pull.dense_pull = whole(dense.max(1));
                pull.row_pull = vec![Rows { handle: 1, count: rows as u64, ..Rows::default() }];
                let ids: Vec<u8> = (0..rows as i64).flat_map(i64::to_le_bytes).collect();
                exchange(&store, who, &pull, &ids).expect("a pull");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| contribute(worker(0), true));
        scope.spawn(|| contribute(worker(1), false));
    });
    store
}

#[test]
fn a_gradient_that_comes_while_its_round_closes_is_in_it_or_dropped() {
    let (numbers, rounds) = (32 * CHUNK, 30);
    let store = race(numbers, 0, rounds);
    let wrong = values(&store, numbers, rounds).iter().filter(|&&x| x != -(rounds as f32)).count();
    assert_eq!(wrong, 0, "{wrong} of {numbers} numbers had more than one update in a round");
}

#[test]
fn row_gradients_that_come_while_their_round_closes_are_in_it_or_dropped() {
    let (rows, rounds) = (20_000, 30);
    let store = race(0, rows, rounds);
    let ask = Exchange {
        closed: rounds,
        row_pull: vec![Rows { handle: 1, count: rows as u64, ..Rows::default() }],
        ..Exchange::default()
    };
    let ids: Vec<u8> = (0..rows as i64).flat_map(i64::to_le_bytes).collect();
    let (_, bytes) = exchange(&store, worker(9), &ask, &ids).expect("a pull");
    let mut out = vec![0.0; rows];
    phalanx_base::read_f32s(&bytes, &mut out);
    let wrong = out.iter().filter(|&&x| x != -(rounds as f32)).count();
    assert_eq!(wrong, 0, "{wrong} of {rows} rows had more than one update in a round");
}

fn part(step: u64, part: u32, parts: u32) -> Exchange {
    Exchange { update: Some(UpdatePart { step, part, parts }), counts: true, ..Exchange::default() }
}

#[test]
fn a_lost_workers_step_counts_once_even_if_whoever_finishes_it_has_fewer_parts() {
    let store = Store::default();
    store.create(&[variable(4)]).expect("a new variable");
    let lost = worker(0);
    // The first of three parts: dense. The others, rows of the lost worker's batch, never come.
    let first = Exchange { dense_push: whole(4), ..part(1, 0, 3) };
    exchange(&store, lost, &first, &ones(4)).expect("a push");
    assert_eq!(store.global_step(), 0, "a step counts when it is whole");
    let fenced = store.fence(lost).expect("no log");
    assert_eq!((fenced.step, fenced.is_complete()), (1, false));
    // Another finishes it with a batch that has no such rows.
    let behalf = Some(task_to_wire(lost.0, lost.1));
    let finish = Exchange { dense_push: whole(4), on_behalf_of: behalf, ..part(1, 0, 1) };
    for _ in 0..3 {
        exchange(&store, lost, &finish, &ones(4)).expect("a push on behalf of another");
        assert_eq!(values(&store, 4, 0), [-1.0; 4], "applied once");
        assert_eq!(store.global_step(), 1, "the step is on every server now, so it counts, once");
    }
    assert!(store.fence(lost).expect("no log").is_complete());
}

#[test]
fn an_initial_value_that_arrives_again_while_the_model_trains_changes_nothing() {
    let store = Store::default();
    store.create(&[variable(4)]).expect("a new variable");
    let assign = Assign { ranges: whole(4), global_step: None, ..Assign::default() };
    store.assign(&assign, &[ones(4).into()]).expect("the chief's values");
    store.set_ready();
    exchange(&store, worker(0), &Exchange { dense_push: whole(4), ..part(1, 0, 1) }, &ones(4)).expect("a push");
    let again = store.assign(&assign, &[ones(4).into()]);
    assert_eq!(values(&store, 4, 0), [0.0; 4], "the push is not undone");
    assert_eq!(again.unwrap_err().code(), Code::VariableConflict);
}

#[test]
fn a_message_that_does_not_fit_changes_nothing_at_all() {
    let store = Arc::new(Store::default());
    store.create(&[variable(4), table(1)]).expect("new variables");
    // The second half of the message is wrong, the first is right.
    let mut ask = Exchange { dense_push: whole(4), ..part(1, 0, 1) };
    ask.row_push = vec![Rows { handle: 1, count: 1 << 40, ..Rows::default() }];
    assert_eq!(exchange(&store, worker(0), &ask, &ones(4)).unwrap_err().code(), Code::BadMessage);
    ask.row_push.clear();
    ask.dense_pull = vec![Range { handle: 0, start: 3, count: 2, held: 0, slot: 0 }];
    let too_far = exchange(&store, worker(0), &ask, &ones(4)).unwrap_err();
    assert_eq!(too_far.code(), Code::ShapeMismatch);
    let mut too_long = ones(4);
    too_long.push(0);
    ask.dense_pull.clear();
    assert_eq!(exchange(&store, worker(0), &ask, &too_long).unwrap_err().code(), Code::BadMessage);
    assert_eq!(values(&store, 4, 0), [0.0; 4]);
    assert_eq!(store.global_step(), 0);
}

#[test]
fn an_assignment_that_does_not_fit_changes_nothing_at_all() {
    let store = Store::default();
    store.create(&[variable(4), table(1)]).expect("new variables");
    let half = |ask: Assign, body: Vec<u8>| store.assign(&ask, &[body.into()]).unwrap_err().code();
    let right = || Assign { ranges: whole(4), global_step: Some(9), ..Assign::default() };
    // The first half of each message is right, the second is wrong.
    let rows = vec![Rows { handle: 1, count: 1 << 40, ..Rows::default() }];
    assert_eq!(half(Assign { rows, ..right() }, ones(4)), Code::BadMessage);
    assert_eq!(half(right(), ones(5)), Code::BadMessage);
    let ranges = vec![whole(4)[0], Range { slot: 7, ..whole(4)[0] }];
    assert_eq!(half(Assign { ranges, ..right() }, ones(8)), Code::ShapeMismatch);
    let updates = vec![proto::UpdateCount { handle: 77, count: 1, closed: 0 }];
    assert_eq!(half(Assign { updates, ..right() }, ones(4)), Code::NoSuchVariable);
    let input_positions = vec![proto::InputPosition { task: "nobody".into(), position: vec![1] }];
    half(Assign { input_positions, ..right() }, ones(4));
    let nameless = vec![proto::TaskProgress::default()];
    assert_eq!(half(Assign { progress: nameless, forgets: true, ..right() }, ones(4)), Code::BadMessage);
    assert_eq!(half(Assign { clears: true, ..right() }, ones(4)), Code::BadMessage);
    assert_eq!(values(&store, 4, 0), [0.0; 4]);
    assert_eq!(store.global_step(), 0);
}

#[test]
fn a_restored_server_counts_each_step_once_and_what_it_has_missed() {
    let store = Store::default();
    store.create(&[variable(4)]).expect("a new variable");
    let applied = |index: u32, step: u64, counted: Option<u64>| proto::TaskProgress {
        task: Some(task_to_wire(worker(index).0, worker(index).1)),
        step,
        parts_applied: 1,
        parts: 1,
        counted,
        ..proto::TaskProgress::default()
    };
    // Worker 0 had come to step 30 as others know, and its step 31 may have been seen; nobody knows of worker 1.
    let known = vec![applied(0, 10, Some(31)), applied(1, 5, Some(5))];
    let assign = Assign { forgets: true, progress: known, global_step: Some(36), ..Assign::default() };
    store.assign(&assign, &[]).expect("a restore");
    store.set_ready();
    let push = |index: u32, step: u64| {
        let ask = Exchange { dense_push: whole(4), counts: true, ..part(step, 0, 1) };
        exchange(&store, worker(index), &ask, &ones(4)).expect("a push");
        store.global_step()
    };
    assert_eq!([push(0, 31), push(0, 31), push(0, 32)], [36, 36, 37], "steps 11 to 30 are missed, 31 was counted");
    assert_eq!([push(1, 9), push(1, 10)], [41, 42], "steps 6 to 9 were not counted before");
    assert_eq!(store.missed(), 20 + 3);
}

fn step(number: u64, learning_rate: Option<f32>) -> Exchange {
    Exchange { dense_push: whole(2), learning_rate, ..part(number, 0, 1) }
}

#[test]
fn values_of_a_model_that_is_trained_are_replaced_once_by_each_message() {
    let store = Store::default();
    store.create(&[variable(2)]).expect("a new variable");
    let replace = |number: u64, value: f32| {
        let ask = Assign { ranges: whole(2), replaces: true, number, ..Assign::default() };
        store.replace(worker(0), &ask, &[value.to_le_bytes().repeat(2).into()])
    };
    assert_eq!(replace(1, 5.0).unwrap_err().code(), Code::NotInitialized, "there is nothing to replace yet");
    store.set_ready();
    let ask = Assign { ranges: whole(2), ..Assign::default() };
    assert_eq!(store.assign(&ask, &[ones(2).into()]).unwrap_err().code(), Code::VariableConflict, "not by mistake");
    replace(1, 5.0).unwrap();
    exchange(&store, worker(1), &step(1, None), &ones(2)).unwrap();
    assert_eq!(values(&store, 2, 0), [4.0, 4.0]);
    replace(1, 5.0).unwrap();
    assert_eq!(values(&store, 2, 0), [4.0, 4.0], "the same message came again");
    replace(2, 7.0).unwrap();
    assert_eq!(values(&store, 2, 0), [7.0, 7.0]);
    replace(1, 5.0).unwrap();
    assert_eq!(values(&store, 2, 0), [7.0, 7.0], "an older one came late");
    let slots =
        Assign { ranges: vec![Range { slot: 1, ..whole(2)[0] }], replaces: true, number: 3, ..Assign::default() };
    assert_eq!(store.replace(worker(0), &slots, &[ones(2).into()]).unwrap_err().code(), Code::BadMessage);
    let long = Assign { ranges: whole(3), replaces: true, number: 3, ..Assign::default() };
    assert_eq!(store.replace(worker(0), &long, &[ones(3).into()]).unwrap_err().code(), Code::ShapeMismatch);
    store.fence(worker(0)).expect("no log");
    assert_eq!(replace(3, 9.0).unwrap_err().code(), Code::Fenced, "a fenced task replaces nothing");
    assert_eq!(values(&store, 2, 0), [7.0, 7.0]);
}

#[test]
fn a_learning_rate_that_cannot_be_one_leaves_everything_as_it_was() {
    let store = Store::default();
    store.create(&[variable(2)]).expect("a new variable");
    for rate in [f32::NAN, f32::INFINITY, -1.0] {
        assert_eq!(exchange(&store, worker(0), &step(1, Some(rate)), &ones(2)).unwrap_err().code(), Code::BadSetting);
    }
    exchange(&store, worker(0), &step(1, Some(0.5)), &ones(2)).unwrap();
    exchange(&store, worker(0), &step(2, None), &ones(2)).unwrap();
    assert_eq!(values(&store, 2, 0), [-1.5, -1.5]);
}
