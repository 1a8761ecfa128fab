//! `usage.json`: what the processes of a job used.

use crate::format::{self, FORMAT_VERSION, as_text};
use crate::run_dir::write_atomically;
use crate::{RunDir, TaskStatus};
use phalanx_base::{Result, Role, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the process of a task and its descendants used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// CPU time, in user and system mode.
    pub cpu: Duration,
    /// The peak memory of the largest process.
    pub peak_bytes: u64,
}

impl ProcessUsage {
    /// Adds a later attempt of the same task.
    pub fn add(&mut self, later: Self) {
        self.cpu += later.cpu;
        self.peak_bytes = self.peak_bytes.max(later.peak_bytes);
    }
}

/// What all tasks of a role used.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RoleUsage {
    /// The role.
    #[serde(with = "as_text")]
    pub role: Role,
    /// The number of its tasks.
    pub tasks: usize,
    /// CPU seconds of all of them and of all their attempts.
    pub cpu_seconds: f64,
    /// The peak memory of the task that needed most.
    pub peak_bytes: u64,
    /// Bytes of values that parameter servers sent to trainers, as of their last status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes of gradients and ids that parameter servers received from trainers, as of their last status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
}

/// What a job used, by role.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct JobUsage {
    /// The version of the format.
    #[serde(default)]
    pub format_version: u32,
    /// The roles that had a task.
    pub roles: Vec<RoleUsage>,
}

impl JobUsage {
    /// Sums the tasks of each role. `status` returns a task's last status.
    #[must_use]
    pub fn new(tasks: &BTreeMap<TaskId, ProcessUsage>, status: impl Fn(TaskId) -> Option<TaskStatus>) -> Self {
        let of_role = |role: Role| {
            let own: Vec<(&TaskId, &ProcessUsage)> = tasks.iter().filter(|(task, _)| task.role == role).collect();
            let statuses = own.iter().filter(|_| role == Role::Ps).filter_map(|(task, _)| status(**task));
            let traffic: Vec<(u64, u64)> = statuses.filter_map(|one| Some((one.bytes_out?, one.bytes_in?))).collect();
            let sum = |one: fn(&(u64, u64)) -> u64| (!traffic.is_empty()).then(|| traffic.iter().map(one).sum());
            (!own.is_empty()).then(|| RoleUsage {
                role,
                tasks: own.len(),
                cpu_seconds: own.iter().map(|(_, usage)| usage.cpu.as_secs_f64()).sum(),
                peak_bytes: own.iter().map(|(_, usage)| usage.peak_bytes).max().unwrap_or(0),
                sent_bytes: sum(|both| both.0),
                received_bytes: sum(|both| both.1),
            })
        };
        Self { format_version: FORMAT_VERSION, roles: Role::ALL.into_iter().filter_map(of_role).collect() }
    }

    /// One line per role, such as `ps: 3.1 CPU s, 210 MiB peak, 1.2 GiB sent, 310 MiB received`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |one: &RoleUsage| {
            let name = match (one.tasks, one.role) {
                (0 | 1, role) => role.to_string(),
                (tasks, Role::Ps) => format!("{tasks} ps"),
                (tasks, role) => format!("{tasks} {role}s"),
            };
            let each = if one.tasks > 1 { " at most" } else { "" };
            let traffic =
                |bytes: Option<u64>, word| bytes.map_or_else(String::new, |n| format!(", {} {word}", size(n)));
            format!(
                "{name}: {:.1} CPU s, {} peak{each}{}{}",
                one.cpu_seconds,
                size(one.peak_bytes),
                traffic(one.sent_bytes, "sent"),
                traffic(one.received_bytes, "received"),
            )
        };
        self.roles.iter().map(line).collect()
    }

    /// Writes `usage.json` of a run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, run: &RunDir) -> std::io::Result<()> {
        // Plain fields always serialize.
        write_atomically(&run.usage_file(), &serde_json::to_string(self).unwrap_or_default())
    }

    /// Reads `usage.json` of a run; `None` if it has none.
    ///
    /// # Errors
    /// If a newer version of Phalanx wrote it.
    pub fn read(run: &RunDir) -> Result<Option<Self>> {
        format::read(&run.usage_file())
    }
}

/// A number of bytes in the unit that gives it at most four digits.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, larger);
    }
    if unit == "B" || number >= 100.0 { format!("{number:.0} {unit}") } else { format!("{number:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_summed_by_role_and_read_back() {
        let usage = |millis, mib: u64| ProcessUsage { cpu: Duration::from_millis(millis), peak_bytes: mib << 20 };
        let mut restarted = usage(1000, 300);
        restarted.add(usage(500, 200));
        let tasks =
            [("chief/0", restarted), ("ps/0", usage(100, 50)), ("ps/1", usage(200, 70)), ("worker/0", usage(0, 1))];
        let tasks = tasks.map(|(task, usage)| (task.parse().unwrap(), usage)).into();
        let status = |task: TaskId| {
            let bytes = u64::from(task.index + 1) * 1024;
            Some(TaskStatus { bytes_out: Some(bytes), bytes_in: Some(2 * bytes), ..TaskStatus::new(task) })
        };
        let job = JobUsage::new(&tasks, status);
        let lines = [
            "chief: 1.5 CPU s, 300 MiB peak",
            "worker: 0.0 CPU s, 1.0 MiB peak",
            "2 ps: 0.3 CPU s, 70.0 MiB peak at most, 3.0 KiB sent, 6.0 KiB received",
        ];
        let mut found = job.lines();
        found.sort_by_key(|line| (line.contains("ps:"), line.contains("worker")));
        assert_eq!(found, lines);

        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        assert_eq!(JobUsage::read(&run).unwrap(), None);
        run.create().unwrap();
        job.write(&run).unwrap();
        assert_eq!(JobUsage::read(&run).unwrap(), Some(job));
    }

    #[test]
    fn servers_without_a_status_have_no_traffic() {
        let tasks = [("ps/0".parse().unwrap(), ProcessUsage::default())].into();
        let job = JobUsage::new(&tasks, |_| None);
        assert_eq!(job.lines(), ["ps: 0.0 CPU s, 0 B peak"]);
        assert!(!serde_json::to_string(&job).unwrap().contains("sent"));
    }
}
