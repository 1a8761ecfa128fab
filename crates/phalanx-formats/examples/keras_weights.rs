//! Carries weights between JSON and checkpoints of Keras; `tests/tf/test_keras_weights.py` holds it against Keras itself.
//!
//! ```text
//! keras_weights write PREFIX < MODEL.json    writes PREFIX.index and PREFIX.data-00000-of-00001
//! keras_weights read PREFIX > WEIGHTS.json   reads what model.save_weights(PREFIX) wrote
//! ```
//!
//! A model is `{"layers": [{"name": "dense", "weights": [{"attribute": "kernel", "shape": [2, 1], "values": [0.5, 1]}]}]}`
//! and may have `"under"` and `"save_counter"`; weights are a list of `{layer, attribute, name, dtype, shape, values}`.

use phalanx_base::{Code, Context, Error, Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleReader, data_file, index_file};
use phalanx_formats::object_graph::{KerasLayer, KerasWeights, read_keras_weights};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["write", prefix] => write(prefix),
        ["read", prefix] => read(prefix),
        _ => Err(Error::new(Code::Flags, "usage: keras_weights write|read PREFIX")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

fn write(prefix: &str) -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context(Code::DataMissing, "cannot read the model")?;
    let model: Value = serde_json::from_str(&text).context(Code::DataFormat, "the model is not JSON")?;
    let mut numbers = Vec::new();
    for weight in list(&model["layers"]).iter().flat_map(|layer| list(&layer["weights"])) {
        numbers.push(list(&weight["values"]).iter().map(|number| number.as_f64().unwrap_or(f64::NAN) as f32).collect());
    }
    let numbers: Vec<Vec<f32>> = numbers;
    let (mut layers, mut values) = (Vec::new(), numbers.iter());
    for layer in list(&model["layers"]) {
        let mut made = KerasLayer::new(layer["name"].as_str().unwrap_or_default());
        for (weight, values) in list(&layer["weights"]).iter().zip(values.by_ref()) {
            let dims: Vec<usize> =
                list(&weight["shape"]).iter().filter_map(Value::as_u64).map(|n| n as usize).collect();
            made = made.weight(weight["attribute"].as_str().unwrap_or_default(), &Shape::new(dims)?, values);
        }
        layers.push(made);
    }
    let mut weights = KerasWeights::new(layers);
    if let Some(attribute) = model["under"].as_str() {
        weights = weights.under(attribute);
    }
    if let Some(count) = model["save_counter"].as_i64() {
        weights = weights.save_counter(count);
    }
    let name = data_file(prefix, 0, 1);
    let file = File::create(&name).context(Code::StorageWrite, format!("cannot create {name}"))?;
    let (_, index) = weights.write(BufWriter::new(file))?;
    std::fs::write(index_file(prefix), index.to_bytes()?).context(Code::StorageWrite, "cannot write the index")
}

fn read(prefix: &str) -> Result<()> {
    let load = |name: String| std::fs::read(&name).context(Code::DataMissing, format!("cannot read {name}"));
    let index = BundleIndex::parse(&load(index_file(prefix))?)?;
    let shards = index.shards();
    let files = (0..shards).map(|shard| load(data_file(prefix, shard, shards))).collect::<Result<Vec<_>>>()?;
    let mut list = Vec::new();
    for weight in read_keras_weights(&BundleReader::new(index, files)?)? {
        let values = match weight.tensor.f32s() {
            Ok(numbers) => json!(numbers),
            Err(_) => json!(weight.tensor.i64s()?),
        };
        list.push(json!({
            "layer": weight.layer, "attribute": weight.attribute, "name": weight.name,
            "dtype": weight.tensor.dtype.as_str(), "shape": weight.tensor.shape.dims(), "values": values,
        }));
    }
    writeln!(std::io::stdout(), "{}", Value::from(list)).context(Code::StorageWrite, "cannot write the weights")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
