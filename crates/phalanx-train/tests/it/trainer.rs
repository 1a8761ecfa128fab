//! A training in a few calls: every trainer makes them and gets the same outcomes.

use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::metrics::MeanSquaredError;
use phalanx_optim::{Adagrad, Sgd};
use phalanx_ps::plan::RowInitializer;
use phalanx_train::{BatchTensors, MiniCluster, Server, Table};
use std::path::Path;
use std::sync::Mutex;

const USERS: i64 = 12;
const ITEMS: i64 = 10;

/// A bias that is added to the product of two rows.
#[derive(Module, Debug)]
struct Bias {
    dense: Linear,
}

impl Bias {
    fn new() -> Self {
        // A weight near zero would be a saddle, see `scores`.
        let weight = Initializer::Constant { value: 1.0 };
        Self { dense: LinearConfig::new(1, 1).with_initializer(weight).init(&phalanx_nn::default_device()) }
    }

    fn forward(&self, user: Tensor<2>, item: Tensor<2>) -> Tensor<2> {
        self.dense.forward((user * item).sum_dim(1))
    }
}

/// Every pair of a user and an item, with a score that is a product of two numbers of them. All are positive, and so are the rows at
/// first: where signs cancel out, rows near zero are a saddle, and how long training stays there depends on who is scheduled when.
fn scores() -> Dataset {
    let pairs: Vec<(i64, i64)> = (0..USERS).flat_map(|user| (0..ITEMS).map(move |item| (user, item))).collect();
    let taste = |id: i64| if id % 3 == 0 { 2.0 } else { 0.5_f32 };
    let score = pairs.iter().map(|&(user, item)| taste(user) * taste(item + 1)).collect();
    let batch = Batch::new([
        ("user", Column::i64(pairs.iter().map(|pair| pair.0).collect())),
        ("item", Column::i64(pairs.iter().map(|pair| pair.1).collect())),
        ("score", Column::f32(score)),
    ]);
    Dataset::from_tensor_slices(batch.unwrap().with_label("score").unwrap())
}

/// Trains twice and evaluates after each, as every task does.
fn twice(task: &Server, consistency: &str, overlap: bool) -> Result<[f64; 4]> {
    let device = phalanx_nn::default_device();
    let table = || Table::new(4).optimizer(Adagrad::new(0.15)).initializer(RowInitializer::constant(0.1));
    let trainer = task.trainer(Bias::new(), Adagrad::new(0.1)).table("user", table()).table("item", table());
    let mut trainer = trainer.consistency(consistency)?.configure(|supervisor| supervisor.overlap(overlap));
    let mut found = [0.0; 4];
    for (at, steps) in [40, 160].into_iter().enumerate() {
        let data = scores().shuffle_seeded(120, 3).repeat().batch(20);
        let trained = trainer.train(data, steps, |model, rows, batch| {
            let error = model.forward(rows.get("user")?, rows.get("item")?) - batch.tensor("score", &device)?;
            Result::Ok(error.powf_scalar(2.0).mean())
        })?;
        let error = trainer.evaluate(scores().batch(50), MeanSquaredError::new(), |model, rows, _| {
            Result::Ok(model.forward(rows.get("user")?, rows.get("item")?))
        })?;
        [found[2 * at], found[2 * at + 1]] = [trained.global_step as f64, error];
    }
    Ok(found)
}

#[test]
fn every_trainer_returns_the_same_and_the_model_learns() {
    for (consistency, overlap) in
        [("async", false), ("async", true), ("ssp:1", false), ("sync", false), ("sync:1", false)]
    {
        let all = Mutex::new(Vec::new());
        let cluster = MiniCluster::start(2, 2).unwrap();
        let part = |task: &Server| twice(task, consistency, overlap).map(|found| all.lock().unwrap().push(found));
        cluster.run(part).unwrap();
        let all = all.into_inner().unwrap();
        let [first_step, first, second_step, second] = all[0];
        assert!(all.len() == 3 && all.iter().all(|found| *found == all[0]), "{consistency}: {all:?}");
        assert!((40.0..45.0).contains(&first_step) && (160.0..165.0).contains(&second_step), "{consistency}: {all:?}");
        assert!(second < first && second < 0.05, "{consistency}: {all:?}");
    }
}

#[test]
fn one_process_trains_alone() {
    let found = Server::local().unwrap().run(|task| twice(task, "sync", false)).unwrap().unwrap();
    assert_eq!((found[0], found[2]), (40.0, 160.0));
    assert!(found[3] < 0.05, "{found:?}");
}

#[test]
fn columns_that_share_a_table_add_up_their_gradients() {
    let rows = Batch::new([("left", Column::i64(vec![7, 8, 7])), ("right", Column::i64(vec![7, 9, 9]))]).unwrap();
    let table =
        Table::new(2).optimizer(Sgd::new(1.0)).initializer(RowInitializer::constant(0.5)).columns(["left", "right"]);
    let task = Server::local().unwrap();
    let values = task.run(|task| {
        let mut trainer = task.trainer(Bias::new(), Sgd::new(0.0)).table("word", table);
        trainer.train(Dataset::from_tensor_slices(rows).batch(3), 1, |_, rows, _| {
            assert_eq!(rows.get("word").unwrap_err().next(), Some("it has left, right"));
            Result::Ok(rows.get("left")?.sum() + rows.get("right")?.sum() * 2.0)
        })?;
        let session = trainer.session()?;
        let word = session.table("word")?;
        Ok(session.look_up(&[(word, &[7, 8, 9])])?.remove(0).values)
    });
    // 7 is on the left twice and on the right once, 8 once on the left, 9 twice on the right.
    assert_eq!(values.unwrap().unwrap(), [-3.5, -3.5, -0.5, -0.5, -3.5, -3.5]);
}

/// Trains to `steps` and returns the values of the input that the steps saw.
fn seen(dir: &Path, steps: u64, batch: usize) -> Vec<i64> {
    let task = Server::local().unwrap();
    let seen = task.run(|task| {
        let mut trainer = task.trainer(Bias::new(), Sgd::new(0.1)).model_dir(dir.to_str().unwrap())?;
        let (mut seen, device) = (Vec::new(), phalanx_nn::default_device());
        let step = |model: &Bias, _: &_, batch: &Batch| {
            let one = Tensor::<2>::ones([1, 1], &device);
            (model.forward(one.clone(), one).mean(), batch.i64("value").unwrap().to_vec())
        };
        let data = Dataset::range(0, 40, 1).shuffle_seeded(10, 5).batch(batch);
        let trained = trainer.train_with(data, steps, step, |_, values| {
            seen.extend(values);
            Ok(())
        })?;
        assert_eq!(trained.steps, seen.len().div_ceil(batch) as u64);
        Ok(seen)
    });
    seen.unwrap().unwrap()
}

#[test]
fn a_training_that_is_started_again_continues_with_the_next_batch() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Dataset::range(0, 40, 1).shuffle_seeded(10, 5);
    let whole: Vec<i64> = whole.iter().unwrap().map(|row| row.unwrap().i64("value").unwrap()[0]).collect();
    assert_eq!(seen(dir.path(), 3, 4), whole[..12]);
    assert_eq!(seen(dir.path(), 3, 4), [0_i64; 0], "these steps are made already");
    assert_eq!(seen(dir.path(), 7, 4), whole[12..28]);
    // The input ends before the steps do.
    assert_eq!(seen(dir.path(), 100, 4), whole[28..]);
    // A position of another pipeline is not used.
    assert_eq!(seen(dir.path(), 11, 5), whole[..5]);
}

#[test]
fn an_error_in_a_step_of_one_trainer_ends_the_job_for_all() {
    let cluster = MiniCluster::start(1, 1).unwrap();
    let errors = Mutex::new(Vec::new());
    let part = |task: &Server| {
        let mut trainer =
            task.trainer(Bias::new(), Sgd::new(0.0)).table("user", Table::new(1)).table("item", Table::new(1));
        let trained = trainer.train(scores().repeat().batch(10), 1_000_000, |model, rows, _| {
            if task.is_chief() {
                Ok(model.forward(rows.get("user")?, rows.get("item")?).mean())
            } else {
                Err(Error::new(Code::DataRow, "a row is wrong"))
            }
        });
        errors.lock().unwrap().push(trained.as_ref().unwrap_err().clone());
        trained
    };
    assert_eq!(cluster.run(part).unwrap_err().code(), Code::DataRow);
    let errors = errors.into_inner().unwrap();
    assert!(errors.len() == 2 && errors.iter().all(|error| error.to_string().contains("a row is wrong")), "{errors:?}");
}

#[test]
fn mistakes_are_named() {
    let device = phalanx_nn::default_device();
    let fails = |part: &dyn Fn(&Server) -> Result<()>| Server::local().unwrap().run(part).unwrap_err();
    let one =
        |model: &Bias| model.forward(Tensor::<2>::ones([1, 1], &device), Tensor::<2>::ones([1, 1], &device)).mean();
    let twice = fails(&|task| {
        let trainer = task.trainer(Bias::new(), Sgd::new(0.1)).table("a", Table::new(1)).table("a", Table::new(1));
        { trainer }.train(scores().batch(2), 1, |model, _, _| one(model)).map(drop)
    });
    assert_eq!(twice.what(), "two tables are called \"a\"");
    let name = fails(&|task| {
        let trainer = task.trainer(Bias::new(), Sgd::new(0.1)).table("a", Table::new(1).columns(["b", "c"]));
        let mut trainer = trainer.table("b", Table::new(1));
        trainer.train(scores().batch(2), 1, |model, _, _| one(model)).map(drop)
    });
    assert_eq!(name.what(), "two lookups are called \"b\"");
    let column = fails(&|task| {
        let mut trainer = task.trainer(Bias::new(), Sgd::new(0.1)).table("reader", Table::new(1));
        trainer.train(scores().batch(2), 1, |model, _, _| one(model)).map(drop)
    });
    assert_eq!(column.code(), Code::DataColumn);
    let rows =
        fails(&|task| task.trainer(Bias::new(), Sgd::new(0.1)).train(scores(), 1, |model, _, _| one(model)).map(drop));
    assert_eq!(rows.what(), "the input is not batched");
    let label = fails(&|task| {
        let mut trainer = task.trainer(Bias::new(), Sgd::new(0.1));
        let data = Dataset::range(0, 3, 1).batch(3);
        trainer.evaluate(data, MeanSquaredError::new(), |_, _, _| Tensor::<1>::ones([3], &device)).map(drop)
    });
    assert_eq!(label.what(), "the evaluation's batches have no label");
    let idle = fails(&|_| Ok(()));
    assert_eq!((idle.code(), idle.what()), (Code::JobFailed, "chief/0 stopped without finishing its part"));
}
