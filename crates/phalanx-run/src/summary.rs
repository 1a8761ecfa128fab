//! A run in one row of a list.

use crate::{JobState, RunState};
use phalanx_base::Role;
use serde::Serialize;

/// The tags of the metrics that a list shows, best first.
pub(crate) const METRIC_TAGS: [&str; 6] = ["auc", "accuracy", "epoch_accuracy", "average_loss", "loss", "epoch_loss"];

/// A metric and its newest value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastMetric {
    /// Where it was measured: the directory of its event file below the run directory; empty for training itself.
    pub run: String,
    /// Its tag.
    pub tag: String,
    /// Its value; `null` in JSON if it is not finite.
    pub value: f64,
    /// The global step of that value.
    pub step: i64,
}

/// What a list of runs shows of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The name of its directory.
    pub name: String,
    /// The state of the job.
    pub state: &'static str,
    /// Whether it is being stopped.
    pub stopping: bool,
    /// Whether its launcher can be asked to stop it, from this machine.
    pub can_be_stopped: bool,
    /// When it was launched, in milliseconds since 1970.
    pub started: Option<u64>,
    /// When it ended, in milliseconds since 1970.
    pub ended: Option<u64>,
    /// Its tasks, such as `1 chief, 2 workers, 1 ps`.
    pub tasks: String,
    /// The newest global step.
    pub step: Option<u64>,
    /// The newest training loss.
    pub loss: Option<f64>,
    /// The newest value of its best metric: that of an evaluation, or else of training.
    pub metric: Option<LastMetric>,
    /// CPU seconds of all its processes, once it is over.
    pub cpu_seconds: Option<f64>,
}

impl RunState {
    /// The run in one row.
    #[must_use]
    pub fn summary(&self, name: &str) -> RunSummary {
        let started = self.job.as_ref().map(|job| job.started).filter(|&started| started > 0);
        RunSummary {
            name: name.to_owned(),
            state: self.state.as_str(),
            stopping: self.is_stopping(),
            can_be_stopped: self.can_be_stopped(),
            started,
            ended: self.ended_ms.filter(|_| self.state != JobState::Running),
            tasks: self.tasks_in_words(),
            step: self.step(),
            loss: self.loss(),
            metric: self.last_metric(),
            cpu_seconds: self.usage.as_ref().map(|usage| usage.roles.iter().map(|role| role.cpu_seconds).sum()),
        }
    }

    fn tasks_in_words(&self) -> String {
        let count = |role: Role| self.tasks.iter().filter(|view| view.task.role == role).count();
        let words = |(role, count): (Role, usize)| match (role, count) {
            (_, 0) => None,
            (Role::Chief | Role::Evaluator, 1) => Some(role.to_string()),
            (Role::Ps, _) | (_, 1) => Some(format!("{count} {role}")),
            _ => Some(format!("{count} {role}s")),
        };
        let parts: Vec<String> = Role::ALL.into_iter().map(|role| (role, count(role))).filter_map(words).collect();
        parts.join(", ")
    }

    /// The newest value of the best metric of evaluations; without evaluations, of training.
    fn last_metric(&self) -> Option<LastMetric> {
        let rank = |tag: &str| METRIC_TAGS.iter().position(|known| *known == tag);
        let ranked = self.curves.iter().filter_map(|curve| Some((curve.run.is_empty(), rank(&curve.tag)?, curve)));
        // The training loss has a column of its own.
        let shown = ranked.filter(|(training, _, curve)| !training || !curve.tag.ends_with("loss"));
        let (_, _, curve) = shown.min_by(|a, b| (a.0, a.1, &a.2.run).cmp(&(b.0, b.1, &b.2.run)))?;
        let point = curve.points.last()?;
        Some(LastMetric { run: curve.run.clone(), tag: curve.tag.clone(), value: point.value, step: point.step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curve, Point, TaskView};

    #[test]
    fn the_metric_of_an_evaluation_comes_before_that_of_training() {
        let curve = |run: &str, tag: &str, value: f64| {
            let point = |step: i64, value| Point { step, wall_time: 0.0, value };
            let points = vec![point(1, 0.0), point(20, value)];
            Curve { run: run.to_owned(), tag: tag.to_owned(), points, version: 0 }
        };
        let tasks = ["chief/0", "worker/0", "worker/1", "ps/0"].map(|task| TaskView::new(task.parse().unwrap()));
        let training = vec![curve("", "loss", 0.5), curve("", "accuracy", 0.7)];
        let mut state = RunState::default();
        (state.tasks, state.curves) = (tasks.to_vec(), training);
        let metric = |state: &RunState| state.summary("a").metric.map(|metric| (metric.run, metric.tag, metric.value));
        assert_eq!(metric(&state), Some((String::new(), "accuracy".to_owned(), 0.7)));
        state.curves.extend([curve("eval", "loss", 0.4), curve("eval", "auc", 0.8)]);
        assert_eq!(metric(&state), Some(("eval".to_owned(), "auc".to_owned(), 0.8)));
        let summary = state.summary("a");
        assert_eq!(
            (summary.tasks.as_str(), summary.step, summary.loss),
            ("chief, 2 workers, 1 ps", Some(20), Some(0.5))
        );
        assert_eq!((summary.state, summary.started, summary.cpu_seconds), ("unknown", None, None));
    }
}
