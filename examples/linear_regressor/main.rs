//! Learns y = 2a - b + 1 from two numeric columns. The program is any task of a job, as set by `TF_CONFIG`.
use phalanx::prelude::*;

fn points(_: phalanx::data::InputContext) -> Dataset {
    let axis = |of: fn(u16) -> u16| (0..1000).map(|i| f32::from(of(i) % 10) / 10.0).collect::<Vec<f32>>();
    let (a, b) = (axis(|i| i), axis(|i| i / 10));
    let y = a.iter().zip(&b).map(|(a, b)| 2.0 * a - b + 1.0).collect();
    let rows = [("a", a), ("b", b), ("y", y)].map(|(name, values)| (name, Column::f32(values)));
    Dataset::from_tensor_slices(Batch::new(rows).and_then(|rows| rows.with_label("y")).expect("three columns"))
}

fn main() -> std::process::ExitCode {
    let model = LinearRegressor::new([numeric_column("a"), numeric_column("b")]);
    let train = TrainSpec::new(|cx| points(cx).shuffle(1000).repeat().batch(50)).max_steps(2000);
    let eval = EvalSpec::new(|cx| points(cx).batch(100)).start_delay_secs(0).throttle_secs(1);
    let config = RunConfig::from_env().map(|config| config.model_dir("runs/linear_regressor"));
    phalanx::exit(
        config.and_then(|config| train_and_evaluate(&model, train, eval, config)).map(|done| eprintln!("{done}")),
    )
}
