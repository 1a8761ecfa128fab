//! The processes of one job.

use crate::guard::PARENT;
use phalanx_base::{Code, Context, Error, Result, TaskId};
use phalanx_cluster::{ClusterSpec, TaskConfig};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How one task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The task.
    pub task: TaskId,
    /// Its process' end.
    pub status: ExitStatus,
}

struct Task {
    id: TaskId,
    child: Child,
    readers: Vec<JoinHandle<()>>,
    ended: Option<ExitStatus>,
}

/// Takes a line that a task printed.
pub type Lines = Arc<dyn Fn(TaskId, &str) + Send + Sync>;

/// Tasks as processes, each with its `TF_CONFIG`. Dropping the job ends those that are left.
pub struct LocalJob {
    tasks: Vec<Task>,
}

impl LocalJob {
    /// Starts every task of `cluster` with the command that `command` makes for it; their output goes to `lines`.
    ///
    /// # Errors
    /// When a process cannot be started; those that were are ended.
    pub fn start(cluster: &ClusterSpec, command: impl Fn(TaskId) -> Command, lines: Lines) -> Result<Self> {
        let chief = TaskId::new(phalanx_base::Role::Chief, 0);
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
            // Listed before the error goes up, so that the process is ended with the others.
            job.tasks.push(task);
            reading?;
        }
        Ok(job)
    }

    /// Waits until every task has ended.
    ///
    /// # Errors
    /// When some have not after `deadline`; they are named.
    pub fn wait(&mut self, deadline: Duration) -> Result<Vec<Ended>> {
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
            // A short job is over soon; beside a long one whoever looks often takes its time.
            std::thread::sleep((since.elapsed() / 20).clamp(Duration::from_millis(1), Duration::from_millis(50)));
        }
        for task in &mut self.tasks {
            task.readers.drain(..).for_each(|reader| drop(reader.join()));
        }
        Ok(self.tasks.iter().filter_map(|task| task.ended.map(|status| Ended { task: task.id, status })).collect())
    }

    /// The process id of a task.
    #[must_use]
    pub fn pid(&self, id: TaskId) -> Option<u32> {
        self.tasks.iter().find(|task| task.id == id).map(|task| task.child.id())
    }

    /// Ends one task at once, as `kill -9` does.
    ///
    /// # Errors
    /// When there is no such task.
    pub fn kill(&mut self, id: TaskId) -> Result<()> {
        let task = self.tasks.iter_mut().find(|task| task.id == id);
        let task = task.ok_or_else(|| Error::new(Code::NoSuchTask, format!("{id} was not started")))?;
        task.child.kill().context(Code::Internal, format!("{id} cannot be killed"))
    }
}

impl Drop for LocalJob {
    fn drop(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.ended.is_none()) {
            // Already gone is as good as killed.
            let _ = task.child.kill();
            let _ = task.child.wait();
        }
    }
}

/// The text that tells a task who it is.
fn tf_config(cluster: &ClusterSpec, task: TaskId) -> String {
    format!(r#"{{"cluster": {}, "task": {{"type": "{}", "index": {}}}}}"#, cluster.to_json(), task.role, task.index)
}

fn read(id: TaskId, stream: Box<dyn Read + Send>, lines: Lines) -> Result<JoinHandle<()>> {
    let read = move || BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| lines(id, &line));
    let thread = std::thread::Builder::new().name(format!("phalanx-lines-{id}")).spawn(read);
    thread.context(Code::Internal, format!("the output of {id} cannot be read"))
}
