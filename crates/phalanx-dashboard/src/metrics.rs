//! Metrics for Prometheus.

use crate::chosen::ChosenRun;
use phalanx_run::{TaskState, TaskView};
use std::fmt::Write;

/// A value of a task, if it is known.
type TaskValue = fn(&TaskView) -> Option<f64>;

pub(crate) async fn metrics(ChosenRun(run): ChosenRun) -> String {
    let state = run.tailer.state();
    let mut text = String::new();
    let mut job = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = writeln!(text, "# TYPE phalanx_{name} gauge\nphalanx_{name} {value}");
        }
    };
    job("global_step", state.step().map(|step| step as f64));
    job("steps_per_second", state.rate());
    job("loss", state.loss());
    let kinds: [(&str, TaskValue); 4] = [
        ("task_up", |task| Some(f64::from(u8::from(task.state == TaskState::Running)))),
        ("task_attempts", |task| Some(f64::from(task.attempt))),
        ("task_cpus", |task| task.cpu),
        ("task_memory_bytes", |task| task.memory.map(|bytes| bytes as f64)),
    ];
    for (name, value) in kinds {
        let _ = writeln!(text, "# TYPE phalanx_{name} gauge");
        for task in &state.tasks {
            if let Some(value) = value(task) {
                let _ = writeln!(text, "phalanx_{name}{{task=\"{}\"}} {value}", task.task);
            }
        }
    }
    text
}
