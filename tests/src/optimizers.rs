//! Optimizers of the cases that suites against TensorFlow write, in Keras' words.

use phalanx_base::{Code, Error, Result};
use phalanx_optim::{
    Clip, CosineDecay, ExponentialDecay, Optimizer, PiecewiseConstantDecay, PolynomialDecay, Schedule,
};
use serde_json::Value;

/// Returns the optimizer of this name with the `learning_rate` and clipping of a case.
///
/// # Errors
/// If the case names no optimizer or schedule.
pub fn optimizer(name: &str, case: &Value) -> Result<Optimizer> {
    let made = Optimizer::parse(name, case["learning_rate"].as_f64().unwrap_or(0.01) as f32)?;
    let made = match case["learning_rate"].is_object() {
        true => made.with_schedule(schedule(&case["learning_rate"])?),
        false => made,
    };
    let kinds = [
        ("clipnorm", Clip::Norm as fn(f32) -> Clip),
        ("global_clipnorm", Clip::GlobalNorm),
        ("clipvalue", Clip::Value),
    ];
    let clip = kinds.into_iter().find_map(|(key, kind)| case[key].as_f64().map(|value| kind(value as f32)));
    Ok(clip.map_or(made, |clip| made.with_clip(clip)))
}

/// A schedule from its name and the positional arguments of Keras' class.
fn schedule(case: &Value) -> Result<Schedule> {
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().map(|list| list.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
    };
    let settings = numbers(&case["settings"]);
    let at = |index: usize| settings.get(index).copied().unwrap_or_default();
    Ok(match case["schedule"].as_str() {
        Some("exponential") => ExponentialDecay::new(at(0) as f32, at(1) as u64, at(2) as f32).into(),
        Some("cosine") => CosineDecay::new(at(0) as f32, at(1) as u64).into(),
        Some("polynomial") => PolynomialDecay::new(at(0) as f32, at(1) as u64).into(),
        Some("piecewise") => {
            let boundaries: Vec<u64> = numbers(&case["boundaries"]).into_iter().map(|step| step as u64).collect();
            let values: Vec<f32> = numbers(&case["values"]).into_iter().map(|rate| rate as f32).collect();
            PiecewiseConstantDecay::new(&boundaries, &values)?.into()
        }
        other => return Err(Error::new(Code::DataFormat, format!("no schedule {other:?}"))),
    })
}
