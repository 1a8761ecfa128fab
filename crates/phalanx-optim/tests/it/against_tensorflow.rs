//! Every rule, every step: value and slots as TensorFlow 2.15.1 computed them (`tests/fixtures/make.py`).

use phalanx_optim::{Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, RmsProp, Sgd, sum_duplicates};
use serde_json::Value;

/// Off by this much, relative for large numbers and absolute for small ones.
const TOLERANCE: f32 = 1e-6;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/tensorflow.json")).unwrap()
}

fn floats(hex: &Value) -> Vec<f32> {
    let digits = hex.as_str().unwrap().as_bytes().chunks(8);
    digits.map(|d| f32::from_bits(u32::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())).collect()
}

fn optimizer(rule: &str, settings: &Value) -> Optimizer {
    let number = |name: &str| settings[name].as_f64().unwrap_or_else(|| panic!("{rule} needs {name}")) as f32;
    let flag = |name: &str| settings[name].as_bool().unwrap();
    let rate = number("learning_rate");
    match rule {
        "sgd" => Sgd::new(rate).momentum(number("momentum")).nesterov(flag("nesterov")).into(),
        "momentum" => Momentum::new(rate, number("momentum")).nesterov(flag("nesterov")).into(),
        "adagrad" => Adagrad::new(rate)
            .initial_accumulator_value(number("initial_accumulator_value"))
            .epsilon(number("epsilon"))
            .into(),
        "rmsprop" => RmsProp::new(rate)
            .rho(number("rho"))
            .momentum(number("momentum"))
            .epsilon(number("epsilon"))
            .centered(flag("centered"))
            .into(),
        "adam" => Adam::new(rate)
            .beta_1(number("beta_1"))
            .beta_2(number("beta_2"))
            .epsilon(number("epsilon"))
            .amsgrad(flag("amsgrad"))
            .into(),
        "adamw" => AdamW::new(rate)
            .weight_decay(number("weight_decay"))
            .beta_1(number("beta_1"))
            .beta_2(number("beta_2"))
            .epsilon(number("epsilon"))
            .into(),
        "ftrl" => Ftrl::new(rate)
            .learning_rate_power(number("learning_rate_power"))
            .initial_accumulator_value(number("initial_accumulator_value"))
            .l1(number("l1"))
            .l2(number("l2"))
            .l2_shrinkage(number("l2_shrinkage"))
            .beta(number("beta"))
            .into(),
        other => panic!("no rule {other}"),
    }
}

fn with_defaults(rule: &str) -> Optimizer {
    match rule {
        "sgd" => Sgd::default().into(),
        "adagrad" => Adagrad::default().into(),
        "rmsprop" => RmsProp::default().into(),
        "adam" => Adam::default().into(),
        "adamw" => AdamW::default().into(),
        "ftrl" => Ftrl::default().into(),
        other => panic!("no defaults for {other}"),
    }
}

/// What TensorFlow has after a step: the value, then each slot in our order, found by TensorFlow's name for it.
fn expected(optimizer: &Optimizer, step: &Value) -> Vec<Vec<f32>> {
    let slots = optimizer.slots().iter().map(|slot| floats(&step["slots"][slot.name]));
    assert_eq!(step["slots"].as_object().unwrap().len(), optimizer.slot_count());
    std::iter::once(floats(&step["value"])).chain(slots).collect()
}

/// The largest error, in units where 1 is still allowed.
fn worst(ours: &[f32], theirs: &[f32], label: &str) -> f32 {
    assert_eq!(ours.len(), theirs.len(), "{label}");
    let mut worst = 0.0_f32;
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        let error = (a - b).abs() / (TOLERANCE * b.abs().max(1.0));
        assert!(error <= 1.0, "{label}, element {i}: {a} here, {b} in TensorFlow");
        worst = worst.max(error);
    }
    worst
}

fn check_dense(case: &Value, data: &Value, optimizer: &Optimizer, label: &str) -> f32 {
    let start = floats(&data["start"]);
    let mut buffer = start.repeat(1 + optimizer.slot_count());
    optimizer.init_slots(&mut buffer);
    let mut most = 0.0_f32;
    for (t, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        optimizer.at_step(t as u64 + 1).apply(&mut buffer, &floats(&data["grads"][t])).unwrap();
        most = most.max(worst(&buffer, &expected(optimizer, step).concat(), &format!("{label} step {t}")));
    }
    most
}

fn check_rows(case: &Value, data: &Value, optimizer: &Optimizer, label: &str) -> f32 {
    let dim = data["dim"].as_u64().unwrap() as usize;
    let parts = 1 + optimizer.slot_count();
    let mut rows: Vec<Vec<f32>> = floats(&data["start"]).chunks(dim).map(|row| row.repeat(parts)).collect();
    rows.iter_mut().for_each(|row| optimizer.init_slots(row));
    let mut most = 0.0_f32;
    for (t, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let ids: Vec<i64> = data["ids"][t].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
        let grads = floats(&data["grads"][t]);
        // Plain SGD takes duplicates as they come, as TensorFlow does; every other rule needs their sum.
        let (ids, grads) = if parts == 1 { (ids, grads) } else { sum_duplicates(&ids, &grads, dim).unwrap() };
        let rule = optimizer.at_step(t as u64 + 1);
        for (&id, grad) in ids.iter().zip(grads.chunks(dim)) {
            rule.apply(&mut rows[id as usize], grad).unwrap();
        }
        let theirs = expected(optimizer, step);
        for (id, row) in rows.iter().enumerate() {
            let row_of_theirs: Vec<f32> = theirs.iter().flat_map(|part| &part[id * dim..][..dim]).copied().collect();
            most = most.max(worst(row, &row_of_theirs, &format!("{label} row {id} step {t}")));
        }
    }
    most
}

#[test]
fn every_step_is_what_tensorflow_computes() {
    let fixture = fixture();
    let mut counts = (0, 0, 0);
    let mut most = (0.0_f32, String::new());
    for case in fixture["cases"].as_array().unwrap() {
        let (rule, settings) = (case["rule"].as_str().unwrap(), &case["settings"]);
        let optimizer = optimizer(rule, settings);
        optimizer.validate().unwrap();
        assert_eq!(optimizer.name(), rule);
        assert!(case["steps"].as_array().unwrap().len() >= 6);
        let label = format!("{rule} ({}, {}) {settings}", case["how"], case["shape"]);
        let error = if case["shape"] == "rows" {
            counts.1 += 1;
            check_rows(case, &fixture["rows"], &optimizer, &label)
        } else {
            counts.0 += 1;
            check_dense(case, &fixture["dense"], &optimizer, &label)
        };
        if case["how"] == "keras defaults" {
            counts.2 += 1;
            assert_eq!(with_defaults(rule), optimizer);
        }
        if error >= most.0 {
            most = (error, label);
        }
    }
    eprintln!("largest error {:.2e}: {}", most.0 * TOLERANCE, most.1);
    assert_eq!(counts, (30, 24, 6), "dense and row cases, and how many of them with Keras' defaults");
}
