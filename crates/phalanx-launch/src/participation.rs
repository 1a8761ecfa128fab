//! Whether tasks took part in the job, as their status files show.

use phalanx_base::TaskId;
use phalanx_run::StatusDir;
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a disk that hangs may delay the report of a task's exit.
const DEADLINE: Duration = Duration::from_secs(1);

/// What is known when a task has exited. Programs that do not use Phalanx leave no status files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Participation {
    /// The tasks that took part in the job.
    pub(crate) joined: BTreeSet<TaskId>,
    /// Whether the task failed only because the chief reported that the job failed.
    pub(crate) relayed: bool,
}

impl Participation {
    /// Reads the status files; a disk that does not respond has none.
    pub(crate) fn read(dir: &StatusDir, task: TaskId, attempt: u32) -> Self {
        let (sender, result) = channel();
        let dir = dir.clone();
        let read = move || {
            let relayed = dir.read_failure(task).is_some_and(|end| end.attempt == attempt && end.relayed);
            drop(sender.send(Self { joined: dir.joined(), relayed }));
        };
        match std::thread::Builder::new().name("phalanx-status".into()).spawn(read) {
            Ok(_) => result.recv_timeout(DEADLINE).unwrap_or_default(),
            Err(_) => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_an_earlier_attempt_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let status = StatusDir::at(dir.path());
        let task: TaskId = "ps/1".parse().unwrap();
        assert_eq!(Participation::read(&status, task, 1), Participation::default());
        std::fs::write(dir.path().join("ps-1.json"), "{}").unwrap();
        std::fs::write(dir.path().join("ps-1.end"), r#"{"attempt": 2, "code": 401, "relayed": true}"#).unwrap();
        std::fs::write(dir.path().join("odd.json"), "{}").unwrap();
        for (attempt, relayed) in [(1, false), (2, true)] {
            let wanted = Participation { joined: BTreeSet::from([task]), relayed };
            assert_eq!(Participation::read(&status, task, attempt), wanted);
        }
    }
}
