//! Writes SavedModels of models that have every layer between them, and says what they predict, for the suite that has
//! TensorFlow load them.
//!
//! ```text
//! phalanx_export_models DIR     # DIR/NAME/… for every model; a JSON object of their inputs and outputs is printed
//! ```

#![allow(clippy::print_stdout)]

use phalanx::data::{Batch, Column, ValuesView};
use phalanx::feature_column::{
    CategoryEncoding, Discretization, Hashing, IntegerLookup, Normalization, OutputMode, StringLookup,
};
use phalanx::fit::Compile;
use phalanx::layers::*;
use phalanx::model::Model;
use phalanx::prelude::{Code, Error, Function, Sequential, Sgd};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::ExitCode;

const ROWS: usize = 7;

fn main() -> ExitCode {
    phalanx::exit(run())
}

fn run() -> phalanx::Result<()> {
    let folder = std::env::args().nth(1).ok_or_else(|| Error::new(Code::Flags, "usage: phalanx_export_models DIR"))?;
    let mut said = Map::new();
    for (name, model) in [("images", images()?), ("words", words()?), ("pairs", pairs()?), ("deep", deep()?)] {
        let batch = drawn_batch(&model)?;
        said.insert(name.to_owned(), export(model, &batch, &Path::new(&folder).join(name))?);
    }
    said.insert("raw".to_owned(), export(raw()?, &raw_batch()?, &Path::new(&folder).join("raw"))?);
    println!("{}", Value::Object(said));
    Ok(())
}

/// Sequential, over images.
fn images() -> phalanx::Result<Model> {
    Sequential::new()
        .add(Conv2D::new(6, [3, 3]).padding(Padding::Same).strides([2, 2]).activation(Function::Relu))
        .add(BatchNormalization::new())
        .add(AveragePooling2D::new([2, 2]).strides([1, 1]).padding(Padding::Same))
        .add(Conv2D::new(4, [2, 3]).dilation_rate([2, 1]).use_bias(false).activation(Function::Tanh))
        .add(MaxPooling2D::new([2, 2]))
        .add(LayerNormalization::new().center(false))
        .add(Dropout::new(0.4))
        .add(Reshape::new([-1, 4]))
        .add(Dense::new(3).activation(Function::Softmax))
        .add(Flatten::new())
        .add(Dense::new(5))
        .seed(1)
        .build([16, 17, 3])
}

/// Ids in, numbers out.
fn words() -> phalanx::Result<Model> {
    let ids = Input::named("ids", [4]);
    let rows = Embedding::new(9, 6).call(&ids);
    let gelu = Activation::new(Function::Gelu).call(&rows);
    let flat = Flatten::new().call(&gelu);
    Model::seeded(&ids, &Dense::new(2).name("answer").call(&flat), 2)
}

/// Two inputs, two outputs, every way to join them, and a layer that is called twice.
fn pairs() -> phalanx::Result<Model> {
    let (a, b) = (Input::named("a", [6]), Input::named("b", [6]));
    let shared = Dense::new(6).name("shared").activation(Function::Swish);
    let (x, y) = (shared.call(&a), shared.call(&b));
    let joined = [
        Add::new().call([&x, &y]),
        Subtract::new().call([&x, &y]),
        Multiply::new().call([&x, &y]),
        Average::new().call([&x, &y, &a]),
        Maximum::new().call([&x, &b]),
        Minimum::new().call([&x, &y]),
        Dot::new([1, 1]).call([&x, &y]),
        Dot::new([-1, -1]).normalize(true).call([&a, &y]),
    ];
    let all = Concatenate::new().call(&joined[..]);
    let first = Dense::new(3).name("first").activation(Function::Sigmoid).call(&all);
    let matrices = [Reshape::new([2, 3]).call(&x), Reshape::new([3, 2]).call(&y)];
    let product = Dot::new([1, 2]).call([&matrices[0], &matrices[1]]);
    let flat = Flatten::new();
    let second = Concatenate::new().axis(1).call([&flat.call(&product), &flat.call(&matrices[1])]);
    Model::seeded([&a, &b], [&first, &Dense::new(2).name("second").call(&second)], 3)
}

/// A mean over images, and normalization of vectors.
fn deep() -> phalanx::Result<Model> {
    let image = Input::named("image", [5, 5, 2]);
    let kept = GlobalAveragePooling2D::new().keepdims(true).call(&image);
    let flat = GlobalAveragePooling2D::new().call(&Multiply::new().call([&image, &kept]));
    let norm = BatchNormalization::new().scale(false).epsilon(0.01).call(&Dense::new(8).call(&flat));
    Model::seeded(&image, &Dense::new(4).name("out").activation(Function::Selu).call(&norm), 4)
}

/// A number for each place, no two alike.
fn drawn(count: usize, seed: u64) -> Vec<f32> {
    Initializer::RandomUniform { low: -1.0, high: 1.0 }.values(&[count], seed)
}

/// Raw features: every preprocessing layer, one after another, and every form of their output.
fn raw() -> phalanx::Result<Model> {
    let cities = StringLookup::new().num_oov_indices(2).mask_token("").vocabulary(["Paris", "Rome", "Wien"])?;
    let rows = cities.vocabulary_size();
    let devices = StringLookup::new().mask_token("").output_mode(OutputMode::MultiHot).vocabulary(["tv", "phone"])?;
    let codes = IntegerLookup::new().num_oov_indices(2).output_mode(OutputMode::OneHot).vocabulary([7, 11])?;
    let counts = CategoryEncoding::new(4).output_mode(OutputMode::Count);
    let ones = CategoryEncoding::new(6).output_mode(OutputMode::OneHot);
    let ages = Normalization::new().mean_and_variance([0.5, -0.5, 0.0], [4.0, 0.25, 1.0])?;
    let (city, device) = (Input::named("city", [1]), Input::named("device", [2]));
    let (plan, code) = (Input::texts("plan", [1]), Input::named("code", [1]));
    let (zip, age, hours) = (Input::integers("zip", []), Input::named("age", [3]), Input::named("hours", [2]));
    let ids = Preprocess::new(cities).call(&city);
    let bins = Preprocess::new(Discretization::new([-0.5, 0.0, 0.5])?).call(&hours);
    let joined = [
        Flatten::new().call(&Embedding::new(rows, 4).call(&ids)),
        Preprocess::new(devices).call(&device),
        Preprocess::new(Hashing::new(5).salt(7).output_mode(OutputMode::OneHot)).call(&plan),
        Preprocess::new(codes).call(&code),
        Preprocess::new(ones).call(&Preprocess::new(Hashing::new(6).mask_value(0)).call(&zip)),
        Preprocess::new(ages).call(&age),
        Preprocess::new(counts).call(&bins),
    ];
    let all = Concatenate::new().call(&joined[..]);
    let inputs = [&city, &device, &plan, &code, &zip, &age, &hours];
    Model::seeded(inputs, &Dense::new(2).name("answer").call(&all), 5)
}

fn raw_batch() -> phalanx::Result<Batch> {
    let devices = ["tv", "tv", "", "phone", "radio", "", "tv", "phone", "", "", "radio", "radio", "phone", "phone"];
    Batch::new([
        ("city", Column::text(["Rome", "Oslo", "", "Wien", "Paris", "Bern", "Lima"]).with_row_shape([1])?),
        ("device", Column::text(devices).with_row_shape([2])?),
        ("plan", Column::text(["a", "b", "c", "", "d", "e", "f"]).with_row_shape([1])?),
        ("code", Column::i64(vec![7, 11, 12, 13, -3, 0, 7]).with_row_shape([1])?),
        ("zip", Column::i64(vec![0, 10115, 75001, -5, 8, 0, 99])),
        ("age", Column::f32(drawn(3 * ROWS, 21)).with_row_shape([3])?),
        ("hours", Column::f32(drawn(2 * ROWS, 22)).with_row_shape([2])?),
    ])
}

/// Numbers for every input, and ids for one that is called so.
fn drawn_batch(model: &Model) -> phalanx::Result<Batch> {
    let nodes = model.nodes();
    let mut columns = Vec::new();
    for (at, &node) in nodes.inputs.iter().enumerate() {
        let (name, dims) = (nodes.all[node].layer.clone(), nodes.all[node].dims.clone());
        let values = drawn(ROWS * dims.iter().product::<usize>(), at as u64);
        let column = match name.as_str() {
            "ids" => Column::i64(values.iter().map(|x| ((x + 1.0) * 4.49) as i64).collect()),
            _ => Column::f32(values),
        };
        columns.push((name, column.with_row_shape(dims)?));
    }
    Batch::new(columns)
}

fn export(mut model: Model, batch: &Batch, folder: &Path) -> phalanx::Result<Value> {
    // As if it had been trained: nothing is at its start.
    for (at, variable) in model.variables().into_iter().enumerate() {
        let mut values = drawn(variable.shape.elements(), 100 + at as u64);
        if variable.name.contains("variance") {
            values.iter_mut().for_each(|x| *x = x.abs() + 0.5);
        }
        model.set(&variable.name, values)?;
    }
    let nodes = model.nodes();
    let mut inputs = Map::new();
    for (name, column) in batch.iter() {
        let (dtype, values) = match column.values() {
            ValuesView::F32(values) => ("float32", json!(values)),
            ValuesView::I64(values) => ("int64", json!(values)),
            ValuesView::Bytes(texts) => ("str", json!(texts.iter().map(String::from_utf8_lossy).collect::<Vec<_>>())),
            ValuesView::U8(values) => ("uint8", json!(values)),
        };
        inputs.insert(name.to_string(), json!({ "dims": column.row_shape(), "dtype": dtype, "values": values }));
    }
    let outputs: Vec<String> = nodes.outputs.iter().map(|&node| nodes.all[node].layer.clone()).collect();
    let losses = vec!["mse"; outputs.len()];
    let model = model.compile(Sgd::new(0.1), losses, ["mae"])?;
    model.export_saved_model(folder, Some(batch))?;
    let mut predicted = Map::new();
    for (name, output) in outputs.into_iter().zip(model.predict_on_batch(batch)?) {
        predicted.insert(name, json!(output.numbers()?));
    }
    Ok(json!({ "rows": ROWS, "inputs": inputs, "outputs": predicted }))
}
