//! A job of several processes on this machine, without a launcher between this program and the tasks.

use phalanx::{ClusterSpec, TaskConfig};
use phalanx_base::{Code, Context, Error, Result, Role, TaskId};
use phalanx_launch::free_ports;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How one task ended.
pub(crate) struct Ended {
    pub(crate) task: TaskId,
    pub(crate) status: ExitStatus,
}

/// Names the parent process to the tasks.
const PARENT: &str = "PHALANX_PARENT";

struct Task {
    id: TaskId,
    child: Child,
    readers: Vec<JoinHandle<()>>,
    ended: Option<ExitStatus>,
}

/// Takes a line that a task printed.
pub(crate) type Lines = Arc<dyn Fn(TaskId, &str) + Send + Sync>;

/// Tasks as processes, each with its `TF_CONFIG`. Dropping the job kills those that are left.
pub(crate) struct LocalJob {
    tasks: Vec<Task>,
}

impl LocalJob {
    /// Starts every task of `cluster` with the command that `command` returns for it; their output goes to `lines`.
    ///
    /// # Errors
    /// If a process cannot be started; those that were are killed.
    pub(crate) fn start(cluster: &ClusterSpec, command: impl Fn(TaskId) -> Command, lines: Lines) -> Result<Self> {
        let chief = TaskId::new(Role::Chief, 0);
        let config = TaskConfig::from_cluster(cluster.clone(), chief)?;
        let mut job = Self { tasks: Vec::new() };
        for (id, _) in config.tasks() {
            let mut command = command(id);
            command
                .env("TF_CONFIG", tf_config(cluster, id))
                .env(PARENT, std::process::id().to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut child = command.spawn().context(Code::Internal, format!("{id} cannot be started"))?;
            let streams: [Option<Box<dyn Read + Send>>; 2] = [
                child.stdout.take().map(|stream| Box::new(stream) as _),
                child.stderr.take().map(|stream| Box::new(stream) as _),
            ];
            let mut task = Task { id, child, readers: Vec::new(), ended: None };
            let reading = streams.into_iter().flatten().try_for_each(|stream| {
                task.readers.push(read(id, stream, Arc::clone(&lines))?);
                Ok(())
            });
            // Listed before an error returns, so that the process is killed with the others.
            job.tasks.push(task);
            reading?;
        }
        Ok(job)
    }

    /// Waits until every task has ended.
    ///
    /// # Errors
    /// If some have not ended after `deadline`; the error names them.
    pub(crate) fn wait(&mut self, deadline: Duration) -> Result<Vec<Ended>> {
        let since = Instant::now();
        loop {
            for task in self.tasks.iter_mut().filter(|task| task.ended.is_none()) {
                task.ended = task.child.try_wait().context(Code::Internal, format!("{} cannot be watched", task.id))?;
            }
            let running: Vec<String> =
                self.tasks.iter().filter(|task| task.ended.is_none()).map(|task| task.id.to_string()).collect();
            if running.is_empty() {
                break;
            }
            if since.elapsed() > deadline {
                return Err(Error::new(Code::JobFailed, "the job did not end in time").because(format!(
                    "{} still run after {} s",
                    running.join(", "),
                    deadline.as_secs()
                )));
            }
            // Short pauses for a short job; looking often would slow down a long one.
            std::thread::sleep((since.elapsed() / 20).clamp(Duration::from_millis(1), Duration::from_millis(50)));
        }
        for task in &mut self.tasks {
            task.readers.drain(..).for_each(|reader| drop(reader.join()));
        }
        Ok(self.tasks.iter().filter_map(|task| task.ended.map(|status| Ended { task: task.id, status })).collect())
    }

    /// The process id of a task.
    pub(crate) fn pid(&self, id: TaskId) -> Option<u32> {
        self.tasks.iter().find(|task| task.id == id).map(|task| task.child.id())
    }
}

impl Drop for LocalJob {
    fn drop(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.ended.is_none()) {
            let _ = task.child.kill();
            let _ = task.child.wait();
        }
    }
}

/// The `TF_CONFIG` of a task.
fn tf_config(cluster: &ClusterSpec, task: TaskId) -> String {
    format!(r#"{{"cluster": {}, "task": {{"type": "{}", "index": {}}}}}"#, cluster.to_json(), task.role, task.index)
}

fn read(id: TaskId, stream: Box<dyn Read + Send>, lines: Lines) -> Result<JoinHandle<()>> {
    let read = move || BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| lines(id, &line));
    let thread = std::thread::Builder::new().name(format!("phalanx-lines-{id}")).spawn(read);
    thread.context(Code::Internal, format!("the output of {id} cannot be read"))
}

/// A cluster on loopback with `ps` parameter servers and `trainers` trainers, the first of which is the chief.
///
/// # Errors
/// If the operating system has no free ports.
pub(crate) fn local_cluster(ps: usize, trainers: usize) -> Result<ClusterSpec> {
    let ports = free_ports(ps + trainers)?;
    let addresses = |ports: &[u16]| ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>();
    let (servers, trainers) = ports.split_at(ps);
    let (chief, workers) = trainers.split_at(1.min(trainers.len()));
    let mut cluster = ClusterSpec::new().job("chief", addresses(chief)).job("ps", addresses(servers));
    if !workers.is_empty() {
        cluster = cluster.job("worker", addresses(workers));
    }
    Ok(cluster)
}

/// Makes the kernel kill this process when its parent exits; does nothing in a process that was started by hand.
///
/// # Errors
/// If the parent is already gone.
pub(crate) fn die_with_parent() -> Result<()> {
    let Ok(parent) = std::env::var(PARENT) else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::KILL))
        .context(Code::Internal, "the parent process cannot be watched")?;
    // It may have exited before the line above.
    let current = getppid().map(Pid::as_raw_nonzero);
    if current.is_some_and(|pid| pid.to_string() == parent) {
        Ok(())
    } else {
        Err(Error::new(Code::JobFailed, "the parent process is gone").because(format!("it was process {parent}")))
    }
}
