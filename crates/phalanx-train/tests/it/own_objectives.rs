//! Losses and metrics that the program defines, under every strategy.

use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::losses::{Labels, Loss, LossFunction};
use phalanx_nn::metrics::{MeanMetric, Measure, Pair, Values};
use phalanx_nn::model::{Dense, Sequential};
use phalanx_optim::Sgd;
use phalanx_train::Strategy;
use phalanx_train::fit::{Compile, Fit, History, LossChoice, LossChoices, MetricChoice, Verbose};

/// One in a process, in one with several replicas, and with workers that compute the steps of a coordinator.
const STRATEGIES: [&str; 4] = ["default", "mirrored:2", "central_storage:2", "parameter_server:sync"];

fn points() -> Batch {
    let x: Vec<f32> = (0..80).map(|i| ((i * 37) % 101) as f32 / 101.0).collect();
    let y = x.chunks_exact(2).map(|x| 2.0 * x[0] - x[1] + 0.5).collect();
    let columns = [("x", Column::f32(x).with_row_shape([2]).unwrap()), ("y", Column::f32(y))];
    Batch::new(columns).unwrap().with_label("y").unwrap()
}

fn squared(labels: Tensor<2>, predictions: Tensor<2>) -> Tensor<1> {
    (labels - predictions).powi_scalar(2).mean_dim(1).squeeze_dim(1)
}

/// Whether a prediction is less than a half from its label.
#[derive(Clone)]
struct Near;

impl Measure for Near {
    const NAME: &'static str = "near";

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let near = |(label, prediction): (&[f32], &[f32])| f64::from((label[0] - prediction[0]).abs() < 0.5);
        out.extend(Pair::new(label, prediction)?.rows().map(near));
        Ok(())
    }
}

fn fit(strategy: &str, loss: impl Into<LossChoices>) -> Result<History> {
    let network = || Sequential::new().add(Dense::new(1)).seed(3).build([2]);
    let metrics = ["mae".into(), MetricChoice::of(MeanMetric::of(Near))];
    let mut model = Strategy::named(strategy)?.scope(network)?.compile(Sgd::new(0.1), loss, metrics)?;
    model.fit(points(), Fit::epochs(3).batch_size(8).shuffle(false).verbose(Verbose::Silent))
}

#[test]
fn a_closure_trains_as_the_loss_of_keras_does_under_every_strategy() {
    let expected = fit("default", "mse").unwrap();
    for strategy in STRATEGIES {
        let history = fit(strategy, squared).unwrap();
        for name in ["loss", "mae", "near"] {
            let (own, known) = (history.last(name).unwrap(), expected.last(name).unwrap());
            assert!((own - known).abs() < 1e-5, "{strategy}: {name} is {own}, not {known}");
        }
    }
}

/// Class numbers, of which only the trait gets any.
struct Doubled;

impl LossFunction for Doubled {
    fn name(&self) -> &str {
        "doubled"
    }

    fn takes_class_ids(&self) -> bool {
        true
    }

    fn forward(&self, labels: Labels, prediction: Tensor<2>) -> Result<Tensor<1>> {
        assert!(matches!(labels, Labels::Ids(_)), "class numbers were asked for");
        Ok(Loss::sparse_categorical_crossentropy().from_logits().forward(labels, prediction)? * 2.0)
    }
}

#[test]
fn a_loss_of_class_numbers_chooses_what_accuracy_means() {
    let x = points().column("x").unwrap().clone();
    let classes = x.as_f32().unwrap().chunks_exact(2).map(|x| i64::from(x[0] > x[1])).collect();
    let run = |loss: LossChoice| {
        let network = Sequential::new().add(Dense::new(2)).build([2]).unwrap();
        let mut model = network.compile(Sgd::new(0.1), loss, ["accuracy"]).unwrap();
        model.evaluate((x.clone(), Column::i64(Vec::clone(&classes))), Fit::default().verbose(Verbose::Silent)).unwrap()
    };
    let (own, known) =
        (run(LossChoice::of(Doubled)), run(Loss::sparse_categorical_crossentropy().from_logits().into()));
    let get = |logs: &phalanx_train::fit::Logs, name| logs.get(name).unwrap();
    assert!((get(&own, "loss") - 2.0 * get(&known, "loss")).abs() < 1e-6);
    assert_eq!(get(&own, "accuracy"), get(&known, "accuracy"));
}

#[test]
fn the_errors_of_a_closure_end_the_training_and_a_wrong_shape_is_named() {
    let refuses =
        |_: Tensor<2>, _: Tensor<2>| -> Result<Tensor<1>> { Err(Error::new(Code::DataRow, "labels must be sorted")) };
    for strategy in STRATEGIES {
        let error = fit(strategy, refuses).err().unwrap();
        assert!(error.report().contains("labels must be sorted"), "{strategy}: {}", error.report());
    }
    let mean = |labels: Tensor<2>, predictions: Tensor<2>| squared(labels, predictions).mean();
    let error = fit("default", mean).err().unwrap();
    assert_eq!((error.code(), error.what()), (Code::ShapeMismatch, "the loss has 1 numbers for 8 rows of predictions"));
    assert!(error.next().unwrap().contains("one number for each row"));
}
