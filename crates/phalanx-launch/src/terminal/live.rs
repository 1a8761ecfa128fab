//! The line of progress at the bottom of the terminal.

use crate::report::clock;
use phalanx_run::{RunState, TaskState, TaskView};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const BAR: usize = 18;

/// The progress of a run.
pub(super) struct Live<'a> {
    pub(super) state: &'a RunState,
    pub(super) started: Instant,
}

impl Live<'_> {
    /// The progress as `Step 1,240/20,000 ━━──── 1:52 left · 166 step/s · loss 0.5402 · lag 1 · 4/4 workers`.
    pub(super) fn line(&self) -> String {
        let state = self.state;
        let mut parts = Vec::new();
        let (step, most, rate) = (state.step(), self.max_steps(), state.rate());
        if let Some(step) = step {
            parts.push(match most {
                Some(most) => {
                    let left = rate.filter(|rate| *rate > 0.0).map(|rate| most.saturating_sub(step) as f64 / rate);
                    let left = left.map_or_else(String::new, |left| {
                        format!(" {} left", clock(Duration::from_secs_f64(left.min(1e9))))
                    });
                    format!("Step {}/{} {}{left}", thousands(step), thousands(most), bar(step, most))
                }
                None => format!("Step {}", thousands(step)),
            });
        }
        parts.extend(rate.map(|rate| format!("{rate:.0} step/s")));
        parts.extend(state.sum(|status| status.examples_per_s).map(|rate| format!("{} ex/s", short(rate))));
        parts.extend(state.loss().map(|loss| format!("loss {loss:.4}")));
        parts.extend(self.evaluation());
        parts.extend(self.lag().map(|lag| format!("lag {lag}")));
        parts.extend(self.up());
        if step.is_none() && !parts.is_empty() {
            parts.insert(0, clock(self.started.elapsed()));
        }
        parts.join(" · ")
    }

    /// The progress as a JSON object.
    pub(super) fn json(&self) -> Value {
        let state = self.state;
        json!({
            "step": state.step(),
            "max_steps": self.max_steps(),
            "steps_per_s": state.rate(),
            "examples_per_s": state.sum(|status| status.examples_per_s),
            "loss": state.loss(),
            "lag": self.lag(),
            "up": state.tasks.iter().filter(|task| task.state == TaskState::Running).count(),
            "tasks": state.tasks.len(),
        })
    }

    fn max_steps(&self) -> Option<u64> {
        self.state.statuses().find_map(|status| status.max_steps)
    }

    /// One metric of the newest evaluation.
    fn evaluation(&self) -> Option<String> {
        let curves = &self.state.curves;
        ["auc", "accuracy", "epoch_accuracy"].iter().find_map(|tag| {
            let curve = curves.iter().find(|curve| !curve.run.is_empty() && curve.tag == *tag)?;
            Some(format!("{tag} {:.3}", curve.points.last()?.value))
        })
    }

    /// The median lag of the trainers.
    fn lag(&self) -> Option<u64> {
        let mut lags: Vec<u64> = self.state.statuses().filter_map(|status| status.lag).collect();
        lags.sort_unstable();
        lags.get(lags.len() / 2).copied()
    }

    /// Whether all trainers are done, so that only an evaluation may be left.
    pub(super) fn trained(&self) -> bool {
        let mut trainers = self.trainers().peekable();
        trainers.peek().is_some() && trainers.all(|task| task.state == TaskState::Done)
    }

    fn trainers(&self) -> impl Iterator<Item = &TaskView> {
        self.state.tasks.iter().filter(|task| task.is_trainer())
    }

    /// How many trainers run, and the names of tasks that do not.
    fn up(&self) -> Option<String> {
        let all = self.trainers().count();
        if all == 0 {
            return None;
        }
        let up = self.trainers().filter(|task| task.state == TaskState::Running).count();
        let away: Vec<String> = self
            .state
            .tasks
            .iter()
            .filter(|task| matches!(task.state, TaskState::Restarting | TaskState::Failed))
            .map(|task| format!("{} {}", task.task, task.state.as_str()))
            .collect();
        let away = if away.is_empty() { String::new() } else { format!(" ({})", away.join(", ")) };
        Some(format!("{up}/{all} trainers{away}"))
    }
}

fn bar(step: u64, most: u64) -> String {
    let done = ((step as f64 / most.max(1) as f64).clamp(0.0, 1.0) * BAR as f64) as usize;
    "━".repeat(done) + &"─".repeat(BAR - done)
}

/// Formats a number as `1,240`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number as `21k`.
fn short(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n if n >= 1e3 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!([0, 999, 1240, 20_000, 1_234_567].map(thousands), ["0", "999", "1,240", "20,000", "1,234,567"]);
        assert_eq!([12.3, 5300.0, 21_400.0, 3.2e6].map(short), ["12", "5.3k", "21k", "3.2M"]);
        assert_eq!(bar(1, 2), format!("{}{}", "━".repeat(9), "─".repeat(9)));
    }
}
