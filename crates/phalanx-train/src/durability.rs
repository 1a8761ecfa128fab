//! Which durability a parameter server has, and the store that goes with it.

use crate::identity;
use crate::logging::LogScope;
use crate::options::ServerOptions;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_ps::Store;
use phalanx_ps::server::{LogPlan, Replayed};
use phalanx_wal::job_dir::{TaskDir, default_base, unlaunched};
use phalanx_wal::{Durability, Room};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The size of a segment: larger than the largest message.
const SEGMENT: usize = 32 << 20;
/// The fewest segments that a log needs, and the most that it takes.
const SEGMENTS: std::ops::RangeInclusive<usize> = 4..=64;
/// How many bytes of records make a snapshot due: few enough to be replayed in half a second.
const SNAPSHOT_AFTER: u64 = 256 << 20;
/// The most memory that is left to others.
const SPARE: u64 = 1 << 30;
/// How long a former process of the same task may take to exit.
const FORMER: Duration = Duration::from_secs(10);

/// Opens the store of a parameter server: with a log where the job requires one, or where its launcher offers memory for it
/// and there is enough. A server that was killed continues with what it had acknowledged.
pub(crate) fn open_store(
    config: &TaskConfig,
    task: TaskId,
    options: &ServerOptions,
    log: &LogScope,
) -> Result<Arc<Store>> {
    let required = options.durability == Some(Durability::Log);
    if options.durability == Some(Durability::Checkpoint) || (options.wal_dir.is_none() && !required) {
        return Ok(Arc::default());
    }
    log.run(|| match open_log(config, task, options, required) {
        Ok(store) => Ok(store),
        Err(error) if required || error.code() == Code::DuplicateTask => Err(error),
        Err(error) => {
            tracing::info!(durability = %Durability::Checkpoint, "durability is checkpoint: {error}");
            Ok(Arc::default())
        }
    })
}

fn open_log(config: &TaskConfig, task: TaskId, options: &ServerOptions, required: bool) -> Result<Arc<Store>> {
    let folder = task_folder(config, options)?;
    let plan = || plan(config, task, &folder, required);
    let place = folder.display();
    let first = plan()?;
    let mib = (first.most_segments * first.segment_bytes) >> 20;
    tracing::info!(
        durability = %Durability::Log,
        "durability is log: updates are in {place} before they are acknowledged, in at most {mib} MiB"
    );
    match Store::recover(first) {
        Ok(store) => {
            store.replayed().into_iter().for_each(report);
            Ok(store)
        }
        Err(error) if error.code() == Code::LogDamaged => {
            tracing::error!(code = %error.code(), "error[{}]: {error}", error.code());
            Ok(Arc::new(Store::with_log(plan()?)))
        }
        Err(error) => Err(error),
    }
}

fn report(Replayed { records, global_step, time, .. }: Replayed) {
    let ms = time.as_millis();
    tracing::info!(
        records,
        step = global_step,
        ms,
        "continuing with everything that the former process had acknowledged: {records} records were replayed in {ms} ms, \
         nothing was lost"
    );
}

/// Returns the folder of the job's logs.
fn task_folder(config: &TaskConfig, options: &ServerOptions) -> Result<PathBuf> {
    match &options.wal_dir {
        Some(dir) => Ok(dir.clone()),
        // Whoever starts the server again gives it the same cluster and run directory.
        None => {
            let name = format!("{}\n{}", config.job_id(), config.model_dir().unwrap_or_default());
            unlaunched(default_base(), &format!("{:016x}", identity::digest(&name)))
        }
    }
}

fn plan(config: &TaskConfig, task: TaskId, folder: &std::path::Path, required: bool) -> Result<LogPlan> {
    let room = Room::of(folder);
    let host = config.address_of(task)?.host();
    let servers = config.ps_addresses().iter().filter(|(_, address)| address.host() == host).count().max(1) as u64;
    // Three quarters are left to the model, to its snapshots, and to everybody else.
    let segments = (room.bytes / 4 / servers / SEGMENT as u64) as usize;
    let own = wait_for_former(folder, task)?;
    if segments < *SEGMENTS.start() && std::fs::read_dir(own.path()).is_ok_and(|found| found.count() < 2) {
        let needed = (4 * servers * (SEGMENTS.start() * SEGMENT) as u64) >> 20;
        let (left, limit, place) = (room.bytes >> 20, room.limit, folder.display());
        return Err(Error::new(Code::LogNoRoom, format!("a write-ahead log needs {needed} MiB in {place}"))
            .because(format!("{left} MiB are left ({limit})"))
            .help("free memory, enlarge /dev/shm, or train with durability = \"checkpoint\""));
    }
    Ok(LogPlan {
        folder: own,
        id: identity::random()?,
        segment_bytes: SEGMENT,
        most_segments: segments.clamp(*SEGMENTS.start(), *SEGMENTS.end()),
        snapshot_after: SNAPSHOT_AFTER,
        spare: SPARE.min(room.bytes / 8),
        required,
    })
}

/// Opens the task's own folder, for which a former process of this task may have to exit.
fn wait_for_former(folder: &std::path::Path, task: TaskId) -> Result<TaskDir> {
    let (name, until) = (format!("{}-{}", task.role, task.index), Instant::now() + FORMER);
    loop {
        match TaskDir::open(folder, &name) {
            Err(error) if error.code() == Code::DuplicateTask && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}
