//! Typed steps of a coordinator: what they take and return, their metrics, and programs that differ.

use crate::support::{quiet, until};
use phalanx_base::{Code, Result};
use phalanx_cluster::schedule::WorkerView;
use phalanx_data::Column;
use phalanx_nn::burn::nn::{Linear, LinearConfig};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::metrics::{Auc, BinaryAccuracy, Mean, Metric, Sum, Values};
use phalanx_optim::Sgd;
use phalanx_ps::plan::RowInitializer;
use phalanx_ps::{Partitioner, TableSpec};
use phalanx_train::{
    Coordinator, HostTensor, MiniCluster, ParameterServerOptions, Server, StepFunctions, StepHandle, Strategy,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

fn strategy(server: &Server) -> Result<Strategy> {
    Strategy::parameter_server_on(server, ParameterServerOptions::default())
}

fn linear() -> Linear {
    LinearConfig::new(2, 1).init(&phalanx_nn::default_device())
}

/// Runs a job with one server and `workers`; every task registers what `register` does, and the chief coordinates.
fn job<H, T: Send + Serialize + DeserializeOwned>(
    workers: u32,
    register: impl Fn(&mut StepFunctions<Linear>) -> H + Sync,
    coordinate: impl Fn(&mut Coordinator<Linear>, &H) -> Result<T> + Sync,
) -> Result<T> {
    let cluster = MiniCluster::start_with(1, workers, quiet())?;
    let run = |server: &Server| {
        let mut steps = StepFunctions::new();
        let handles = register(&mut steps);
        strategy(server)?.coordinate(linear(), Sgd::new(0.1), steps, |coordinator| coordinate(coordinator, &handles))
    };
    cluster.run(run).map(|done| done.expect("the chief has a result"))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ask {
    noise: f32,
    rows: HostTensor,
    name: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Answer {
    Nothing,
    Both { floats: HostTensor, integers: HostTensor, asked: Box<Ask> },
}

#[test]
fn steps_take_and_return_any_type_and_tensors() {
    let register = |steps: &mut StepFunctions<Linear>| {
        steps.evaluation(|_, ask: Ask| {
            if ask.name.is_none() {
                return Ok(Answer::Nothing);
            }
            let rows: Tensor<2> = ask.rows.clone().tensor(&phalanx_nn::default_device())?;
            let integers = Column::i64(vec![1, -1, i64::MAX, i64::MIN]).with_row_shape([2])?;
            let integers = HostTensor::try_from(&integers)?;
            Ok(Answer::Both { floats: (rows * ask.noise).into(), integers, asked: Box::new(ask) })
        })
    };
    job(2, register, |coordinator, step| {
        let rows = HostTensor::floats([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        let ask = Ask { noise: 0.5, rows, name: Some("both".into()) };
        let both = coordinator.schedule(step, ask.clone())?;
        let nothing = coordinator.schedule(step, Ask { name: None, ..ask.clone() })?;
        let floats = HostTensor::floats([2, 3], vec![0.5, 1.0, 1.5, 2.0, 2.5, 3.0])?;
        let integers = HostTensor::integers([2, 2], vec![1, -1, i64::MAX, i64::MIN])?;
        assert_eq!(both.fetch()?, Answer::Both { floats, integers, asked: Box::new(ask) });
        assert_eq!(nothing.fetch()?, Answer::Nothing);
        Ok(())
    })
    .unwrap();
}

/// Six arguments of 5 MB each do not fit into one message, nor do their results.
#[test]
fn large_tensors_cross_in_several_messages_and_too_large_ones_are_refused() {
    const ROWS: usize = 1_250_000;
    let register = |steps: &mut StepFunctions<Linear>| {
        let back = steps.evaluation(|_, tensor: HostTensor| Ok(tensor));
        (back, steps.evaluation(|_, rows: usize| Ok(HostTensor::from(vec![0_i64; rows]))))
    };
    job(1, register, |coordinator, (back, grow)| {
        let tensor = |first: u8| HostTensor::from([vec![f32::from(first)], vec![0.5; ROWS - 1]].concat());
        let values: Vec<_> = (0..6).map(|at| coordinator.schedule(back, tensor(at))).collect::<Result<_>>()?;
        for (at, value) in (0..).zip(&values) {
            assert_eq!(value.fetch()?, tensor(at));
        }
        let error = coordinator.schedule(back, HostTensor::from(vec![0.0_f32; 4_000_000])).unwrap_err();
        assert_eq!((error.code(), error.what()), (Code::BadSetting, "the argument of a step takes 16000010 bytes"));
        let value = coordinator.schedule(grow, 2_000_000)?;
        let error = coordinator.join().unwrap_err();
        assert_eq!((error.code(), error.what()), (Code::BadSetting, "its result takes 16000009 bytes"));
        assert!(error.place().unwrap().starts_with("worker/0, step 6 ("), "{}", error.report());
        assert_eq!(value.fetch().unwrap_err().code(), Code::BadSetting);
        Ok(())
    })
    .unwrap();
}

fn named(cx: &mut phalanx_train::StepContext<'_, Linear>, (): ()) -> Result<u64> {
    Ok(cx.id())
}

/// A worker with other steps than the chief ends with both sides' entries, and so does its cluster.
#[test]
fn tasks_that_register_different_steps_are_refused_with_both_sides() {
    let run = |of_worker: fn(&mut StepFunctions<Linear>)| {
        let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
        let task = |server: &Server| {
            let mut steps = StepFunctions::new();
            let step = steps.register(named);
            if server.is_chief() {
                steps.metric(Mean::new("loss"));
            } else {
                of_worker(&mut steps);
            }
            let strategy = strategy(server)?;
            strategy.coordinate(linear(), "sgd", steps, |coordinator| coordinator.schedule(&step, ())?.fetch())
        };
        let error = cluster.run(task).unwrap_err();
        assert_eq!(error.code(), Code::BadSetting, "{}", error.report());
        error.report()
    };
    let report = run(|steps| _ = steps.metric(Auc::new()));
    assert!(report.contains("worker/0 has registered other steps than the chief"), "{report}");
    assert!(report.contains("entry 2 of 2 is metric loss on the chief"), "{report}");
    assert!(report.contains("entry 2 of 2 is metric auc on worker/0"), "{report}");
    let report = run(|_| ());
    assert!(report.contains("entry 2 of 1 is nothing on worker/0"), "{report}");
    let report = run(|steps| _ = steps.evaluation(named));
    assert!(report.contains("entry 2 of 2 is evaluation named on worker/0"), "{report}");
}

#[test]
fn a_handle_of_another_registry_is_refused() {
    let register = |steps: &mut StepFunctions<Linear>| steps.register(named);
    job(1, register, |coordinator, _| {
        let mut others = StepFunctions::<Linear>::new();
        let step: StepHandle<(), u64> = others.register(named);
        let error = coordinator.schedule(&step, ()).unwrap_err();
        assert_eq!((error.code(), error.what()), (Code::BadSetting, "a handle belongs to other step functions"));
        let metric = others.metric(Mean::new("loss"));
        assert_eq!(coordinator.result(&metric).unwrap_err().code(), Code::BadSetting);
        Ok(())
    })
    .unwrap();
}

/// A step that two workers ran because one was killed counts once, in values and in metrics.
#[test]
fn the_steps_of_a_killed_worker_count_once() {
    let cluster = MiniCluster::start_with(2, 3, quiet()).unwrap();
    let task = |server: &Server| {
        let mut steps = StepFunctions::<Linear>::new();
        let counted = steps.metric(Sum::new("counted"));
        let count = steps.register(move |cx, number: u64| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            cx.record(&counted, number as f32)?;
            cx.minimize(|model| model.bias.as_ref().expect("it has a bias").val().sum().neg())
        });
        strategy(server)?.coordinate(linear(), Sgd::new(1.0), steps, |coordinator| {
            coordinator.assign("bias", vec![0.0])?;
            (0..600).try_for_each(|number| coordinator.schedule(&count, number).map(drop))?;
            until("worker/0 takes part", || {
                let of = |view: &WorkerView| view.worker_id.task.to_string() == "worker/0" && view.committed > 5;
                coordinator.workers().iter().any(of)
            });
            cluster.kill("worker/0")?;
            coordinator.join()?;
            assert_eq!(coordinator.result(&counted)?, f64::from((0..600).sum::<u32>()));
            assert_eq!((coordinator.global_step()?, coordinator.read("bias")?), (600, vec![600.0]));
            let lost = |view: &WorkerView| view.worker_id.task.to_string() == "worker/0" && !view.lost;
            assert!(!coordinator.workers().iter().any(lost), "{:?}", coordinator.workers());
            Ok(())
        })
    };
    cluster.run(task).unwrap().expect("the chief has a result");
    assert_eq!(cluster.kill("worker/3").unwrap_err().code(), Code::NoSuchTask);
}

/// Servers send the rows that are asked for, and nothing else.
#[test]
fn rows_are_read_without_the_rest() {
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    let sent = || cluster.servers().iter().map(|server| server.store().unwrap().load().bytes_out).sum::<u64>();
    let task = |server: &Server| {
        let spec = |name: &str, value| {
            let (initializer, optimizer) = (RowInitializer::constant(value), Sgd::new(1.0).into());
            TableSpec { name: name.into(), dim: 4, initializer, optimizer }
        };
        let strategy = strategy(server)?;
        let mut supervisor = strategy.supervisor(Sgd::new(1.0))?.partitioner(Partitioner::FixedShards(2));
        let (users, items) = (supervisor.table(spec("users", 1.0))?, supervisor.table(spec("items", 2.0))?);
        let mut steps = StepFunctions::<Linear>::new();
        let touch = steps.register(move |cx, ids: Vec<i64>| {
            cx.minimize_with_rows(&[(items, &ids)], |model, rows| Ok(model.weight.val().sum() + rows[0].lookup().sum()))
        });
        let model = LinearConfig::new(1000, 8).init(&phalanx_nn::default_device());
        strategy.coordinate(model, supervisor, steps, |coordinator| {
            coordinator.assign("weight", (0..8000_u16).map(f32::from).collect())?;
            coordinator.schedule(&touch, vec![7, 9])?;
            coordinator.join()?;
            let before = sent();
            // Over both shards; the step has taken one from every number.
            let rows = coordinator.read_rows("weight", 498..502)?;
            assert_eq!(rows, (498 * 8..502 * 8_u16).map(|at| f32::from(at) - 1.0).collect::<Vec<_>>());
            assert_eq!(sent() - before, 4 * 8 * 4);
            assert!(coordinator.read_rows("weight", 3..3)?.is_empty());
            assert_eq!(coordinator.read_table(items, &[9, 5, 9])?, [[1.0; 4], [2.0; 4], [1.0; 4]].concat());
            assert_eq!(coordinator.read_table(users, &[9])?, [1.0; 4]);
            assert_eq!(sent() - before, 4 * 8 * 4 + 3 * 4 * 4);
            assert_eq!(coordinator.read("weight")?.len(), 8000);
            Ok(())
        })
    };
    cluster.run(task).unwrap().expect("the chief has a result");
}

/// The labels and predictions of step `number`.
fn batch(number: u64) -> (Vec<f32>, Vec<f32>) {
    let of = |at: u64| ((number * 8 + at) as f32 * 0.618_034).fract();
    ((0..8).map(|at| f32::from(u8::from(of(at + 3) > 0.5))).collect(), (0..8).map(of).collect())
}

#[test]
fn metrics_of_all_steps_are_those_of_one_process_and_can_be_reset() {
    let register = |steps: &mut StepFunctions<Linear>| {
        let (auc, accuracy) = (steps.metric(Auc::new()), steps.metric(BinaryAccuracy::new()));
        let (loss, never) = (steps.metric(Mean::new("loss")), steps.metric(Mean::new("never")));
        let train = steps.register(move |cx, number: u64| {
            let (labels, predictions) = batch(number);
            cx.update(&auc, &labels[..], &predictions[..], None)?;
            cx.update(&accuracy, &labels[..], &HostTensor::floats([8, 1], predictions)?, None)?;
            let input = Tensor::<2>::ones([4, 2], &phalanx_nn::default_device());
            let value = cx.minimize(|model| Ok(model.forward(input).mean()))?;
            cx.record(&loss, number as f32)?;
            Ok(value)
        });
        let fails = steps.evaluation(move |cx, (): ()| -> Result<()> {
            cx.record(&loss, 1e6)?;
            Err(phalanx_base::Error::new(Code::DataRow, "a row made me stumble"))
        });
        (train, fails, [auc, accuracy, loss, never])
    };
    job(3, register, |coordinator, (train, fails, [auc, accuracy, loss, never])| {
        for range in [0..100, 100..137] {
            let (mut one_auc, mut one_accuracy) = (Auc::new(), BinaryAccuracy::new());
            for number in range.clone() {
                let (labels, predictions) = batch(number);
                let (labels, predictions) = (Values::column(&labels), Values::column(&predictions));
                one_auc.update(labels, predictions, None)?;
                one_accuracy.update(labels, predictions, None)?;
                coordinator.schedule(train, number)?;
            }
            coordinator.join()?;
            assert_eq!(coordinator.result(auc)?, one_auc.result());
            assert_eq!(coordinator.result(accuracy)?, one_accuracy.result());
            assert_eq!(coordinator.result(loss)?, (range.start + range.end - 1) as f64 / 2.0);
            assert_eq!(coordinator.result(never)?, 0.0);
            // What a step that fails has added does not count.
            coordinator.schedule(fails, ())?;
            assert_eq!(coordinator.join().unwrap_err().code(), Code::DataRow);
            assert_eq!(coordinator.result(loss)?, (range.start + range.end - 1) as f64 / 2.0);
            coordinator.reset_metrics();
            assert_eq!(coordinator.result(auc)?, 0.0);
        }
        Ok(())
    })
    .unwrap();
}
