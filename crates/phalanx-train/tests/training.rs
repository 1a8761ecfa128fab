//! Whole jobs in one process: what a worker's loop and its supervisor promise.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::default_device;
use phalanx_optim::Sgd;
use phalanx_ps::plan::Initializer;
use phalanx_ps::{Client, Partitioner, Placement, TableSpec};
use phalanx_train::{MiniCluster, NonFinite, Server, ServerOptions, Session, Supervisor, SyncReplicas, connections};
use phalanx_wire::bulk::{self, Transport};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// y = w·x + b.
#[derive(Module, Debug)]
struct Line {
    w: Param<Tensor<1>>,
    b: Param<Tensor<1>>,
}

impl Line {
    fn new(width: usize) -> Self {
        let zeros = |n: usize| Param::from_tensor(Tensor::zeros([n], &default_device()));
        Self { w: zeros(width), b: zeros(1) }
    }

    /// The mean squared distance from y = 2·x₀ + 1 on three points.
    fn loss(&self) -> Tensor<1> {
        let losses = [-1.0_f32, 0.0, 2.0].map(|x| {
            let y = self.w.val().slice(0..1) * x + self.b.val();
            (y - (2.0 * x + 1.0)).powf_scalar(2.0)
        });
        Tensor::cat(losses.to_vec(), 0).mean()
    }
}

fn quiet() -> ServerOptions {
    ServerOptions { say: Arc::new(|_| {}), ..ServerOptions::default() }
}

fn first(model: &Line) -> (f32, f32) {
    let number = |param: &Param<Tensor<1>>| param.val().into_data().as_slice::<f32>().unwrap()[0];
    (number(&model.w), number(&model.b))
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
    let cluster = MiniCluster::start_with(2, 2, quiet()).unwrap();
    let seen = train(
        &cluster,
        300,
        |server| Supervisor::new(server, Sgd::new(0.1)),
        1,
        |session| {
            session.refresh().unwrap();
            first(session.model().unwrap())
        },
    );
    assert!(near(seen), "{seen:?}");
}

#[test]
fn synchronous_training_finds_it_too() {
    let cluster = MiniCluster::start_with(2, 3, quiet()).unwrap();
    let prepare = |server: &Server| Supervisor::new(server, Sgd::new(0.1)).sync(SyncReplicas::default());
    let (seen, step) = train(&cluster, 200, prepare, 1, |session| {
        session.refresh().unwrap();
        (first(session.model().unwrap()), session.global_step())
    });
    assert!(near(seen) && step >= 200, "{seen:?} at {step}");
}

#[test]
fn one_process_alone_is_a_job() {
    let server = Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    while session.step(Line::loss).unwrap().unwrap().global_step < 200 {}
    session.refresh().unwrap();
    assert!(near(first(session.model().unwrap())));
    supervisor.stop(session).unwrap();
}

#[test]
fn a_variable_split_over_servers_trains_like_a_whole_one() {
    let cluster = MiniCluster::start_with(3, 1, quiet()).unwrap();
    let prepare = |server: &Server| {
        Supervisor::new(server, Sgd::new(0.1))
            .partitioner(Partitioner::FixedShards(3))
            .placement(Placement::GreedyByBytes)
    };
    // Long enough that a shard has more than one chunk.
    let width = 100_000;
    let variables = train(&cluster, 200, prepare, width, |session| session.values().unwrap());
    let (name, shape, values) = &variables[0];
    assert_eq!((name.as_str(), shape.elements()), ("w", width));
    assert!((values[0] - 2.0).abs() < 0.05 && values[1..].iter().all(|&x| x == 0.0));
}

#[test]
fn rows_of_a_table_are_trained_where_they_are_touched() {
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    let table = TableSpec {
        name: "t".into(),
        dim: 2,
        initializer: Initializer::constant(1.0),
        optimizer: Sgd::new(0.5).into(),
    };
    let supervisor = Supervisor::new(server, Sgd::new(0.1)).table(table);
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1)).unwrap();
    // d(sum)/d(row) = times the id occurs.
    for _ in 0..3 {
        session.step_with_rows(&[(0, &[7, 9, 7])], |line, rows| line.loss() + rows[0].lookup().sum()).unwrap();
    }
    let mut seen = Vec::new();
    session
        .step_with_rows(&[(0, &[7, 8, 9])], |line, rows| {
            seen = rows[0].lookup().into_data().as_slice::<f32>().unwrap().to_vec();
            line.loss()
        })
        .unwrap();
    assert_eq!(seen, [-2.0, -2.0, 1.0, 1.0, -0.5, -0.5]);
    let error = session.step_with_rows(&[(1, &[1])], |line, _| line.loss()).unwrap_err();
    assert_eq!(error.code(), Code::NoSuchVariable);
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
    session.refresh().unwrap();
    assert_eq!(session.skipped(), 20);
    assert!(near(first(session.model().unwrap())));
    supervisor.stop(session).unwrap();
}

#[test]
fn a_model_on_a_shape_the_message_limit_does_not_fit_is_sent_in_parts() {
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    // 24 MB: three messages a step.
    let width = 6_000_000;
    let seen = train(
        &cluster,
        20,
        |server| Supervisor::new(server, Sgd::new(0.1)),
        width,
        |session| {
            session.refresh().unwrap();
            session.model().unwrap().w.val().into_data().as_slice::<f32>().unwrap()[0]
        },
    );
    assert!((seen - 2.0).abs() < 0.3, "{seen}");
}

#[test]
fn a_worker_that_fails_and_drops_everything_ends_the_job_with_its_reason() {
    let cluster = MiniCluster::start_with(1, 2, quiet()).unwrap();
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

/// Tasks of other machines are reached over gRPC; here both ends are on this one.
#[test]
fn a_job_over_grpc_finds_the_line() {
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    server.wait_until_formed().unwrap();
    let lanes = || {
        let lane = |(task, address): (_, phalanx_wire::Address)| -> Box<dyn Transport> {
            let token = connections::client_options(server).token;
            Box::new(bulk::Client::new(&address, format!("{task} over gRPC"), token))
        };
        connections::servers(server).unwrap().into_iter().map(lane).collect()
    };
    let client = Client::over(lanes, connections::client_options(server)).unwrap();
    let supervisor = Supervisor::new(server, Sgd::new(0.1));
    // 12 MB: two messages a step.
    let mut session = connections::session_over(&supervisor, Line::new(3_000_000), client).unwrap();
    while session.step(Line::loss).unwrap().unwrap().global_step < 100 {}
    session.refresh().unwrap();
    let seen = first(session.model().unwrap());
    assert!(near(seen), "{seen:?}");
    supervisor.stop(session).unwrap();
}

/// Values after one, two, … steps of a job that nobody disturbs; `session` has made none yet.
fn values_after(steps: usize, session: &mut Session<Line>) -> Vec<(f32, f32)> {
    let mut seen = Vec::new();
    for _ in 0..steps {
        session.step(Line::loss).unwrap();
        session.finish().unwrap();
        session.refresh().unwrap();
        seen.push(first(session.model().unwrap()));
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
        let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
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
                session.refresh()?;
                let seen = (session.global_step(), first(session.model()?));
                supervisor.stop(session)?;
                Ok(seen)
            })
            .unwrap();
        assert_eq!((steps, values), (3, expected[2]), "overlap: {overlap}");
    }
}

/// A whole job under [`MiniCluster::run`], with `parts` that end as they like; panics when it does not end.
fn run_cluster(
    ps: u32,
    trainers: u32,
    part: impl Fn(&Server) -> Result<u64> + Send + Sync + 'static,
) -> std::thread::Result<Result<u64>> {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let cluster = MiniCluster::start_with(ps, trainers, quiet()).unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| cluster.run(part)));
        let over = cluster.servers().iter().chain(cluster.trainers()).all(Server::should_stop);
        let _ = done.send((ended, over));
    });
    let (ended, over) = wait.recv_timeout(Duration::from_secs(60)).expect("the job ends");
    assert!(over, "every task has ended");
    ended
}

/// Trains until the job is over, or for `steps` of this trainer.
fn train_part(server: &Server, steps: usize) -> Result<u64> {
    let supervisor = Supervisor::new(server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
    for _ in 0..steps {
        if session.step(Line::loss)?.is_none() {
            break;
        }
    }
    let reached = session.global_step();
    supervisor.stop(session)?;
    Ok(reached)
}

fn mistake() -> Error {
    Error::new(Code::BadSetting, "no such model")
}

const FOREVER: usize = usize::MAX;

#[test]
fn a_cluster_ends_with_the_error_of_its_chief() {
    let before_training =
        |server: &Server| if server.is_chief() { Err(mistake()) } else { train_part(server, FOREVER) };
    let error = run_cluster(2, 3, before_training).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::BadSetting, "no such model"));
    let in_the_middle = |server: &Server| {
        if !server.is_chief() {
            return train_part(server, FOREVER);
        }
        let supervisor = Supervisor::new(server, Sgd::new(0.1));
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
        session.step(Line::loss)?;
        Err(mistake())
    };
    let error = run_cluster(2, 3, in_the_middle).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::BadSetting, "no such model"));
}

#[test]
fn a_cluster_ends_with_the_panic_of_its_chief() {
    let part = |server: &Server| {
        assert!(!server.is_chief(), "this does not hold");
        train_part(server, FOREVER)
    };
    let panic = run_cluster(2, 3, part).unwrap_err();
    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("this does not hold")));
}

#[test]
fn a_cluster_ends_with_the_error_of_a_worker() {
    let part = |server: &Server| {
        if server.task().to_string() == "worker/1" { Err(mistake()) } else { train_part(server, FOREVER) }
    };
    let error = run_cluster(2, 3, part).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::BadSetting, "{error}");
    assert!(error.to_string().contains("no such model"), "{error}");
    // A worker that is lost does not end the job, and is not forgotten either.
    let part = |server: &Server| match server.task().to_string().as_str() {
        "worker/1" => Err(Error::new(Code::PeerUnreachable, "the machine is gone")),
        _ => train_part(server, 50),
    };
    let error = run_cluster(2, 3, part).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::PeerUnreachable, "the machine is gone"));
}

#[test]
fn a_cluster_ends_with_the_panic_of_a_worker() {
    let part = |server: &Server| {
        assert!(server.is_chief(), "this does not hold");
        // What comes of the worker's panic must not hide it.
        Ok(train_part(server, FOREVER).unwrap())
    };
    let panic = run_cluster(2, 2, part).unwrap_err();
    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("this does not hold")));
}

#[test]
fn a_cluster_whose_parameter_server_goes_ends_with_an_error() {
    let servers = Arc::new(std::sync::Mutex::new(Vec::<Server>::new()));
    let cluster = MiniCluster::start_with(2, 2, quiet()).unwrap();
    *servers.lock().unwrap() = cluster.servers().to_vec();
    let part = move |server: &Server| {
        if server.is_chief() {
            server.wait_until_formed()?;
            servers.lock().unwrap()[1].leave(Some(&Error::new(Code::ServerLost, "the machine is gone")));
        }
        train_part(server, FOREVER)
    };
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(cluster.run(part)));
    let error = wait.recv_timeout(Duration::from_secs(60)).expect("the job ends").unwrap_err();
    assert_eq!(error.code(), Code::ServerLost, "{error}");
}

/// A worker that is lost does not end the job; a chief that returns without a word does.
#[test]
fn a_part_that_just_returns_ends_its_task() {
    let part = |server: &Server| if server.is_chief() { train_part(server, 50) } else { Ok(0) };
    let error = run_cluster(1, 2, part).unwrap();
    assert!(error.is_ok_and(|reached| reached >= 49));
    let part = |server: &Server| if server.is_chief() { Ok(0) } else { train_part(server, FOREVER) };
    let error = run_cluster(1, 2, part).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::JobFailed, "{error}");
    assert!(error.to_string().contains("chief/0 stopped without finishing its part"), "{error}");
}

#[test]
fn a_learning_rate_that_is_set_is_that_of_the_supervisors_optimizer_alone() {
    for sync in [false, true] {
        let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
        let seen = cluster
            .run(|server| {
                let table = TableSpec {
                    name: "t".into(),
                    dim: 1,
                    initializer: Initializer::constant(1.0),
                    optimizer: Sgd::new(0.125).into(),
                };
                let mut supervisor =
                    Supervisor::new(server, Sgd::new(1.0)).optimizer_of("b", Sgd::new(0.25)).table(table);
                if sync {
                    supervisor = supervisor.sync(SyncReplicas::default());
                }
                let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
                let mut seen = Vec::new();
                for rate in [Some(0.5), Some(2.0), None, None] {
                    session.set_learning_rate(rate);
                    // Every gradient is 1.
                    session.step_with_rows(&[(0, &[7])], |line, rows| {
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
