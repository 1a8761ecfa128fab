//! A worker's loop and its supervisor, in jobs of one process.

use crate::support::{Line, quiet};
use burn::module::Param;
use burn::tensor::Tensor;
use phalanx_base::{Code, Result};
use phalanx_optim::Sgd;
use phalanx_ps::plan::RowInitializer;
use phalanx_ps::{Client, Partitioner, Placement, TableSpec};
use phalanx_train::testing::connections;
use phalanx_train::{MiniCluster, NonFinite, Server, Session, Step, StepGradients, Supervisor, SyncReplicas};
use phalanx_wire::bulk::{self, Transport};

fn first(model: &Line) -> (f32, f32) {
    let number = |param: &Param<Tensor<1>>| param.val().into_data().as_slice::<f32>().unwrap()[0];
    (number(&model.w), number(&model.b))
}

fn newest(session: &mut Session<Line>) -> (f32, f32) {
    session.refresh().unwrap();
    first(session.model().unwrap())
}

fn table(dim: usize, rate: f32) -> TableSpec {
    let (initializer, optimizer) = (RowInitializer::constant(1.0), Sgd::new(rate).into());
    TableSpec { name: "t".into(), dim, initializer, optimizer }
}

/// Trains on every trainer of a cluster until `steps`; returns what `look` saw on the chief.
fn train<T: Send>(
    cluster: &MiniCluster,
    steps: u64,
    prepare: impl Fn(&Server) -> Supervisor + Sync,
    width: usize,
    look: impl Fn(&mut Session<Line>) -> T + Sync,
) -> T {
    let run = |server: &Server| -> Result<Option<T>> {
        let supervisor = prepare(server);
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(width))?;
        while let Some(step) = session.step(Line::loss)? {
            if step.global_step >= steps {
                break;
            }
        }
        let seen = server.is_chief().then(|| look(&mut session));
        supervisor.stop(session)?;
        Ok(seen)
    };
    let seen = std::thread::scope(|scope| {
        let trainers: Vec<_> = cluster.trainers().iter().map(|server| scope.spawn(|| run(server).unwrap())).collect();
        trainers.into_iter().find_map(|trainer| trainer.join().unwrap()).unwrap()
    });
    cluster.servers().iter().for_each(|server| server.join().unwrap());
    seen
}

fn near(seen: (f32, f32)) -> bool {
    (seen.0 - 2.0).abs() < 0.05 && (seen.1 - 1.0).abs() < 0.05
}

#[test]
fn two_servers_and_two_trainers_find_the_line() {
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    let seen = train(&cluster, 300, |server| Supervisor::new(server, Sgd::new(0.1)), 1, newest);
    assert!(near(seen), "{seen:?}");
}

#[test]
fn synchronous_training_finds_it_too() {
    let cluster = MiniCluster::start_with(2, 2, quiet()).unwrap();
    let prepare = |server: &Server| Supervisor::new(server, Sgd::new(0.1)).sync(SyncReplicas::default());
    let (seen, step) = train(&cluster, 200, prepare, 1, |session| (newest(session), session.global_step()));
    assert!(near(seen) && step >= 200, "{seen:?} at {step}");
}

#[test]
fn one_process_alone_is_a_job() {
    let server = Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    while session.step(Line::loss).unwrap().unwrap().global_step < 200 {}
    assert!(near(newest(&mut session)));
    supervisor.stop(session).unwrap();
}

#[test]
fn a_variable_split_over_servers_trains_like_a_whole_one() {
    let cluster = MiniCluster::start_with(3, 0, quiet()).unwrap();
    let prepare = |server: &Server| {
        Supervisor::new(server, Sgd::new(0.1))
            .partitioner(Partitioner::FixedShards(3))
            .placement(Placement::greedy_by_bytes())
    };
    // Long enough that a shard has more than one chunk.
    let width = 100_000;
    let variables = train(&cluster, 200, prepare, width, |session| session.values().unwrap());
    let (name, shape, values) = &variables[0];
    assert_eq!((name.as_str(), shape.elements()), ("w", width));
    assert!((values[0] - 2.0).abs() < 0.05 && values[1..].iter().all(|&x| x == 0.0));
}

#[test]
fn a_variable_and_a_table_are_pinned_to_a_server_and_a_wrong_pin_is_refused() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let prepare = |placement: Placement| {
        let mut supervisor = Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1)).placement(placement);
        let rows = supervisor.table(table(2, 0.5)).unwrap();
        supervisor.prepare_or_wait_for_session(Line::new(1)).map(|session| (supervisor, session, rows))
    };
    let error = prepare(Placement::round_robin().pin("w*", 2)).err().unwrap();
    assert_eq!((error.code(), error.what()), (Code::NoSuchTask, "\"w*\" is pinned to ps/2, which does not exist"));
    let error = prepare(Placement::round_robin().pin("wide", 1)).err().unwrap();
    let what = "\"wide\" is pinned to ps/1, but the model has no such variable or table";
    assert_eq!((error.code(), error.what()), (Code::NoSuchVariable, what));
    assert_eq!(error.why(), Some("it has w, b, t"));
    // Without the pins, `w` would be on ps/0, and the rows on both.
    let (supervisor, mut session, rows) = prepare(Placement::round_robin().pin("*", 1)).unwrap();
    let client = connections::client(&cluster.trainers()[0]).unwrap();
    let variables = [0, 1].map(|server| client.describe(server).unwrap().variables);
    assert_eq!(variables, [0, 2]);
    let step = session.step_with_rows(&[(rows, &[7, 8, 9, 7])], |line, rows| (line.loss(), rows[0].lookup().sum()));
    let sum = step.unwrap().unwrap().value;
    assert_eq!(phalanx_nn::scalar(sum).unwrap(), 8.0);
    // The rows of these ids would be on both servers.
    assert_eq!(session.look_up(&[(rows, &[7, 8, 9])]).unwrap()[0].values, [1.0; 6]);
    supervisor.stop(session).unwrap();
}

#[test]
fn a_step_returns_what_its_closure_returns_beside_the_loss() {
    let server = Server::local().unwrap();
    let mut supervisor = Supervisor::new(&server, Sgd::new(0.1));
    let rows = supervisor.table(table(2, 0.5)).unwrap();
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    let Step { loss, global_step, value } = session.step(|line| (line.loss(), "seen")).unwrap().unwrap();
    assert!(loss > 0.0);
    assert_eq!((global_step, value), (0, "seen"));
    let step: Step<(usize, f32)> = session
        .step_with_rows(&[(rows, &[7, 9])], |line, rows| {
            let sum = phalanx_nn::scalar(rows[0].lookup().sum())?;
            Ok((line.loss(), (rows.len(), sum)))
        })
        .unwrap()
        .unwrap();
    assert_eq!((step.global_step, step.value), (1, (1, 4.0)));
    session.stop_at(2);
    assert_eq!(session.step(|line| (line.loss(), 5)).unwrap(), None, "nothing is computed");
    supervisor.stop(session).unwrap();
}

#[test]
fn rows_of_a_table_are_trained_where_they_are_touched() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    let mut supervisor = Supervisor::new(server, Sgd::new(0.1));
    let rows = supervisor.table(table(2, 0.5)).unwrap();
    let twice = supervisor.table(table(3, 0.5)).unwrap_err();
    assert_eq!((twice.code(), twice.what()), (Code::VariableConflict, "two tables are called \"t\""));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    // d(sum)/d(row) = times the id occurs.
    for _ in 0..3 {
        session.step_with_rows(&[(rows, &[7, 9, 7])], |line, rows| line.loss() + rows[0].lookup().sum()).unwrap();
    }
    let mut seen = Vec::new();
    session
        .step_with_rows(&[(rows, &[7, 8, 9])], |line, rows| {
            seen = rows[0].lookup().into_data().as_slice::<f32>().unwrap().to_vec();
            line.loss()
        })
        .unwrap();
    assert_eq!(seen, [-2.0, -2.0, 1.0, 1.0, -0.5, -0.5]);
    // A table of another supervisor.
    let mut other = Supervisor::new(server, Sgd::new(0.1));
    other.table(table(2, 0.5)).unwrap();
    let stranger = other.table(TableSpec { name: "u".into(), ..table(2, 0.5) }).unwrap();
    let error = session.step_with_rows(&[(stranger, &[1])], |line, _| line.loss()).unwrap_err();
    assert_eq!(error.code(), Code::NoSuchVariable);
    assert_eq!(session.table("t").unwrap(), rows);
    assert_eq!(session.table("u").unwrap_err().next(), Some("it has t"));
    supervisor.stop(session).unwrap();
}

#[test]
fn a_gradient_that_is_not_finite_stops_the_job_and_is_named() {
    let server = Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    session.step(Line::loss).unwrap();
    let error = session.step(|line| line.loss() * f32::NAN).unwrap_err();
    assert_eq!(error.code(), Code::NotFinite);
    assert!(error.what().contains("\"w\"") && error.place().unwrap().contains("chief/0, step 2"), "{error}");
}

#[test]
fn a_gradient_that_is_not_finite_can_be_skipped() {
    let server = Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1)).non_finite(NonFinite::Skip);
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    for step in 0..200 {
        session.step(|line| if step % 10 == 3 { line.loss() * f32::INFINITY } else { line.loss() }).unwrap();
    }
    assert_eq!(session.skipped(), 20);
    assert!(near(newest(&mut session)));
    supervisor.stop(session).unwrap();
}

#[test]
fn a_model_on_a_shape_the_message_limit_does_not_fit_is_sent_in_parts() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    // 24 MB: three messages a step.
    let width = 6_000_000;
    let seen = train(&cluster, 20, |server| Supervisor::new(server, Sgd::new(0.1)), width, newest).0;
    assert!((seen - 2.0).abs() < 0.3, "{seen}");
}

#[test]
fn a_worker_that_fails_and_drops_everything_ends_the_job_with_its_reason() {
    let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
    let (chief, worker) = (cluster.trainers()[0].clone(), cluster.trainers()[1].clone());
    drop_all_but(cluster, |servers| {
        let failing = std::thread::spawn(move || {
            let supervisor = Supervisor::new(&worker, Sgd::new(0.1));
            let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
            drop(worker);
            session.step(|line| line.loss() * f32::NAN).map(drop)
        });
        let supervisor = Supervisor::new(&chief, Sgd::new(0.1));
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
        while session.step(Line::loss).unwrap().is_some() {}
        let error = supervisor.stop(session).unwrap_err();
        assert_eq!(error.code(), Code::NotFinite, "{error}");
        assert!(error.to_string().contains("worker/0"), "{error}");
        assert_eq!(failing.join().unwrap().unwrap_err().code(), Code::NotFinite);
        assert_eq!(servers[0].join().unwrap_err().code(), Code::NotFinite);
    });
}

/// Keeps the parameter servers of a cluster and lets its trainers go to whoever holds them.
fn drop_all_but(cluster: MiniCluster, run: impl FnOnce(&[Server])) {
    let servers = cluster.servers().to_vec();
    drop(cluster);
    run(&servers);
}

/// Tasks of other machines are reached over TCP; here both ends are on this one.
#[test]
fn a_job_over_the_network_finds_the_line() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    server.wait_until_formed().unwrap();
    let lanes = || {
        let lane = |(task, address): (_, phalanx_wire::Address)| -> Box<dyn Transport> {
            let token = connections::client_options(server).token;
            bulk::reach_over_network(&address, format!("{task} over TCP"), token)
        };
        connections::servers(server).unwrap().into_iter().map(lane).collect()
    };
    let client = Client::over(lanes, connections::client_options(server)).unwrap();
    let supervisor = Supervisor::new(server, Sgd::new(0.1));
    // 12 MB: two messages a step.
    let mut session = connections::session_over(&supervisor, Line::new(3_000_000), client).unwrap();
    while session.step(Line::loss).unwrap().unwrap().global_step < 100 {}
    let seen = newest(&mut session);
    assert!(near(seen), "{seen:?}");
    supervisor.stop(session).unwrap();
}

/// Values after one, two, … steps of a job that nobody disturbs; `session` has made none yet.
fn values_after(steps: usize, session: &mut Session<Line>) -> Vec<(f32, f32)> {
    let mut seen = Vec::new();
    for _ in 0..steps {
        session.step(Line::loss).unwrap();
        session.finish().unwrap();
        seen.push(newest(session));
    }
    seen
}

/// A step that is forgotten leaves its sequence number to the next one: servers refuse a gap (PX0305).
#[test]
fn a_step_that_is_forgotten_does_not_count_and_the_next_one_does() {
    let server = Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    let expected = values_after(3, &mut session);
    supervisor.stop(session).unwrap();

    for overlap in [false, true] {
        let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
        let (steps, values) = cluster
            .run(|server| {
                let supervisor = Supervisor::new(server, Sgd::new(0.1)).overlap(overlap);
                let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
                assert!(!session.forget_last_step(), "there is no step yet");
                for counted in 0..3 {
                    for _ in 0..2 {
                        // Such a gradient would be seen.
                        session.step(|line| line.loss() * 100.0)?;
                        assert!(session.forget_last_step());
                    }
                    let step = session.step(Line::loss)?.unwrap();
                    session.finish()?;
                    assert_eq!((step.global_step, session.global_step()), (counted, counted + 1));
                }
                assert!(!session.forget_last_step(), "the last step was sent");
                let seen = (session.global_step(), newest(&mut session));
                supervisor.stop(session)?;
                Ok(seen)
            })
            .unwrap();
        assert_eq!((steps, values), (3, expected[2]), "overlap: {overlap}");
    }
}

#[test]
fn a_session_that_has_reached_its_last_step_computes_nothing() {
    for overlap in [false, true] {
        let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
        let (computed, steps) = cluster
            .run(|server| {
                let supervisor = Supervisor::new(server, Sgd::new(0.1)).overlap(overlap);
                let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
                session.stop_at(3);
                let mut computed = 0;
                for _ in 0..6 {
                    session.step(|line| {
                        computed += 1;
                        line.loss()
                    })?;
                }
                let seen = (computed, session.global_step());
                supervisor.stop(session)?;
                Ok(seen)
            })
            .unwrap();
        assert_eq!((computed, steps), (3, 3), "overlap: {overlap}");
    }
}

#[test]
fn a_learning_rate_that_is_set_is_that_of_the_supervisors_optimizer_alone() {
    for sync in [false, true] {
        let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
        let seen = cluster
            .run(|server| {
                let mut supervisor = Supervisor::new(server, Sgd::new(1.0)).optimizer_of("b", Sgd::new(0.25));
                let rows = supervisor.table(table(1, 0.125))?;
                if sync {
                    supervisor = supervisor.sync(SyncReplicas::default());
                }
                let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
                let mut seen = Vec::new();
                for rate in [Some(0.5), Some(2.0), None, None] {
                    session.set_learning_rate(rate);
                    // Every gradient is 1.
                    session.step_with_rows(&[(rows, &[7])], |line, rows| {
                        let row = rows[0].lookup().into_data().as_slice::<f32>().unwrap()[0];
                        seen.push((first(line).0, first(line).1, row));
                        line.w.val().sum() + line.b.val().sum() + rows[0].lookup().sum()
                    })?;
                }
                supervisor.stop(session)?;
                Ok(seen)
            })
            .unwrap();
        let expected = [(0.0, 0.0, 1.0), (-0.5, -0.25, 0.875), (-2.5, -0.5, 0.75), (-3.5, -0.75, 0.625)];
        assert_eq!(seen, expected, "synchronous: {sync}");
    }
}

#[test]
fn gradients_of_another_size_are_refused() {
    let server = Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(2)).unwrap();
    let gradients = StepGradients { dense: vec![Some(vec![1.0; 3].into())], ..StepGradients::default() };
    let error = session.step_with_gradients(&[], |_, _, _| Ok(gradients)).unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::ShapeMismatch, "the gradient of \"w\" has 3 numbers"));
}
