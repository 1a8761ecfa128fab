//! The line at the bottom.

use crate::RunDir;
use crate::report::clock;
use crate::watch::{Follower, TaskState, TaskView};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BAR: usize = 18;

/// Reads the newest files, on a thread of its own: a disk that hangs stops only this line.
pub(super) struct Live {
    ask: SyncSender<()>,
    shared: Arc<Shared>,
    started: Instant,
}

struct Shared {
    follower: Mutex<Follower>,
    /// Whether it was read since somebody asked last.
    fresh: AtomicBool,
}

/// What the files said when they were read last.
pub(super) struct View<'a> {
    follower: MutexGuard<'a, Follower>,
    started: Instant,
}

impl Live {
    pub(super) fn new(run: &RunDir) -> Self {
        let shared = Shared { follower: Mutex::new(Follower::new(run, false)), fresh: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let (ask, asked) = sync_channel(1);
        let reading = Arc::clone(&shared);
        let read = move || {
            while asked.recv().is_ok() {
                reading.lock().poll();
                reading.fresh.store(true, Ordering::Release);
            }
        };
        // Without the thread there is no such line.
        let _ = std::thread::Builder::new().name("phalanx-live".into()).spawn(read);
        Self { ask, shared, started: Instant::now() }
    }

    /// Has the files read soon.
    pub(super) fn look(&self) {
        self.shared.fresh.store(false, Ordering::Release);
        // One that waits is enough.
        let _ = self.ask.try_send(());
    }

    /// What they said, if they were read since [`Live::look`] and are not being read now.
    pub(super) fn seen(&self) -> Option<View<'_>> {
        let fresh = self.shared.fresh.load(Ordering::Acquire);
        let follower = self.shared.follower.try_lock().ok().filter(|_| fresh)?;
        Some(View { follower, started: self.started })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Follower> {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View<'_> {
    /// The newest step, 0 before the first.
    pub(super) fn step(&self) -> u64 {
        self.follower.board().step().unwrap_or(0)
    }

    /// `Step 1,240/20,000 ━━──── 1:52 left · 166 step/s · loss 0.5402 · lag 1 · 4/4 workers`.
    pub(super) fn line(&self) -> String {
        let board = self.follower.board();
        let mut parts = Vec::new();
        let (step, most, rate) = (board.step(), self.max_steps(), board.rate());
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
        parts.extend(self.sum("examples_per_s").map(|rate| format!("{} ex/s", short(rate))));
        parts.extend(board.loss().map(|loss| format!("loss {loss:.4}")));
        parts.extend(self.evaluation());
        parts.extend(self.lag().map(|lag| format!("lag {lag}")));
        parts.extend(self.up());
        if step.is_none() && !parts.is_empty() {
            parts.insert(0, clock(self.started.elapsed()));
        }
        parts.join(" · ")
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let board = self.follower.board();
        json!({
            "step": board.step(),
            "max_steps": self.max_steps(),
            "steps_per_s": board.rate(),
            "examples_per_s": self.sum("examples_per_s"),
            "loss": board.loss(),
            "lag": self.lag(),
            "up": board.tasks.iter().filter(|task| task.state == TaskState::Running).count(),
            "tasks": board.tasks.len(),
        })
    }

    fn max_steps(&self) -> Option<u64> {
        self.follower.board().tasks.iter().find_map(|task| task.status["max_steps"].as_u64())
    }

    fn sum(&self, key: &str) -> Option<f64> {
        let tasks = self.follower.board().tasks.iter();
        let told: Vec<f64> = tasks.filter_map(|task| task.status[key].as_f64()).collect();
        (!told.is_empty()).then(|| told.iter().sum())
    }

    /// One number of the newest evaluation.
    fn evaluation(&self) -> Option<String> {
        let curves = &self.follower.board().curves;
        ["auc", "accuracy", "epoch_accuracy"].iter().find_map(|tag| {
            let curve = curves.iter().find(|curve| !curve.run.is_empty() && curve.tag == *tag)?;
            Some(format!("{tag} {:.3}", curve.points.last()?.value))
        })
    }

    /// The median over the trainers.
    fn lag(&self) -> Option<u64> {
        let tasks = self.follower.board().tasks.iter();
        let mut lags: Vec<u64> = tasks.filter_map(|task| task.status["lag"].as_u64()).collect();
        lags.sort_unstable();
        lags.get(lags.len() / 2).copied()
    }

    /// Whether all trainers have done their part: what is left is an evaluation.
    pub(super) fn trained(&self) -> bool {
        let mut trainers = self.trainers().peekable();
        trainers.peek().is_some() && trainers.all(|task| task.state == TaskState::Done)
    }

    fn trainers(&self) -> impl Iterator<Item = &TaskView> {
        let trains = |task: &&TaskView| task.task.starts_with("worker") || task.task.starts_with("chief");
        self.follower.board().tasks.iter().filter(trains)
    }

    /// Who is up; who is not, by name.
    fn up(&self) -> Option<String> {
        let board = self.follower.board();
        let all = self.trainers().count();
        if all == 0 {
            return None;
        }
        let up = self.trainers().filter(|task| task.state == TaskState::Running).count();
        let away: Vec<String> = board
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

/// `1,240`.
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

/// `21k`.
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
    fn numbers_are_written_for_people() {
        assert_eq!([0, 999, 1240, 20_000, 1_234_567].map(thousands), ["0", "999", "1,240", "20,000", "1,234,567"]);
        assert_eq!([12.3, 5300.0, 21_400.0, 3.2e6].map(short), ["12", "5.3k", "21k", "3.2M"]);
        assert_eq!(bar(1, 2), format!("{}{}", "━".repeat(9), "─".repeat(9)));
    }
}
