//! The status that a task reports while it runs, in a small file that the dashboard and `phalanx status` read.
//!
//! A file rather than a call: it costs the task little, a reader need not reach the task, and it remains when the task is gone.

use phalanx_base::{Code, Context, Incarnation, Result, Role, TaskId};
use phalanx_cluster::Phase;
use phalanx_ps::server::{ServerLoad, TaskProgress};
use phalanx_ps::{Store, TaskIncarnation};
use phalanx_run::{Holding, StatusDir, TaskFailure, TaskPhase, TaskStatus, UpdateCount};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// How often the file is written.
const EVERY: Duration = Duration::from_millis(500);
/// The most variables, and the most tables, that a status lists.
const MAX_NAMES: usize = 200;

const NO_LAG: u64 = u64::MAX;

/// Counters that a trainer updates with a few relaxed stores per step.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounters {
    steps: AtomicU64,
    global_step: AtomicU64,
    /// [`NO_LAG`] if the trainers step together.
    lag: AtomicU64,
    in_sync: AtomicBool,
    loss: AtomicU32,
    has_loss: AtomicBool,
    /// The step at which the job ends; 0 if unknown.
    max_steps: AtomicU64,
    /// The number of the newest update that every server has acknowledged.
    acknowledged: Arc<AtomicU64>,
}

impl ProgressCounters {
    /// Sets the step at which the job ends.
    pub(crate) fn expect(&self, max_steps: u64) {
        self.max_steps.store(max_steps, Ordering::Relaxed);
    }

    /// Returns the counter of the updates that every server has acknowledged.
    pub(crate) fn acknowledged(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.acknowledged)
    }

    /// Tells readers that the trainers make every step together.
    pub(crate) fn set_in_sync(&self) {
        self.in_sync.store(true, Ordering::Relaxed);
    }

    /// Records a step; `lag` is the number of steps that others committed since the one before, where they step by themselves.
    pub(crate) fn stepped(&self, global_step: u64, lag: Option<u64>, loss: Option<f32>) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.global_step.store(global_step, Ordering::Relaxed);
        self.lag.store(lag.unwrap_or(NO_LAG), Ordering::Relaxed);
        if let Some(loss) = loss {
            self.loss.store(loss.to_bits(), Ordering::Relaxed);
            self.has_loss.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes the status of one task.
pub(crate) struct StatusWriter {
    dir: StatusDir,
    task: TaskId,
    incarnation: Incarnation,
    store: Option<Arc<Store>>,
    progress: Weak<ProgressCounters>,
    before: Option<(Instant, u64, ServerLoad)>,
    /// The steps at the last write, and its time.
    written: Option<(u64, Option<SystemTime>)>,
}

impl StatusWriter {
    pub(crate) fn new(
        dir: &Path,
        (task, incarnation): TaskIncarnation,
        store: Option<Arc<Store>>,
        progress: &Arc<ProgressCounters>,
    ) -> Self {
        let (dir, progress) = (StatusDir::at(dir), Arc::downgrade(progress));
        Self { dir, task, incarnation, store, progress, before: None, written: None }
    }

    /// Writes the status now, which shows the launcher that this task takes part, and from then on until the counters are dropped.
    /// Errors are ignored: training continues without a status.
    pub(crate) fn start(mut self, phase: impl Fn() -> Phase + Send + 'static) -> Result<SharedWriter> {
        self.write(phase());
        let writer = SharedWriter(Arc::new(Mutex::new(self)));
        let shared = writer.clone();
        let write = move || {
            std::thread::sleep(EVERY);
            while shared.write(phase()) {
                std::thread::sleep(EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-status".into()).spawn(write);
        thread.context(Code::Internal, "the thread that reports the task's status cannot be started")?;
        Ok(writer)
    }

    /// Writes the status; returns whether the task still exists.
    fn write(&mut self, phase: Phase) -> bool {
        let Some(progress) = self.progress.upgrade() else { return false };
        let steps = progress.steps.load(Ordering::Relaxed);
        let newest = self.dir.written(self.task);
        let is_idle = self.written.is_some_and(|(own, at)| own == steps && newest > at);
        if is_idle {
            // This process trains several models by turns, and another one has reported since.
            return true;
        }
        let status = self.status(phase, &progress);
        drop(progress);
        let _ = self.dir.write(self.task, &status);
        self.written = Some((steps, self.dir.written(self.task)));
        true
    }

    fn status(&mut self, phase: Phase, progress: &ProgressCounters) -> TaskStatus {
        let (now, steps) = (Instant::now(), progress.steps.load(Ordering::Relaxed));
        let load = self.store.as_ref().map(|store| store.load()).unwrap_or_default();
        let (at, steps_before, before) = self.before.replace((now, steps, load)).unwrap_or((now, steps, load));
        let seconds = (now - at).as_secs_f64();
        let rate = |new: u64, old: u64| fraction((new - old) as f64 / seconds);
        let mut status = TaskStatus { phase: Some(task_phase(phase)), ..TaskStatus::new(self.task) };
        if self.task.role != Role::Ps {
            status.steps = Some(steps);
            status.steps_per_s = rate(steps, steps_before);
            status.in_sync = progress.in_sync.load(Ordering::Relaxed).then_some(true);
            if progress.has_loss.load(Ordering::Relaxed) {
                status.global_step = Some(progress.global_step.load(Ordering::Relaxed));
                status.lag = Some(progress.lag.load(Ordering::Relaxed)).filter(|&lag| lag != NO_LAG);
                status.loss = fraction(f32::from_bits(progress.loss.load(Ordering::Relaxed)).into());
            }
            let updates = progress.acknowledged.load(Ordering::Relaxed);
            let counted = update_count((self.task, self.incarnation), updates, updates);
            status.acknowledged = Some(counted).filter(|count| count.updates > 0);
            status.max_steps = Some(progress.max_steps.load(Ordering::Relaxed)).filter(|&steps| steps > 0);
        }
        if let Some(store) = &self.store {
            add_holdings(&mut status, store);
            status.applied = Some(store.applied().into_iter().map(applied).collect());
            let exchanges = load.exchanges - before.exchanges;
            status.exchanges = Some(load.exchanges);
            status.exchanges_per_s = rate(load.exchanges, before.exchanges);
            status.pushes_per_s = rate(load.pushes, before.pushes);
            (status.bytes_in, status.bytes_out) = (Some(load.bytes_in), Some(load.bytes_out));
            status.bytes_in_per_s = rate(load.bytes_in, before.bytes_in);
            status.bytes_out_per_s = rate(load.bytes_out, before.bytes_out);
            status.mean_micros = fraction((load.busy - before.busy).as_micros() as f64 / exchanges as f64);
            status.max_micros = Some(load.longest.as_micros() as u64);
        }
        status
    }
}

/// A [`StatusWriter`] whose thread runs.
#[derive(Clone)]
pub(crate) struct SharedWriter(Arc<Mutex<StatusWriter>>);

impl SharedWriter {
    /// Writes the status; returns whether the task still exists.
    pub(crate) fn write(&self, phase: Phase) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(phase)
    }
}

fn update_count((task, incarnation): TaskIncarnation, newest: u64, updates: u64) -> UpdateCount {
    UpdateCount { task, incarnation: format!("{:016x}", incarnation.0), newest, updates }
}

fn applied((trainer, progress): (TaskIncarnation, TaskProgress)) -> UpdateCount {
    update_count(trainer, progress.step, progress.complete_steps())
}

fn task_phase(phase: Phase) -> TaskPhase {
    match phase {
        Phase::Forming => TaskPhase::Forming,
        Phase::Running => TaskPhase::Running,
        Phase::Ending => TaskPhase::Ending,
        Phase::Over => TaskPhase::Over,
    }
}

/// Shows the launcher that this task takes part in the job, before it has anything else to report.
pub(crate) fn joined(dir: &Path, task: TaskId) {
    let _ = StatusDir::at(dir).write(task, &TaskStatus::new(task));
}

/// Leaves the reason for the failure of this task for the launcher.
pub(crate) fn failed(dir: &Path, task: TaskId, error: &phalanx_base::Error) {
    let attempt = std::env::var(phalanx_run::ATTEMPT_VAR).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (code, relayed) = (error.code().number(), error.is_relayed());
    let failure = TaskFailure { format_version: phalanx_run::FORMAT_VERSION, attempt, code, relayed };
    let _ = StatusDir::at(dir).write_failure(task, &failure);
}

fn add_holdings(status: &mut TaskStatus, store: &Store) {
    let holdings = store.stored_items();
    let list = |table: bool| {
        let chosen = holdings.iter().filter(|holding| holding.table == table).take(MAX_NAMES);
        let holding = chosen.map(|one| {
            let (elements, rows) = if table { (None, Some(one.count)) } else { (Some(one.count), None) };
            Holding { name: one.name.clone(), elements, rows, bytes: one.bytes }
        });
        Some(holding.collect())
    };
    status.ready = Some(store.is_ready());
    status.global_step = Some(store.global_step());
    status.stale = Some(store.stale());
    status.repeats = Some(store.repeats());
    status.bytes = Some(holdings.iter().map(|holding| holding.bytes).sum());
    (status.variables, status.tables) = (list(false), list(true));
}

/// Rounds to six digits. JSON cannot represent numbers that are not finite.
fn fraction(number: f64) -> Option<f64> {
    number.is_finite().then(|| (number * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(task: &str) -> TaskIncarnation {
        (task.parse().unwrap(), Incarnation(3))
    }

    #[test]
    fn a_trainer_reports_its_rate_and_a_server_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let progress = Arc::new(ProgressCounters::default());
        let mut writer = StatusWriter::new(dir.path(), life("worker/1"), None, &progress);
        let first = writer.status(Phase::Forming, &progress);
        assert_eq!((first.loss, first.steps, first.steps_per_s), (None, Some(0), None));
        progress.stepped(7, Some(2), Some(0.5));
        progress.expect(1000);
        assert_eq!(first.acknowledged, None);
        progress.acknowledged().store(6, Ordering::Relaxed);
        let status = writer.status(Phase::Running, &progress);
        assert_eq!((status.global_step, status.lag, status.loss), (Some(7), Some(2), Some(0.5)));
        assert_eq!((status.max_steps, status.phase), (Some(1000), Some(TaskPhase::Running)));
        assert_eq!((status.exchanges, status.in_sync), (None, None));
        assert_eq!(status.acknowledged, Some(update_count(life("worker/1"), 6, 6)));
        progress.set_in_sync();
        progress.stepped(8, None, Some(0.25));
        let status = writer.status(Phase::Running, &progress);
        assert_eq!((status.steps, status.lag, status.in_sync), (Some(2), None, Some(true)));
        let store = Arc::<Store>::default();
        let mut writer = StatusWriter::new(dir.path(), life("ps/0"), Some(store), &progress);
        let status = writer.status(Phase::Running, &progress);
        assert_eq!((status.variables, status.tables, status.loss), (Some(Vec::new()), Some(Vec::new()), None));
    }

    #[test]
    fn of_two_models_of_a_process_the_one_that_trains_reports() {
        let dir = tempfile::tempdir().unwrap();
        let task: TaskId = "chief/0".parse().unwrap();
        let progress = [(); 2].map(|()| Arc::new(ProgressCounters::default()));
        let [mut first, mut second] =
            [0, 1].map(|at: usize| StatusWriter::new(dir.path(), (task, Incarnation(3)), None, &progress[at]));
        let loss = || StatusDir::at(dir.path()).read(task).unwrap().unwrap().0.loss;
        progress[0].stepped(3, None, Some(0.25));
        assert!(first.write(Phase::Running) && first.write(Phase::Running), "nobody else reports");
        progress[1].stepped(1, None, Some(0.5));
        assert!(second.write(Phase::Running));
        // The clock of files may not have moved between the two.
        first.written = Some((1, first.written.unwrap().1.map(|at| at - Duration::from_secs(1))));
        assert!(first.write(Phase::Running));
        assert_eq!(loss(), Some(0.5), "the idle one is silent");
        progress[0].stepped(4, None, Some(0.125));
        assert!(first.write(Phase::Running));
        assert_eq!(loss(), Some(0.125));
    }

    #[test]
    fn the_file_is_there_at_once_and_the_counters_are_not_kept_alive() {
        let dir = tempfile::tempdir().unwrap();
        let progress = Arc::new(ProgressCounters::default());
        StatusWriter::new(dir.path(), life("ps/0"), None, &progress).start(|| Phase::Running).unwrap();
        let joined = StatusDir::at(dir.path()).joined();
        assert_eq!(joined.len(), 1, "a job that ends at once took part too");
        let weak = Arc::downgrade(&progress);
        drop(progress);
        assert!(weak.upgrade().is_none());
    }
}
