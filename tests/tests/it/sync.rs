//! Synchronous training over a real cluster: averages are right, and nobody waits for ever.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx::prelude::*;
use phalanx_base::{Error as PhalanxError, Incarnation};
use phalanx_ps::client::RemoteModel;
use phalanx_ps::{Client, Layout, Placement};
use phalanx_tests::within;
use phalanx_train::testing::connections;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Module, Debug)]
struct One {
    w: Param<Tensor<1>>,
}

impl One {
    fn new() -> Self {
        Self { w: Param::from_tensor(Tensor::zeros([3], &default_device())) }
    }
}

fn quiet() -> ServerOptions {
    let (beat, build) = (Duration::from_millis(10), Some("test".to_owned()));
    ServerOptions { beat, build, ..ServerOptions::default() }
}

/// How one trainer behaves.
#[derive(Clone, Copy)]
struct Habit {
    /// Its gradient, for each of the numbers.
    gradient: f32,
    /// Its own steps; the chief's end the job.
    steps: u64,
    pause: Duration,
    /// Dies without a word after its steps, instead of leaving.
    dies: bool,
}

const STEADY: Habit = Habit { gradient: 1.0, steps: 20, pause: Duration::ZERO, dies: false };

/// What the chief saw at the end.
struct Seen {
    global_step: u64,
    stale: u64,
    values: Vec<f32>,
    /// Steps that each trainer did.
    steps: Vec<u64>,
}

/// Runs one job; trainer 0 is the chief.
fn train(replicas: Option<u32>, habits: &[Habit]) -> Seen {
    let habits = habits.to_vec();
    within(DEADLINE, "synchronous training hangs", move || {
        let cluster = MiniCluster::start_with(2, habits.len() as u32 - 1, quiet()).unwrap();
        let seen = Mutex::new(None);
        // Rounds begin when all have come: a trainer alone would contribute several times to the first ones.
        let meet = Barrier::new(habits.len());
        let steps = std::thread::scope(|scope| {
            let trainers: Vec<_> = cluster
                .trainers()
                .iter()
                .zip(&habits)
                .map(|(server, habit)| {
                    let (seen, meet) = (&seen, &meet);
                    scope.spawn(move || {
                        let (steps, session) = work(server, *habit, replicas, meet);
                        if let (true, Some(mut session)) = (server.is_chief(), session) {
                            session.refresh().unwrap();
                            let values = session.values().unwrap().swap_remove(0).2;
                            *seen.lock().unwrap() = Some((session.global_step(), session.stale().unwrap(), values));
                            session.finish().unwrap();
                            server.leave(None);
                        }
                        steps
                    })
                })
                .collect();
            trainers.into_iter().map(|trainer| trainer.join().unwrap()).collect()
        });
        cluster.servers().iter().for_each(|server| server.join().unwrap());
        let (global_step, stale, values) = seen.into_inner().unwrap().unwrap();
        Seen { global_step, stale, values, steps }
    })
}

/// A trainer's part; the chief keeps its session.
fn work(server: &Server, habit: Habit, replicas: Option<u32>, meet: &Barrier) -> (u64, Option<Session<One>>) {
    let sync = SyncReplicas { replicas_to_aggregate: replicas };
    let supervisor = Supervisor::new(server, Sgd::new(1.0)).sync(sync);
    let mut session = supervisor.prepare_or_wait_for_session(One::new()).unwrap();
    meet.wait();
    let mut own = 0;
    while own < habit.steps {
        std::thread::sleep(habit.pause);
        let loss = |model: &One| model.w.val().sum() * habit.gradient;
        if session.step(loss).unwrap().is_none() {
            break;
        }
        own += 1;
    }
    if server.is_chief() {
        return (own, Some(session));
    }
    if habit.dies {
        server.leave(Some(&PhalanxError::new(Code::JobFailed, "killed by a test")));
    } else {
        supervisor.stop(session).unwrap();
    }
    (own, None)
}

#[test]
fn an_update_is_the_mean_of_all_gradients() {
    let forever = Habit { steps: u64::MAX, ..STEADY };
    let seen = train(None, &[STEADY, Habit { gradient: 3.0, ..forever }, Habit { gradient: 5.0, ..forever }]);
    // Rounds to which all three contributed; the mean of 1, 3 and 5 is 3.
    assert!(seen.global_step >= STEADY.steps - 1, "{}", seen.global_step);
    assert_eq!(seen.values, [-3.0 * seen.global_step as f32; 3]);
    assert_eq!(seen.stale, 0);
}

#[test]
fn backup_workers_do_not_hold_the_others_up_and_their_late_gradients_are_counted() {
    let slow = Habit { steps: u64::MAX, pause: Duration::from_millis(60), ..STEADY };
    let steady = Habit { steps: 40, pause: Duration::from_millis(5), ..STEADY };
    let seen = train(Some(2), &[steady, Habit { steps: u64::MAX, ..steady }, slow]);
    assert_eq!(seen.values, [-(seen.global_step as f32); 3]);
    assert!(seen.stale > 0, "the slow worker was late at least once");
    assert!(seen.steps[2] < seen.steps[1], "the slow one did fewer steps: {:?}", seen.steps);
}

#[test]
fn fewer_workers_than_gradients_contribute_several_batches_each() {
    let seen = train(Some(5), &[Habit { steps: 25, ..STEADY }, Habit { steps: u64::MAX, ..STEADY }]);
    assert_eq!(seen.values, [-(seen.global_step as f32); 3]);
    let sent: u64 = seen.steps.iter().sum();
    assert!(seen.global_step > 0 && seen.global_step <= sent / 5, "{} rounds of {sent} gradients", seen.global_step);
}

#[test]
fn nobody_waits_for_a_worker_whose_input_has_ended() {
    let seen = train(None, &[STEADY, Habit { steps: 3, ..STEADY }, Habit { steps: u64::MAX, ..STEADY }]);
    assert_eq!(seen.values, [-(seen.global_step as f32); 3]);
    assert!(seen.global_step >= 3, "{}", seen.global_step);
}

#[test]
fn nobody_waits_for_a_worker_that_died() {
    let dying = Habit { steps: 3, dies: true, ..STEADY };
    let seen = train(None, &[STEADY, dying, Habit { steps: u64::MAX, ..STEADY }]);
    assert_eq!(seen.values, [-(seen.global_step as f32); 3]);
    assert!(seen.global_step >= 3, "{}", seen.global_step);
}

#[test]
fn the_late_arrival_of_a_worker_that_was_shut_out_does_not_bring_it_back() {
    within(DEADLINE, "the barrier hangs", || {
        let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
        let chief = &cluster.trainers()[0];
        chief.wait_until_formed().unwrap();
        let client = |index| {
            let mut options = connections::client_options(chief);
            (options.task, options.incarnation) = (TaskId::new(Role::Worker, index), Incarnation(5));
            Client::connect(&connections::servers(chief).unwrap(), options).unwrap()
        };
        let (alive, lost) = (client(0), client(1));
        let remote =
            RemoteModel::announce(&alive, Layout::new(vec![], vec![], 1, Placement::default()).unwrap()).unwrap();
        alive.set_ready(&remote).unwrap();
        for worker in [&alive, &lost] {
            assert_eq!(worker.join_rounds(2).unwrap(), 0);
        }
        alive.fence(lost.options().task, lost.options().incarnation).unwrap();
        // Sent before it was shut out, and on its way ever since.
        let wait = Duration::from_millis(100);
        assert_eq!(lost.arrive(1, 0, 2, wait).unwrap_err().code(), Code::Fenced);
        assert_eq!(lost.join_rounds(2).unwrap_err().code(), Code::Fenced);
        // The one that is left closes rounds alone.
        for (step, round) in [(1, Some(0)), (2, Some(1)), (3, Some(1)), (4, Some(2))] {
            assert_eq!(alive.arrive(step, (step - 1) / 2, 2, Duration::from_secs(5)).unwrap(), round, "step {step}");
        }
        chief.leave(None);
        cluster.servers()[0].join().unwrap();
    });
}
