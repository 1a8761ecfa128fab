//! Preprocessing layers as the first layers of a model. `tests/tf/test_model_export.py` serves one with TensorFlow.

use phalanx_base::{Code, Result};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_feature::{CategoryEncoding, Discretization, Normalization, OutputMode, PreprocessingLayer, StringLookup};
use phalanx_nn::model::{
    Concatenate, Dense, DynTensor, Embedding, Flatten, Input, Layer, Mode, Model, Sequential, Symbol,
};
use phalanx_nn::{Network, default_device};
use phalanx_optim::Sgd;
use phalanx_train::fit::{Compile, Fit, Verbose};
use phalanx_train::{Preprocess, Preprocessing, Strategy};

const STRATEGIES: [&str; 4] = ["default", "mirrored:2", "central_storage:2", "parameter_server:sync"];
const ROWS: usize = 40;

fn cities() -> StringLookup {
    StringLookup::new().vocabulary(["Paris", "Rome", "Wien"]).unwrap()
}

fn ages() -> Normalization {
    Normalization::new().mean_and_variance([40.0], [100.0]).unwrap()
}

fn bins() -> Discretization {
    Discretization::new([10.0, 20.0]).unwrap()
}

fn raw() -> Batch {
    let city = |i: usize| ["Rome", "Paris", "Oslo", "Wien", "Paris"][i % 5];
    let columns = [
        ("age", Column::f32((0..ROWS).map(|i| (i * 37 % 61) as f32).collect())),
        ("city", Column::text((0..ROWS).map(city))),
        ("hours", Column::i64((0..ROWS).map(|i| (i * 7 % 31) as i64).collect())),
        ("rent", Column::f32((0..ROWS).map(|i| (i % 5) as f32 / 5.0).collect())),
    ];
    Batch::new(columns).unwrap().with_label("rent").unwrap()
}

/// The layers behind the preprocessing.
fn body(city: &Symbol, age: &Symbol, hours: &Symbol) -> Symbol {
    let city = Flatten::new().call(&Embedding::new(4, 3).name("cities").call(city));
    Dense::new(1).name("rent_of").call(&Concatenate::new().call([&city, age, hours]))
}

fn with_layers() -> Result<Model> {
    let (city, age, hours) = (Input::texts("city", [1]), Input::named("age", [1]), Input::named("hours", [1]));
    let bins = Preprocess::new(bins()).call(&hours);
    let hot = Preprocess::new(CategoryEncoding::new(3).output_mode(OutputMode::OneHot)).call(&bins);
    let output = body(&Preprocess::new(cities()).call(&city), &Preprocess::new(ages()).call(&age), &hot);
    Model::seeded([&city, &age, &hours], &output, 3)
}

fn without_layers() -> Result<Model> {
    let (city, age, hours) = (Input::named("city", [1]), Input::named("age", [1]), Input::named("hours", [3]));
    Model::seeded([&city, &age, &hours], &body(&city, &age, &hours), 3)
}

/// The batch as the second model takes it.
fn preprocessed() -> Batch {
    let (raw, column) = (raw(), |column: Column| column.with_row_shape([1]).unwrap());
    let hot = CategoryEncoding::new(3).output_mode(OutputMode::OneHot);
    let of = |name: &str| column(raw.column(name).unwrap().clone());
    let bins = bins().call(&of("hours")).unwrap();
    let columns = [
        ("city", cities().call(&of("city")).unwrap()),
        ("age", ages().call(&of("age")).unwrap()),
        ("hours", hot.call(&bins).unwrap()),
        ("rent", raw.column("rent").unwrap().clone()),
    ];
    Batch::new(columns).unwrap().with_label("rent").unwrap()
}

/// Both models begin with the same weights, whatever other layers they have.
fn start(mut model: Model) -> Result<Model> {
    for variable in model.variables() {
        let values = (0..variable.shape.elements()).map(|i| ((i * 13 + variable.name.len()) % 11) as f32 / 11.0 - 0.5);
        model.set(&variable.name, values.collect())?;
    }
    Ok(model)
}

/// The loss of the last epoch, that of an evaluation, and the predictions.
fn numbers(strategy: &str, model: fn() -> Result<Model>, data: Batch) -> Vec<f32> {
    let quiet = |fit: Fit| fit.batch_size(10).verbose(Verbose::Silent);
    let scoped = Strategy::named(strategy).unwrap().scope(|| start(model()?)).unwrap();
    let mut compiled = scoped.compile(Sgd::new(0.1), "mse", ["mae"]).unwrap();
    let history = compiled.fit(data.clone(), quiet(Fit::epochs(3).shuffle(false))).unwrap();
    let logs = compiled.evaluate(data.clone(), quiet(Fit::default())).unwrap();
    let predicted = compiled.predict(data).unwrap();
    let found = [history.last("loss").unwrap() as f32, logs.find("loss").unwrap() as f32];
    found.into_iter().chain(predicted.as_f32().unwrap().iter().copied()).collect()
}

#[test]
fn raw_columns_train_as_preprocessed_ones_under_every_strategy() {
    let expected = numbers("default", without_layers, preprocessed());
    for strategy in STRATEGIES {
        let found = numbers(strategy, with_layers, raw());
        assert_eq!(found.len(), ROWS + 2);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{strategy}: {found} {expected}");
        }
    }
}

#[test]
fn layers_have_kerass_names_and_no_weights() {
    let model = with_layers().unwrap();
    assert_eq!(Network::input_names(&model), ["city", "age", "hours"]);
    for name in ["string_lookup", "normalization", "discretization", "category_encoding"] {
        assert!(Network::layer_names(&model).contains(&name.to_owned()), "{:?}", Network::layer_names(&model));
    }
    assert_eq!(model.count_params(), without_layers().unwrap().count_params());
    assert_eq!(Network::tables(&model).len(), 1, "the ids of the embedding are known before anything is computed");
}

#[test]
fn a_loop_of_your_own_gets_the_tensors_of_a_batch() {
    let (model, device) = (with_layers().unwrap(), default_device());
    let tensors = Preprocessing::of(&model).unwrap().tensors(&raw(), &device).unwrap();
    assert_eq!(tensors.iter().map(DynTensor::dims).collect::<Vec<_>>(), [vec![ROWS, 1], vec![ROWS, 1], vec![ROWS, 3]]);
    assert_eq!(model.call(tensors, Mode::Inference).unwrap()[0].dims(), [ROWS, 1]);
    assert_eq!(Preprocessing::of(&without_layers().unwrap()).unwrap_err().code(), Code::BadSetting);
}

/// `keras.Model({"features": raw}, ids)`, mapped over a dataset.
#[test]
fn a_model_of_preprocessing_only_maps_a_dataset() {
    let features = Input::texts("features", [2]);
    let ids = Preprocess::new(cities()).call(&features);
    let lookup = Preprocessing::of(&Model::new(&features, &ids).unwrap()).unwrap();
    let words = Column::text(["Rome", "Oslo", "Wien", "Paris"]).with_row_shape([2]).unwrap();
    let data = Dataset::from_tensor_slices(Batch::new([("features", words)]).unwrap()).batch(2);
    let data = data.map(move |batch| batch.with_column("ids", lookup.columns(&batch)?.remove(0)));
    let batch = data.iter().unwrap().next().unwrap().unwrap();
    assert_eq!((batch.i64("ids").unwrap(), batch.column("ids").unwrap().row_shape()), (&[2, 0, 3, 1][..], &[2][..]));
}

#[test]
fn a_sequence_begins_with_a_normalization_and_learns() {
    let (x, y): (Vec<f32>, Vec<f32>) = (0..64).map(|i| (1000.0 + i as f32, i as f32 / 64.0)).unzip();
    let x = Column::f32(x);
    let normalization = Normalization::new().adapt_columns([&x]).unwrap();
    let network = Sequential::new().add(Preprocess::new(normalization)).add(Dense::new(1)).build([1]).unwrap();
    let mut model = network.compile(Sgd::new(0.2), "mse", ["mae"]).unwrap();
    let history = model.fit((x, Column::f32(y)), Fit::epochs(20).verbose(Verbose::Silent)).unwrap();
    assert!(history.last("mae").unwrap() < 0.01, "{}", history.last("mae").unwrap());
}

#[test]
fn what_does_not_fit_is_named_with_its_layer() {
    let x = Input::named("x", [1]);
    let late = Preprocess::new(ages()).call(&Dense::new(1).call(&x));
    let error = Model::new(&x, &late).unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
    assert!(error.report().contains("normalization") && error.report().contains("before there are tensors"));
    let empty = Preprocess::new(StringLookup::new()).call(&x);
    assert!(Model::new(&x, &empty).unwrap_err().report().contains("string_lookup"));

    let model = || Model::new(&x, &Dense::new(1).call(&Preprocess::new(ages()).call(&x))).unwrap();
    let compiled = model().compile(Sgd::new(0.1), "mse", ["mae"]).unwrap();
    let error = compiled.predict(Column::text(["a", "b"])).unwrap_err();
    assert!(error.report().contains("layer \"normalization\" (Normalization)"), "{}", error.report());
    let ragged = Column::f32(vec![1.0, 2.0, 3.0]).with_splits(vec![0, 1, 3]).unwrap();
    assert!(compiled.predict(ragged).unwrap_err().report().contains("differ in length"));
    let wide = Column::f32(vec![1.0, 2.0]).with_row_shape([2]).unwrap();
    assert_eq!(compiled.predict(wide).unwrap_err().code(), Code::ShapeMismatch);
}
