//! Tasks with different models: both sides get an error that names the difference.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use bytes::Bytes;
use phalanx::prelude::*;
use phalanx::{Result, Shape};
use phalanx_base::{Incarnation, UpdateId};
use phalanx_ps::client::{Push, RemoteModel, UpdateMode};
use phalanx_ps::{Client, Layout, VariableSpec};
use phalanx_tests::within;
use phalanx_train::testing::connections;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

fn quiet() -> ServerOptions {
    let (beat, build) = (Duration::from_millis(10), Some("test".to_owned()));
    ServerOptions { beat, build, ..ServerOptions::default() }
}

fn layout(name: &str, dims: &[usize], optimizer: impl Into<Optimizer>) -> Layout {
    let (name, shape, partitioner) = (name.to_owned(), Shape::new(dims).unwrap(), Partitioner::Whole);
    let variable = VariableSpec { name, shape, optimizer: optimizer.into(), partitioner };
    Layout::new(vec![variable], vec![], 1, Placement::default()).unwrap()
}

/// A server on which the chief has made `weight` of shape [2, 3], updated by SGD.
fn with_weight(claim: impl FnOnce(&Client) + Send + 'static) {
    within(DEADLINE, "a call hangs", || {
        let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
        let chief = &cluster.trainers()[0];
        chief.wait_until_formed().unwrap();
        let client = connections::client(chief).unwrap();
        let remote =
            RemoteModel::create(&client, layout("weight", &[2, 3], Sgd::new(0.5)), &[Bytes::from(vec![0; 24])])
                .unwrap();
        client.set_ready(&remote).unwrap();
        claim(&client);
        chief.leave(None);
        cluster.servers()[0].join().unwrap();
    });
}

fn contains_all(text: &str, words: &[&str]) {
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} is missing in:\n{text}");
}

#[test]
fn another_shape_is_a_conflict_that_names_both() {
    with_weight(|client| {
        let error = RemoteModel::find(client, layout("weight", &[3, 2], Sgd::new(0.5))).unwrap_err();
        assert_eq!(error.code(), Code::VariableConflict);
        contains_all(&error.report(), &["PX0301", "weight", "[2, 3]", "[3, 2]", "ps/0"]);
    });
}

#[test]
fn another_optimizer_is_a_conflict_that_names_both() {
    with_weight(|client| {
        let error = RemoteModel::find(client, layout("weight", &[2, 3], Adam::new(0.001))).unwrap_err();
        contains_all(&error.report(), &["PX0301", "weight", "Sgd", "Adam"]);
        let error = RemoteModel::find(client, layout("weight", &[2, 3], Sgd::new(0.25))).unwrap_err();
        contains_all(&error.report(), &["PX0301", "0.5", "0.25"]);
    });
}

#[test]
fn creating_what_exists_otherwise_is_the_same_conflict() {
    with_weight(|client| {
        let other = layout("weight", &[3, 2], Sgd::new(0.5));
        let error = RemoteModel::create(client, other, &[Bytes::from(vec![0; 24])]).unwrap_err();
        contains_all(&error.report(), &["PX0301", "[2, 3]", "[3, 2]"]);
    });
}

#[test]
fn an_unknown_name_comes_with_the_nearest_known_one() {
    with_weight(|client| {
        let error = RemoteModel::find(client, layout("wieght", &[2, 3], Sgd::new(0.5))).unwrap_err();
        assert_eq!(error.code(), Code::NoSuchVariable);
        contains_all(&error.report(), &["PX0302", "\"wieght\"", "did you mean \"weight\"?"]);
    });
}

#[test]
fn creating_the_same_again_changes_nothing() {
    with_weight(|client| {
        let same = || layout("weight", &[2, 3], Sgd::new(0.5));
        let mut first = RemoteModel::find(client, same()).unwrap();
        let options = client.options();
        let name = UpdateId { task: options.task, incarnation: options.incarnation, sequence: 1 };
        let push = Push {
            id: name,
            dense: vec![Some(Bytes::from(2.0_f32.to_le_bytes().repeat(6)))],
            rows: vec![],
            input_position: Bytes::new(),
            base_version: None,
            clock: 0,
            learning_rate: None,
        };
        client.exchange(&mut first, Some(&push), &[], UpdateMode::Asynchronous).unwrap();
        let mut again = RemoteModel::create(client, same(), &[Bytes::from(9.0_f32.to_le_bytes().repeat(6))]).unwrap();
        let pulled = client.exchange(&mut again, None, &[], UpdateMode::Asynchronous).unwrap();
        assert_eq!(pulled.dense[0].as_deref(), Some(&[-1.0; 6][..]), "what was trained stays");
        assert_eq!(client.describe(0).unwrap().variables, 1);
    });
}

#[derive(Module, Debug)]
struct Model {
    weight: Param<Tensor<1>>,
}

fn train(server: &Server, numbers: usize) -> Result<()> {
    let weight = Param::from_tensor(Tensor::zeros([numbers], &default_device()));
    let supervisor = Supervisor::new(server, Sgd::new(1.0));
    let trained = supervisor.prepare_or_wait_for_session(Model { weight }).and_then(|mut session| {
        while session.step(|model| model.weight.val().sum())?.is_some() {
            std::thread::sleep(Duration::from_millis(2));
        }
        supervisor.stop(session)
    });
    server.leave(trained.as_ref().err());
    trained
}

#[test]
fn a_worker_with_another_model_ends_the_job_and_everybody_hears_why() {
    within(DEADLINE, "the job hangs", || {
        let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
        let ends = std::thread::scope(|scope| {
            let trainers = cluster.trainers().iter().zip([3, 4]);
            let trainers: Vec<_> = trainers.map(|(server, n)| scope.spawn(move || train(server, n))).collect();
            trainers.into_iter().map(|trainer| trainer.join().unwrap().unwrap_err()).collect::<Vec<_>>()
        });
        for end in &ends {
            contains_all(&end.report(), &["PX0301", "weight", "[3]", "[4]"]);
        }
        contains_all(&ends[0].report(), &["worker/0"]);
        assert_eq!(cluster.servers()[0].join().unwrap_err().code(), Code::VariableConflict);
    });
}

#[test]
fn what_was_meant_for_a_former_incarnation_of_a_server_is_refused() {
    within(DEADLINE, "a call hangs", || {
        let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
        let chief = &cluster.trainers()[0];
        chief.wait_until_formed().unwrap();
        let client = connections::client(chief).unwrap();
        let mut remote = RemoteModel::announce(&client, layout("weight", &[2, 3], Sgd::new(0.5))).unwrap();
        let former = Incarnation(remote.incarnation(0).0 ^ 1);
        let refused = |result: phalanx_base::Result<()>| assert_eq!(result.unwrap_err().code(), Code::ServerRestarted);
        refused(remote.announce_on(&client, 0, former));
        refused(client.set_global_step(former, 9));
        refused(client.set_progress(0, former, &[], &Default::default()));
        refused(client.fence_on(0, former, (client.options().task, former)));
        refused(client.set_server_ready(0, former));
        let until = std::time::Instant::now() + DEADLINE;
        refused(client.restore(&[(0, former)], 1, ("nowhere", "model.ckpt-0"), until).map(drop));
        let state = client.describe(0).unwrap();
        assert!(!state.ready && state.survey.records.is_empty(), "{state:?}");
        assert_eq!((state.incarnation, client.global_step().unwrap()), (remote.incarnation(0), 0));
        client.set_server_ready(0, remote.incarnation(0)).unwrap();
        assert!(client.describe(0).unwrap().ready);
        chief.leave(None);
        cluster.servers()[0].join().unwrap();
    });
}
