//! Preprocessing layers against Keras (results recorded by `fixtures/make.py`).

use crate::common::{agree, column, fixture, float, floats, plain, splits};
use phalanx_base::Result;
use phalanx_data::{Batch, Column, Dataset};
use phalanx_feature::{
    CategoryCrossing, CategoryEncoding, Discretization, HashedCrossing, Hashing, Normalization, OutputMode,
    PreprocessingLayer, VocabularyToken,
};
use serde_json::{Value, json};

fn mode(settings: &Value, default: OutputMode) -> OutputMode {
    match settings["output_mode"].as_str() {
        None => default,
        Some("int") => OutputMode::Int,
        Some("one_hot") => OutputMode::OneHot,
        Some("multi_hot") => OutputMode::MultiHot,
        Some("count") => OutputMode::Count,
        Some(other) => panic!("no mode {other}"),
    }
}

/// A single number, or a list.
fn list(value: &Value) -> Vec<f32> {
    if value.is_array() { floats(value) } else { vec![float(value)] }
}

fn hashing(settings: &Value) -> Hashing {
    let mut layer = Hashing::new(settings["num_bins"].as_u64().unwrap() as usize);
    layer = layer.output_mode(mode(settings, OutputMode::Int));
    layer = match (settings["mask_value"].as_str(), settings["mask_value"].as_i64()) {
        (Some(text), _) => layer.mask_value(text),
        (_, Some(number)) => layer.mask_value(VocabularyToken::from(number)),
        _ => layer,
    };
    match (settings["salt"].as_u64(), settings["salt"].as_array()) {
        (Some(salt), _) => layer.salt(salt),
        (_, Some(pair)) => layer.salt([pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap()]),
        _ => layer,
    }
}

fn normalization(case: &Value) -> Result<Normalization> {
    let settings = &case["settings"];
    let mut layer = Normalization::new().invert(settings["invert"] == true);
    if let Some(axis) = settings.get("axis") {
        layer = layer.axis(axis.as_i64().map_or(Vec::new(), |axis| vec![axis as i32]));
    }
    match case["adapt"].as_array() {
        Some(parts) => layer.adapt_columns(&parts.iter().map(column).collect::<Vec<_>>()),
        None => layer.mean_and_variance(list(&settings["mean"]), list(&settings["variance"])),
    }
}

fn discretization(case: &Value) -> Result<Discretization> {
    let settings = &case["settings"];
    let layer = match case["adapt"].as_array() {
        Some(parts) => {
            let epsilon = settings["epsilon"].as_f64().unwrap_or(0.01);
            let parts: Vec<Column> = parts.iter().map(column).collect();
            Discretization::adapt_columns(settings["num_bins"].as_u64().unwrap() as usize, epsilon, &parts)?
        }
        None => Discretization::new(floats(&settings["bin_boundaries"]))?,
    };
    Ok(layer.output_mode(mode(settings, OutputMode::Int)))
}

fn run(case: &Value) -> Result<Column> {
    let settings = &case["settings"];
    let inputs: Vec<Column> = case["inputs"].as_array().unwrap().iter().map(column).collect();
    let all: Vec<&Column> = inputs.iter().collect();
    let size = |name: &str| settings[name].as_u64().unwrap() as usize;
    match case["layer"].as_str().unwrap() {
        "Hashing" => hashing(settings).call(all[0]),
        "CategoryEncoding" => {
            let layer = CategoryEncoding::new(size("num_tokens")).output_mode(mode(settings, OutputMode::MultiHot));
            match case["weights"].is_object() {
                true => layer.call_weighted(all[0], &column(&case["weights"])),
                false => layer.call(all[0]),
            }
        }
        "Discretization" => {
            let layer = discretization(case)?;
            let boundaries: Value = layer.bin_boundaries().iter().map(|&b| f64::from(b)).collect();
            if case["adapt"].is_array() {
                assert!(agree(&boundaries, &case["expected"]["boundaries"]), "{case}\nours: {boundaries}");
            }
            layer.call(all[0])
        }
        "Normalization" => {
            let layer = normalization(case)?;
            let of = |list: &[f32]| -> Value { list.iter().map(|&value| f64::from(value)).collect() };
            if case["adapt"].is_array() {
                assert!(agree(&of(layer.mean()), &case["expected"]["mean"]), "{case}\nours: {:?}", layer.mean());
                let variance = of(layer.variance());
                assert!(agree(&variance, &case["expected"]["variance"]), "{case}\nours: {variance}");
            }
            layer.call(all[0])
        }
        "HashedCrossing" => {
            let layer = HashedCrossing::new(size("num_bins")).output_mode(mode(settings, OutputMode::Int));
            layer.call(&all)
        }
        "CategoryCrossing" => CategoryCrossing::new().call(&all),
        other => panic!("no layer {other}"),
    }
}

#[test]
fn layers_do_what_keras_does() {
    let cases = fixture("layers.json");
    assert!(cases.len() > 90, "{}", cases.len());
    for case in &cases {
        let (result, expected) = (run(case), &case["expected"]);
        if expected["error"].is_string() {
            assert!(result.is_err(), "Keras rejects this: {case}");
            continue;
        }
        let output = result.unwrap_or_else(|error| panic!("{}\n{case}", error.report()));
        assert!(agree(&plain(&output), &expected["values"]), "{case}\nours: {}", plain(&output));
        match (expected["splits"].is_array(), output.splits()) {
            (true, Some(ours)) => assert_eq!(ours, splits(&expected["splits"]), "{case}"),
            // Crosses of one value per row are dense here and ragged in Keras.
            (true, None) => assert_eq!(splits(&expected["splits"]), (0..=output.rows()).collect::<Vec<_>>(), "{case}"),
            (false, _) => assert_eq!(json!(output.rows()), expected["shape"][0], "{case}"),
        }
    }
}

#[test]
fn layers_adapt_to_datasets() {
    let values: Vec<f32> = (0..10_000).map(|row| (row * 7919 % 10_007) as f32).collect();
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / 10_000.0;
    let data = Dataset::from_tensor_slices(Batch::new([("x", Column::f32(values))]).unwrap());

    let layer = Normalization::new().adapt(&data, "x").unwrap();
    assert!((f64::from(layer.mean()[0]) - mean).abs() < 1e-3 * mean);
    let batch = data.clone().batch(10_000).iter().unwrap().next().unwrap().unwrap();
    let scaled = layer.apply(&batch, "x").unwrap();
    let scaled = scaled.f32("x").unwrap();
    assert!(scaled.iter().sum::<f32>().abs() < 1.0, "{}", scaled.iter().sum::<f32>());
    let back = layer.invert(true).call(&Column::f32(scaled[..3].to_vec())).unwrap();
    assert!(back.as_f32().unwrap().iter().zip(batch.f32("x").unwrap()).all(|(a, b)| (a - b).abs() < 0.01));

    let layer = Discretization::adapt(4, &data, "x").unwrap();
    let counts = layer.output_mode(OutputMode::OneHot).call(batch.column("x").unwrap()).unwrap();
    let sums = counts.as_f32().unwrap().chunks(4).fold([0.0; 4], |mut sums, row| {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        sums
    });
    assert!(sums.iter().all(|sum| (2300.0..2700.0).contains(sum)), "{sums:?}");
}

#[test]
fn mistakes_are_errors() {
    let ragged = Column::f32(vec![1.0]).with_splits(vec![0, 1]).unwrap();
    let layer = Normalization::new().mean_and_variance([0.0], [1.0]).unwrap();
    assert!(layer.call(&ragged).unwrap_err().what().contains("differing length"));
    assert!(Normalization::new().call(&Column::f32(vec![1.0])).unwrap_err().why().unwrap().contains("no mean"));
    assert!(Normalization::new().axis([0]).adapt_columns([&Column::f32(vec![1.0])]).is_err());
    assert!(Normalization::new().adapt_columns([&Column::f32(vec![])]).is_err());
    assert!(Normalization::new().mean_and_variance([0.0, 1.0], [1.0]).is_err());
    assert!(Discretization::adapt_columns(0, 0.01, [&Column::f32(vec![1.0])]).is_err());
    assert!(Discretization::adapt_columns(4, 0.0, [&Column::f32(vec![1.0])]).is_err());
    assert!(CategoryEncoding::new(3).call_weighted(&Column::i64(vec![1]), &Column::f32(vec![1.0])).is_err());
    let weights = Column::f32(vec![1.0, 2.0]);
    let counts = CategoryEncoding::new(3).output_mode(OutputMode::Count);
    assert!(counts.call_weighted(&Column::i64(vec![1]), &weights).is_err());
    let texts = Column::text(["a"]);
    assert!(HashedCrossing::new(3).call(&[&texts, &Column::i64(vec![1, 2])]).is_err());
    assert!(CategoryCrossing::new().call(&[&texts, &Column::f32(vec![1.0])]).is_err());
    assert!(Hashing::new(3).mask_value(1).call(&texts).is_err());
}
