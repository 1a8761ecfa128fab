//! A job of processes on loopback.

use crate::ports;
use crate::process::{End, Task};
use phalanx_base::SplitMix;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long anything may take on a busy machine before a test gives up.
pub const LONG: Duration = Duration::from_secs(60);

/// Waits for at most `millis` milliseconds, so that what follows hits a random moment of a job.
pub fn random_pause(random: &mut SplitMix, millis: usize) {
    std::thread::sleep(Duration::from_millis(random.below(millis) as u64));
}

/// How often a test repeats what it does at random moments: the number in this environment variable, or `usual`.
#[must_use]
pub fn repetitions(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The addresses of a job's tasks, and how each task is started.
#[derive(Clone)]
pub struct Job {
    /// The program that every task runs.
    pub program: PathBuf,
    /// Where the parameter servers listen.
    pub ps: Vec<u16>,
    /// Where the trainers listen, the chief first.
    pub trainers: Vec<u16>,
    /// Arguments of every task.
    pub arguments: Vec<String>,
    /// Environment variables of every task.
    pub environment: Vec<(&'static str, String)>,
    /// Passes the cluster in `TF_CONFIG` instead of flags.
    pub by_tf_config: bool,
}

impl Job {
    /// A job of `program` with `ps` parameter servers and `trainers` trainers, on free ports.
    #[must_use]
    pub fn new(program: &str, ps: usize, trainers: usize, arguments: &[&str]) -> Self {
        Self {
            program: Path::new(program).to_owned(),
            ps: (0..ps).map(|_| ports::free()).collect(),
            trainers: (0..trainers).map(|_| ports::free()).collect(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            by_tf_config: false,
        }
    }

    /// The text that makes a process task `index` of `role` (`chief`, `worker` or `ps`).
    #[must_use]
    pub fn tf_config(&self, role: &str, index: usize) -> String {
        let list =
            |ports: &[u16]| serde_json::json!(ports.iter().map(|p| format!("127.0.0.1:{p}")).collect::<Vec<_>>());
        let mut cluster = serde_json::json!({"chief": list(&self.trainers[..1])});
        if !self.ps.is_empty() {
            cluster["ps"] = list(&self.ps);
        }
        if self.trainers.len() > 1 {
            cluster["worker"] = list(&self.trainers[1..]);
        }
        serde_json::json!({"cluster": cluster, "task": {"type": role, "index": index}}).to_string()
    }

    /// Starts parameter server `index`.
    #[must_use]
    pub fn start_ps(&self, index: usize) -> Task {
        self.start("ps", index, "ps", index)
    }

    /// Starts trainer `index`; 0 is the chief.
    #[must_use]
    pub fn start_trainer(&self, index: usize) -> Task {
        if index == 0 { self.start("chief", 0, "worker", 0) } else { self.start("worker", index - 1, "worker", index) }
    }

    fn start(&self, role: &str, index: usize, flag: &str, flag_index: usize) -> Task {
        let name = format!("{role}/{index}");
        let mut environment = self.environment.clone();
        let mut arguments = self.arguments.clone();
        if self.by_tf_config {
            environment.push(("TF_CONFIG", self.tf_config(role, index)));
        } else {
            let list = |ports: &[u16]| ports.iter().map(|p| format!("127.0.0.1:{p}")).collect::<Vec<_>>().join(",");
            arguments.push(format!("--ps_hosts={}", list(&self.ps)));
            arguments.push(format!("--worker_hosts={}", list(&self.trainers)));
            arguments.push(format!("--job_name={flag}"));
            arguments.push(format!("--task_index={flag_index}"));
        }
        Task::start(&name, &self.program, &arguments, &environment)
    }

    /// Starts every task.
    #[must_use]
    pub fn start_all(&self) -> Running {
        let ps = (0..self.ps.len()).map(|i| self.start_ps(i)).collect();
        let trainers = (0..self.trainers.len()).map(|i| self.start_trainer(i)).collect();
        Running { ps, trainers }
    }
}

/// The processes of a job.
pub struct Running {
    /// Parameter servers.
    pub ps: Vec<Task>,
    /// Trainers, the chief first.
    pub trainers: Vec<Task>,
}

impl Running {
    /// Waits until every trainer has done a step.
    pub fn wait_until_training(&self) {
        for trainer in &self.trainers {
            trainer.wait_for_line(&["own step 1,"], LONG);
        }
    }

    /// Waits until every task has ended with code 0; returns the chief's end.
    pub fn expect_good_end(self, deadline: Duration) -> End {
        self.expect_good_end_without(&[], deadline)
    }

    /// The same, except that trainers started again may have come too late to learn that the job is over.
    pub fn expect_good_end_without(mut self, restarted: &[usize], deadline: Duration) -> End {
        let chief = self.trainers[0].expect(0, deadline);
        let others = self.trainers.iter_mut().enumerate().skip(1).filter(|(index, _)| !restarted.contains(index));
        others.map(|(_, task)| task).chain(&mut self.ps).for_each(|task| drop(task.expect(0, LONG)));
        chief
    }

    /// Kills parameter server `index` and starts it again.
    pub fn restart_ps(&mut self, job: &Job, index: usize) {
        self.ps[index].kill();
        self.ps[index] = job.start_ps(index);
    }

    /// Kills trainer `index` and starts it again; returns the end of the former process.
    pub fn restart_trainer(&mut self, job: &Job, index: usize) -> End {
        let end = self.trainers[index].kill();
        self.trainers[index] = job.start_trainer(index);
        end
    }
}
