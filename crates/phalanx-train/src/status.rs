//! What a task says of itself while it works, in a small file that a launcher's page and `phalanx status` read.
//!
//! A file and not a call: it costs the task nothing, whoever reads it need not reach it, and it stays when the task is gone.

use phalanx_base::{Code, Context, Result, Role, TaskId};
use phalanx_cluster::{Json, Phase};
use phalanx_ps::Store;
use phalanx_ps::server::Load;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often the file is written anew.
const EVERY: Duration = Duration::from_millis(500);
/// A server with more variables names the first of them.
const MOST_NAMES: usize = 200;

/// What a trainer's loop leaves behind at each step: three stores.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    steps: AtomicU64,
    global_step: AtomicU64,
    lag: AtomicU64,
    loss: AtomicU32,
    has_loss: AtomicBool,
    /// 0: not known.
    last: AtomicU64,
}

impl Pulse {
    /// The job is to end at this step.
    pub(crate) fn expect(&self, last: u64) {
        self.last.store(last, Ordering::Relaxed);
    }

    /// A step was computed; `lag`: how many steps of others were committed since the one before.
    pub(crate) fn stepped(&self, global_step: u64, lag: u64, loss: f32) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.global_step.store(global_step, Ordering::Relaxed);
        self.lag.store(lag, Ordering::Relaxed);
        self.loss.store(loss.to_bits(), Ordering::Relaxed);
        self.has_loss.store(true, Ordering::Relaxed);
    }
}

/// What is reported, and for whom.
pub(crate) struct Reporter {
    path: PathBuf,
    task: TaskId,
    store: Option<Arc<Store>>,
    pulse: Weak<Pulse>,
    before: Option<(Instant, u64, Load)>,
}

impl Reporter {
    pub(crate) fn new(dir: &Path, task: TaskId, store: Option<Arc<Store>>, pulse: &Arc<Pulse>) -> Self {
        let path = dir.join(format!("{}-{}.json", task.role, task.index));
        Self { path, task, store, pulse: Arc::downgrade(pulse), before: None }
    }

    /// Writes the file now, which tells the launcher that this task takes part, and until the task has gone. What cannot be
    /// written is not worth a word: training goes on.
    pub(crate) fn start(mut self, phase: impl Fn() -> Phase + Send + 'static) -> Result<()> {
        self.write(phase());
        let write = move || {
            std::thread::sleep(EVERY);
            while self.write(phase()) {
                std::thread::sleep(EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-status".into()).spawn(write);
        thread.map(drop).context(Code::Internal, "the thread that reports the task's status cannot be started")
    }

    /// Writes the file; says whether the task is still there.
    fn write(&mut self, phase: Phase) -> bool {
        let Some(pulse) = self.pulse.upgrade() else { return false };
        let text = self.report(phase, &pulse).to_string();
        drop(pulse);
        let _ = write_private(&self.path, &text);
        true
    }

    fn report(&mut self, phase: Phase, pulse: &Pulse) -> Json {
        let (now, steps) = (Instant::now(), pulse.steps.load(Ordering::Relaxed));
        let load = self.store.as_ref().map(|store| store.load()).unwrap_or_default();
        let (at, steps_before, before) = self.before.replace((now, steps, load)).unwrap_or((now, steps, load));
        let time = (now - at).as_secs_f64();
        let rate = |new: u64, old: u64| if time > 0.0 { fraction((new - old) as f64 / time) } else { Json::Null };
        let mut entries = vec![
            ("task", Json::text(self.task.to_string())),
            ("phase", Json::text(format!("{phase:?}").to_lowercase())),
        ];
        if self.task.role != Role::Ps {
            let loss = f32::from_bits(pulse.loss.load(Ordering::Relaxed));
            let known = pulse.has_loss.load(Ordering::Relaxed);
            entries.extend([
                ("steps", Json::number(steps)),
                ("steps_per_s", rate(steps, steps_before)),
                (
                    "global_step",
                    if known { Json::number(pulse.global_step.load(Ordering::Relaxed)) } else { Json::Null },
                ),
                ("lag", if known { Json::number(pulse.lag.load(Ordering::Relaxed)) } else { Json::Null }),
                ("loss", if known { fraction(loss.into()) } else { Json::Null }),
            ]);
            let last = pulse.last.load(Ordering::Relaxed);
            entries.extend((last > 0).then(|| ("max_steps", Json::number(last))));
        }
        if let Some(store) = &self.store {
            entries.extend(held(store));
            let exchanges = load.exchanges - before.exchanges;
            let mean = (exchanges > 0).then(|| (load.busy - before.busy).as_micros() as f64 / exchanges as f64);
            entries.extend([
                ("exchanges", Json::number(load.exchanges)),
                ("exchanges_per_s", rate(load.exchanges, before.exchanges)),
                ("pushes_per_s", rate(load.pushes, before.pushes)),
                ("bytes_in_per_s", rate(load.bytes_in, before.bytes_in)),
                ("bytes_out_per_s", rate(load.bytes_out, before.bytes_out)),
                ("mean_micros", mean.map_or(Json::Null, fraction)),
                ("max_micros", Json::number(load.longest.as_micros() as u64)),
            ]);
        }
        Json::object(entries)
    }
}

/// Tells the launcher that this task takes part in the job, where it has nothing else to report.
pub(crate) fn joined(dir: &Path, task: TaskId) {
    let text = Json::object([("task", Json::text(task.to_string()))]).to_string();
    let _ = write_private(&dir.join(format!("{}-{}.json", task.role, task.index)), &text);
}

/// Tells the launcher why this life of the task failed: by itself, or because it was told that the job did.
pub(crate) fn failed(dir: &Path, task: TaskId, error: &phalanx_base::Error) {
    let attempt = std::env::var("PHALANX_ATTEMPT").ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
    let end = Json::object([
        ("attempt", Json::number(attempt)),
        ("code", Json::number(error.code().number())),
        ("relayed", Json::Bool(error.is_relayed())),
    ]);
    let _ = write_private(&dir.join(format!("{}-{}.end", task.role, task.index)), &end.to_string());
}

/// Never half written for a reader, and for this user alone.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let aside = path.with_extension("tmp");
    let _old = std::fs::remove_file(&aside);
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.create_new(true).write(true).open(&aside)?.write_all(text.as_bytes())?;
    std::fs::rename(&aside, path)
}

fn held(store: &Store) -> Vec<(&'static str, Json)> {
    let holdings = store.holdings();
    let list = |table: bool, count: &str| {
        let chosen = holdings.iter().filter(|holding| holding.table == table).take(MOST_NAMES);
        let entry = chosen.map(|one| {
            let name = ("name", Json::text(one.name.clone()));
            Json::object([name, (count, Json::number(one.count)), ("bytes", Json::number(one.bytes))])
        });
        Json::List(entry.collect())
    };
    vec![
        ("ready", Json::Bool(store.is_ready())),
        ("global_step", Json::number(store.global_step())),
        ("stale", Json::number(store.stale())),
        ("repeats", Json::number(store.repeats())),
        ("bytes", Json::number(holdings.iter().map(|holding| holding.bytes).sum::<u64>())),
        ("variables", list(false, "elements")),
        ("tables", list(true, "rows")),
    ]
}

/// JSON has no word for what is not finite.
fn fraction(number: f64) -> Json {
    if number.is_finite() { Json::Number(format!("{number:.6}")) } else { Json::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trainer_says_its_rate_and_a_server_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let pulse = Arc::new(Pulse::default());
        let mut reporter = Reporter::new(dir.path(), "worker/1".parse().unwrap(), None, &pulse);
        assert!(reporter.report(Phase::Forming, &pulse).to_string().contains(r#""loss": null"#));
        pulse.stepped(7, 2, 0.5);
        pulse.expect(1000);
        std::thread::sleep(Duration::from_millis(5));
        let text = reporter.report(Phase::Running, &pulse).to_string();
        assert!(text.contains(r#""global_step": 7, "lag": 2, "loss": 0.500000"#), "{text}");
        assert!(text.contains(r#""max_steps": 1000"#), "{text}");
        assert!(text.contains(r#""phase": "running""#) && !text.contains("exchanges"), "{text}");
        let store = Arc::<Store>::default();
        let mut reporter = Reporter::new(dir.path(), "ps/0".parse().unwrap(), Some(store), &pulse);
        let text = reporter.report(Phase::Running, &pulse).to_string();
        assert!(text.contains(r#""variables": [], "tables": []"#) && !text.contains("loss"), "{text}");
    }

    #[test]
    fn the_file_is_written_while_the_task_lives_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let pulse = Arc::new(Pulse::default());
        Reporter::new(dir.path(), "ps/0".parse().unwrap(), None, &pulse).start(|| Phase::Running).unwrap();
        let path = dir.path().join("ps-0.json");
        assert!(path.exists(), "a job that ends at once took part too");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let weak = Arc::downgrade(&pulse);
        drop(pulse);
        assert!(weak.upgrade().is_none());
    }
}
