//! Learns y = 2a - b + 1 from two numeric columns, as any task of a job: `TF_CONFIG` or the four classic flags say which.
use phalanx::prelude::*;

fn points(_: phalanx::data::InputContext) -> Dataset {
    let axis = |of: fn(u16) -> u16| (0..1000).map(|i| f32::from(of(i) % 10) / 10.0).collect::<Vec<f32>>();
    let (a, b) = (axis(|i| i), axis(|i| i / 10));
    let y = a.iter().zip(&b).map(|(a, b)| 2.0 * a - b + 1.0).collect();
    let rows = [("a", a), ("b", b), ("y", y)].map(|(name, values)| (name, Column::f32(values)));
    Dataset::from_tensor_slices(Batch::new(rows).and_then(|rows| rows.with_label("y")).expect("three columns"))
}

fn main() -> std::process::ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(task, rest)| {
        let run = phalanx::check_no_arguments(&rest).and_then(|()| RunConfig::for_task(task))?;
        let model = LinearRegressor::new([numeric_column("a"), numeric_column("b")]);
        let train = TrainSpec::new(|cx| points(cx).shuffle(1000).repeat().batch(50)).max_steps(2000);
        let eval = EvalSpec::new(|cx| points(cx).batch(100)).start_delay_secs(0).throttle_secs(1);
        train_and_evaluate(&model, train, eval, run.model_dir("runs/linear_regressor")).map(|done| eprintln!("{done}"))
    }))
}
