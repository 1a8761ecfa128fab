//! Users' modules, weights in files, and the errors of `fit`.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::losses::Loss;
use phalanx_nn::metrics::Auc;
use phalanx_nn::model::{BatchNormalization, Dense, DynTensor, Function, Mode, Model, Sequential};
use phalanx_nn::{Network, default_device};
use phalanx_optim::{Adam, Sgd};
use phalanx_train::fit::callbacks::{ModelCheckpoint, ReduceLrOnPlateau};
use phalanx_train::fit::{Compile, Compiled, Data, Fit, MetricChoice, Verbose, Weight};
use std::path::Path;

/// A custom module with two inputs and two outputs.
#[derive(Module, Debug)]
struct Twin {
    body: Linear,
    price: Linear,
    kind: Linear,
}

impl Twin {
    fn new() -> Self {
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&default_device());
        Self { body: linear(3, 4), price: linear(4, 1), kind: linear(4, 3) }
    }
}

impl Network for Twin {
    fn call(&self, inputs: Vec<DynTensor>, _: Mode) -> Result<Vec<DynTensor>> {
        let inputs = inputs.into_iter().map(DynTensor::tensor::<2>).collect::<Result<Vec<_>>>()?;
        let body = self.body.forward(Tensor::cat(inputs, 1)).tanh();
        Ok(vec![self.price.forward(body.clone()).into(), self.kind.forward(body).into()])
    }

    fn input_names(&self) -> Vec<String> {
        vec!["left".into(), "right".into()]
    }

    fn output_names(&self) -> Vec<String> {
        vec!["price".into(), "kind".into()]
    }
}

/// One input, one output, and no names at all.
#[derive(Module, Debug)]
struct Line {
    only: Linear,
}

impl Line {
    fn new() -> Self {
        Self { only: LinearConfig::new(2, 1).init(&default_device()) }
    }
}

impl Network for Line {
    fn call(&self, mut inputs: Vec<DynTensor>, _: Mode) -> Result<Vec<DynTensor>> {
        Ok(vec![self.only.forward(inputs.remove(0).tensor::<2>()?).into()])
    }
}

fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| (((i + 991 * seed) as f32 * 12.9898).sin() * 43_758.547).fract()).collect()
}

fn twins(rows: usize) -> Batch {
    let (left, right) = (noise(rows * 2, 1), noise(rows, 2));
    let price = left.chunks_exact(2).zip(&right).map(|(left, right)| left[0] - right).collect();
    let kind = left.chunks_exact(2).map(|left| if left[1] > 0.3 { 2 } else { i64::from(left[0] > 0.0) }).collect();
    let columns = [
        // Not in the order of the inputs: columns are found by name.
        ("kind", Column::i64(kind)),
        ("right", Column::f32(right)),
        ("left", Column::f32(left)),
        ("price", Column::f32(price)),
    ];
    let shaped = columns.map(|(name, column)| match name {
        "left" => (name, column.with_row_shape([2]).unwrap()),
        "right" => (name, column.with_row_shape([1]).unwrap()),
        _ => (name, column),
    });
    Batch::new(shaped).unwrap()
}

fn lines(rows: usize) -> Batch {
    let x = noise(rows * 2, 3);
    let y: Vec<f32> = x.chunks_exact(2).map(|x| 2.0 * x[0] - x[1] + 0.5).collect();
    let x = Column::f32(x).with_row_shape([2]).unwrap();
    Batch::new([("x", x), ("y", Column::f32(y))]).unwrap().with_label("y").unwrap()
}

fn quiet(epochs: usize) -> Fit {
    Fit::epochs(epochs).verbose(Verbose::Silent)
}

#[test]
fn a_module_of_several_outputs_learns_and_reports_each_by_name() {
    let losses = vec![(Loss::MeanSquaredError, 0.5), (Loss::SparseCategoricalCrossentropy { from_logits: true }, 2.0)];
    let mut model = Twin::new().compile(Adam::new(0.02), losses, ["accuracy"]).unwrap();
    let history = model.fit(twins(60), quiet(40).batch_size(16).validation_split(0.2)).unwrap();
    let names: Vec<&str> = history.logs()[0].iter().map(|(name, _)| name).collect();
    let own = ["loss", "price_loss", "kind_loss", "price_accuracy", "kind_accuracy"];
    let all: Vec<String> = own.iter().map(|n| (*n).to_owned()).chain(own.map(|n| format!("val_{n}"))).collect();
    assert_eq!(names, all);
    for logs in history.logs() {
        let get = |name| logs.get(name).unwrap();
        assert!((get("loss") - 0.5 * get("price_loss") - 2.0 * get("kind_loss")).abs() < 1e-9);
    }
    let (first, last) = (history.logs()[0].get("loss").unwrap(), history.last("loss").unwrap());
    assert!(last < 0.5 * first, "{first} {last}");
    assert!(history.last("kind_accuracy").unwrap() > 0.8, "{}", history.last("kind_accuracy").unwrap());
    let outputs = model.predict_all(twins(5)).unwrap();
    assert_eq!(outputs.iter().map(|output| (output.rows(), output.width())).collect::<Vec<_>>(), [(5, 1), (5, 3)]);
    let error = model.predict(twins(5)).unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::BadSetting, "the model has several outputs"));
}

#[test]
fn a_module_without_names_takes_columns_side_by_side() {
    let x = noise(80, 3);
    let column = |at: usize| Column::f32(x.chunks_exact(2).map(|x| x[at]).collect());
    let y = Column::f32(x.chunks_exact(2).map(|x| 2.0 * x[0] - x[1]).collect());
    let rows = Batch::new([("a", column(0)), ("b", column(1)), ("y", y)]).unwrap().with_label("y").unwrap();
    let mut model = Line::new().compile(Sgd::new(0.3), "mse", ["mae", "accuracy"]).unwrap();
    let history = model.fit(rows, quiet(60).batch_size(8)).unwrap();
    assert!(history.last("mae").unwrap() < 0.01, "{}", history.last("mae").unwrap());
}

fn perceptron() -> Model {
    Sequential::new()
        .add(Dense::new(5).activation(Function::Relu))
        .add(BatchNormalization::new())
        .add(Dense::new(1))
        .build([2])
        .unwrap()
}

fn compiled<M: Network>(model: M) -> Compiled<M> {
    model.compile(Sgd::new(0.1), "mse", ["mae"]).unwrap()
}

/// Checks that weights saved by one model are loaded by another, bit for bit.
fn round_trip<M: Network>(make: impl Fn() -> Compiled<M>, data: &Batch, location: &Path) {
    let location = location.to_str().unwrap();
    let (mut source, mut target) = (make(), make());
    source.fit(data.clone(), quiet(2)).unwrap();
    let mut changed = target.weights().unwrap();
    changed.iter_mut().for_each(|weight| weight.values.fill(7.0));
    target.set_weights(changed).unwrap();
    assert_ne!(source.weights().unwrap(), target.weights().unwrap());
    source.save_weights(location).unwrap();
    // Saving once more replaces it.
    source.save_weights(location).unwrap();
    target.load_weights(location).unwrap();
    assert_eq!(source.weights().unwrap(), target.weights().unwrap());
    let answers = |model: &Compiled<M>| {
        let outputs = model.predict_all(data.clone()).unwrap();
        outputs.iter().flat_map(|output| output.as_f32().unwrap().to_vec()).collect::<Vec<f32>>()
    };
    assert_eq!(answers(&source), answers(&target));
}

#[test]
fn weights_come_back_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let model = || compiled(perceptron());
    let line = || compiled(Line::new());
    let losses = || vec![Loss::MeanSquaredError, Loss::SparseCategoricalCrossentropy { from_logits: true }];
    let twin = || Twin::new().compile(Sgd::new(0.1), losses(), ["accuracy"]).unwrap();
    for end in ["weights", "weights.safetensors", "deeper/still/weights"] {
        round_trip(model, &lines(20), &dir.path().join("model").join(end));
        round_trip(line, &lines(20), &dir.path().join("line").join(end));
        round_trip(twin, &twins(20), &dir.path().join("twin").join(end));
    }
    let state = std::fs::read_to_string(dir.path().join("model/checkpoint")).unwrap();
    assert_eq!(state, "model_checkpoint_path: \"weights\"\nall_model_checkpoint_paths: \"weights\"\n");
    assert_eq!(model().weights().unwrap().len(), 8, "moving averages are among them");
}

#[track_caller]
fn error_of<T>(result: Result<T>) -> Error {
    result.err().expect("it must be refused")
}

#[track_caller]
fn assert_says(error: &Error, code: Code, parts: &[&str]) {
    let report = error.report();
    assert_eq!(error.code(), code, "{report}");
    for part in parts {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut model = compiled(perceptron());
    let mut other = compiled(Sequential::new().add(Dense::new(1)).build([2]).unwrap());
    for name in ["w", "w.safetensors"] {
        model.save_weights(&at(name)).unwrap();
        let before = other.weights().unwrap();
        let error = error_of(other.load_weights(&at(name)));
        assert_says(&error, Code::ShapeMismatch, &["dense/kernel", "[2, 1]", "[2, 5]", &at(name)]);
        assert_eq!(other.weights().unwrap(), before, "nothing was changed");
        other.save_weights(&at(name)).unwrap();
        let error = error_of(model.load_weights(&at(name)));
        assert!(
            matches!(error.code(), Code::CheckpointMismatch | Code::NoSuchVariable | Code::ShapeMismatch),
            "{error}"
        );
    }
    assert_eq!(error_of(model.load_weights(&at("missing"))).code(), Code::StorageRead);
    assert_eq!(error_of(model.load_weights(&at("missing.safetensors"))).code(), Code::StorageRead);
    assert_says(&error_of(model.save_weights("weights/")), Code::BadSetting, &["names no checkpoint", "runs/weights"]);
    std::fs::write(at("rubbish.index"), [0x55; 200]).unwrap();
    let error = error_of(model.load_weights(&at("rubbish")));
    assert!(matches!(error.code(), Code::CheckpointDamaged | Code::DataFormat), "{}", error.report());
    let wrong = Weight { name: "dense/kernell".into(), ..model.weights().unwrap().remove(0) };
    assert_says(&error_of(model.set_weights(vec![wrong])), Code::NoSuchVariable, &["dense/kernell", "dense/kernel,"]);
}

/// Checks that a `fit` of a dense layer is refused and changes nothing.
#[track_caller]
fn refused((loss, units): (Loss, usize), data: impl Into<Data>, fit: Fit, code: Code, parts: &[&str]) {
    let model = Sequential::new().add(Dense::new(units)).build([2]).unwrap();
    let mut model = model.compile(Sgd::new(0.1), loss, ["mse"; 0]).unwrap();
    let before = model.weights().unwrap();
    assert_says(&error_of(model.fit(data, fit)), code, parts);
    assert_eq!(model.weights().unwrap(), before, "a step that fails changes nothing");
}

const MSE: Loss = Loss::MeanSquaredError;
const SPARSE: Loss = Loss::SparseCategoricalCrossentropy { from_logits: true };
/// One number, and three classes.
const ONE: (Loss, usize) = (MSE, 1);
const CLASSES: (Loss, usize) = (SPARSE, 3);

fn pair(x: Column, y: Column) -> Data {
    (x, y).into()
}

fn x(rows: usize) -> Column {
    Column::f32(noise(rows * 2, 3)).with_row_shape([2]).unwrap()
}

#[test]
fn data_that_does_not_fit_is_explained() {
    use Code::{BadSetting, DataColumn, DataRow, ShapeMismatch};
    let floats = |count| Column::f32(noise(count, 4));
    let text = || Column::text(["a", "b"]);
    let ragged = Column::f32(vec![1.0, 2.0, 3.0]).with_splits(vec![0, 1, 3]).unwrap();
    let two_each = Column::f32(noise(8, 5)).with_row_shape([2]).unwrap();
    let rows = || Dataset::from_tensor_slices(lines(4));
    let one = || quiet(1);
    refused(ONE, x(4), one(), DataColumn, &["the data has no label", "\"x\"", "give (x, y)"]);
    let parts = ["input \"input_1\" was given a batch of shape [4]", "[None, 2]"];
    refused(ONE, pair(floats(4), floats(4)), one(), ShapeMismatch, &parts);
    let parts = ["labels of shape [4, 1]", "predictions of shape [4, 3]", "sparse"];
    refused((MSE, 3), pair(x(4), floats(4)), one(), ShapeMismatch, &parts);
    refused(ONE, pair(x(4), floats(3)), one(), ShapeMismatch, &["3", "4"]);
    refused(ONE, (x(4), floats(4), two_each), one(), ShapeMismatch, &["sample_weight"]);
    let column = "a column of text cannot be fed to a model";
    refused(ONE, pair(text(), floats(2)), one(), DataColumn, &[column, "StringLookup"]);
    refused(ONE, pair(x(2), text()), one(), DataColumn, &[column]);
    refused(ONE, (x(2), floats(2), text()), one(), DataColumn, &["text"]);
    let parts = ["a column of lists cannot be fed to a model", "padded_batch"];
    refused(ONE, pair(ragged, floats(2)), one(), DataColumn, &parts);
    refused(ONE, lines(4), one().sample_weight("importance"), DataColumn, &["importance"]);
    refused(ONE, rows(), one(), BadSetting, &["batch"]);
    refused(ONE, rows().batch(2), one().batch_size(2), BadSetting, &["batch_size(2) was given beside a dataset"]);
    refused(ONE, lines(4), one().validation_split(1.5), BadSetting, &["validation_split(1.5)", "between 0 and 1"]);
    refused(ONE, rows().batch(2), one().validation_split(0.5), BadSetting, &["beside a dataset", "validation(…)"]);
    let plateau = ReduceLrOnPlateau::new("loss").factor(1.5);
    refused(ONE, lines(4), one().callback(plateau), BadSetting, &["factor of 1.5", "[0, 1)"]);
    refused(ONE, lines(4), one().batch_size(0), BadSetting, &["batch"]);
    for (labels, what) in [
        (Column::i64(vec![0, 2, 3, 1]), "class 3 in row 2, but the model has 3"),
        (Column::i64(vec![0, -1, 1, 1]), "class -1 in row 1"),
        (Column::f32(vec![f32::NAN, 1.0, 1.0, 1.0]), "class -1 in row 0"),
    ] {
        refused(CLASSES, pair(x(4), labels), one().shuffle(false), DataRow, &[what, "number the classes from 0"]);
    }
}

#[test]
fn data_without_a_row_is_no_loss_of_zero() {
    let what = "there is nothing to train on";
    refused(ONE, lines(0), quiet(2), Code::DataMissing, &[what, "has no rows"]);
    refused(ONE, lines(4), quiet(2).steps_per_epoch(0), Code::DataMissing, &[what, "steps_per_epoch"]);
    let mut model = compiled(perceptron());
    let error = error_of(model.evaluate(lines(0), quiet(1)));
    assert_says(&error, Code::DataMissing, &["there is nothing to evaluate on"]);
    let error = error_of(model.fit(lines(4), quiet(1).validation(Dataset::from_tensor_slices(lines(0)).batch(2))));
    assert_says(&error, Code::DataMissing, &["there is nothing to evaluate on"]);
    let error = error_of(model.predict(lines(0)));
    assert_says(&error, Code::DataMissing, &["there is nothing to predict"]);
}

#[test]
fn an_epoch_for_which_no_data_is_left_is_none() {
    let mut model = compiled(perceptron());
    // Ten batches are two epochs of five.
    let data = Dataset::from_tensor_slices(lines(20)).batch(2);
    let history = model.fit(data.clone(), quiet(4).steps_per_epoch(5)).unwrap();
    assert_eq!((history.epochs(), model.iterations()), (&[0, 1][..], 10));
    assert!(history.series("loss").unwrap().iter().all(|loss| *loss > 0.0));
    // Ten batches are one epoch of seven and a part of another.
    let history = model.fit(data, quiet(4).steps_per_epoch(7)).unwrap();
    assert_eq!((history.epochs(), model.iterations()), (&[0, 1][..], 20));
}

/// A module that forgets the batch.
#[derive(Module, Debug)]
struct Mean {
    only: Linear,
}

impl Network for Mean {
    fn call(&self, mut inputs: Vec<DynTensor>, _: Mode) -> Result<Vec<DynTensor>> {
        Ok(vec![self.only.forward(inputs.remove(0).tensor::<2>()?).mean_dim(0).into()])
    }
}

#[test]
fn a_module_that_forgets_the_batch_is_refused() {
    let plain: Data = (x(4), Column::f32(noise(4, 4))).into();
    let weighted: Data = (x(4), Column::f32(noise(4, 4)), Column::f32(noise(4, 5))).into();
    for data in [plain, weighted] {
        let mut model = compiled(Mean { only: LinearConfig::new(2, 1).init(&default_device()) });
        let error = error_of(model.fit(data, quiet(1)));
        assert_says(&error, Code::ShapeMismatch, &["output \"output\" has 1 rows for 4 examples", "first axis"]);
    }
}

#[test]
fn settings_that_do_not_fit_are_refused_when_it_is_compiled() {
    let dense = || Sequential::new().add(Dense::new(1)).build([2]).unwrap();
    let error = error_of(dense().compile(Sgd::new(0.1), "mse", ["acuracy"]));
    assert_says(&error, Code::BadSetting, &["no metric is called `acuracy`", "did you mean `accuracy`?"]);
    let error = error_of(dense().compile(Sgd::new(0.1), "mean_squared_eror", ["mae"]));
    assert_says(&error, Code::BadSetting, &["no loss is called `mean_squared_eror`", "mean_squared_error"]);
    let error = error_of(dense().compile(Sgd::new(-0.1), "mse", ["mae"]));
    assert_says(&error, Code::BadSetting, &["-0.1"]);
    let error = error_of(dense().compile(Sgd::new(0.1), vec!["mse", "mse"], ["mae"]));
    assert_says(&error, Code::BadSetting, &["2 losses for a model of 1 outputs", "dense"]);
    let error = error_of(Twin::new().compile(Sgd::new(0.1), vec![(MSE, 1.0), (SPARSE, f32::NAN)], ["mae"]));
    assert_says(&error, Code::BadSetting, &["kind", "NaN"]);
    let error = error_of(dense().compile(Sgd::new(0.1), "mse", ["auc".into(), MetricChoice::of(Auc::new())]));
    assert_says(&error, Code::BadSetting, &["two metrics are called \"auc\""]);
    let named = ["auc".into(), MetricChoice::of(Auc::new().named("area"))];
    assert!(dense().compile(Sgd::new(0.1), "mse", named).is_ok());
    let error = error_of(dense().compile(Sgd::new(0.1), "mse", ["mae"]).unwrap().weighted_metrics(["mae"]));
    assert_says(&error, Code::BadSetting, &["two metrics are called \"mae\""]);
}

#[test]
fn class_weights_belong_to_a_model_of_one_output() {
    let mut model = Twin::new().compile(Sgd::new(0.1), vec![MSE, SPARSE], ["mse"; 0]).unwrap();
    let error = error_of(model.fit(twins(8), quiet(1).class_weight([(0, 2.0)])));
    assert_says(&error, Code::BadSetting, &["class weights were given to a model of several outputs", "sample_weight"]);
    let error = error_of(model.fit(lines(8), quiet(1)));
    assert_says(&error, Code::DataColumn, &["2 inputs", "left"]);
}

#[test]
fn a_template_that_cannot_be_filled_in_ends_the_training_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let error_for = |name: &str| {
        let location = dir.path().join(name).to_str().unwrap().to_owned();
        let mut model = compiled(perceptron());
        error_of(model.fit(lines(8), quiet(1).callback(ModelCheckpoint::new(location))))
    };
    let error = error_for("w-{val_loss:.2f}");
    assert_says(&error, Code::BadSetting, &["nothing is reported as \"val_loss\""]);
    assert_says(&error_for("w-{epoch"), Code::BadSetting, &["a brace is not closed", "{epoch:02d}"]);
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing was written");
}

#[test]
fn an_evaluation_after_a_fit_does_not_know_its_class_weights() {
    let label = Column::i64((0..20).map(|i| i64::from(i % 3 == 0)).collect());
    let data: Data = (x(20), label).into();
    let compiled = || {
        let dense = Sequential::new().add(Dense::new(1).activation(Function::Sigmoid)).build([2]).unwrap();
        dense.compile(Sgd::new(0.1), "binary_crossentropy", ["accuracy"]).unwrap()
    };
    let (mut model, mut fresh) = (compiled(), compiled());
    model.fit(data.clone(), quiet(1).class_weight([(0, 1.0), (1, 50.0)])).unwrap();
    fresh.set_weights(model.weights().unwrap()).unwrap();
    let evaluate = |model: &mut Compiled<Model>| model.evaluate(data.clone(), quiet(1)).unwrap();
    assert_eq!(evaluate(&mut model), evaluate(&mut fresh));
}
