//! What tasks of ours leave in the status directory about their part in the job.

use phalanx_base::TaskId;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a disk that hangs may keep the news of a task's end back.
const LONGEST: Duration = Duration::from_secs(1);

/// What is known when a task has ended. Programs of others leave nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Tasks that took part in the job.
    pub(crate) joined: BTreeSet<TaskId>,
    /// Whether the task failed only because the chief told it that the job failed.
    pub(crate) relayed: bool,
}

impl Marks {
    /// Reads them; a disk that does not answer has none.
    pub(crate) fn read(dir: &Path, task: TaskId, attempt: u32) -> Self {
        let (tell, told) = channel();
        let dir = dir.to_owned();
        let read = move || drop(tell.send(Self::read_now(&dir, task, attempt)));
        match std::thread::Builder::new().name("phalanx-marks".into()).spawn(read) {
            Ok(_) => told.recv_timeout(LONGEST).unwrap_or_default(),
            Err(_) => Self::default(),
        }
    }

    fn read_now(dir: &Path, task: TaskId, attempt: u32) -> Self {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let joined = entries.filter_map(|entry| {
            let name = entry.file_name();
            let (role, index) = name.to_str()?.strip_suffix(".json")?.split_once('-')?;
            format!("{role}/{index}").parse().ok()
        });
        let end = std::fs::read(dir.join(format!("{}-{}.end", task.role, task.index))).unwrap_or_default();
        let end: Value = serde_json::from_slice(&end).unwrap_or_default();
        let relayed = end["attempt"] == attempt && end["relayed"] == true;
        Self { joined: joined.collect(), relayed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_a_former_life_is_not_this_one_s() {
        let dir = tempfile::tempdir().unwrap();
        let task: TaskId = "ps/1".parse().unwrap();
        assert_eq!(Marks::read(dir.path(), task, 1), Marks::default());
        std::fs::write(dir.path().join("ps-1.json"), "{}").unwrap();
        std::fs::write(dir.path().join("ps-1.end"), r#"{"attempt": 2, "code": 401, "relayed": true}"#).unwrap();
        std::fs::write(dir.path().join("odd.json"), "{}").unwrap();
        let joined = BTreeSet::from([task]);
        assert_eq!(Marks::read(dir.path(), task, 1), Marks { joined: joined.clone(), relayed: false });
        assert_eq!(Marks::read(dir.path(), task, 2), Marks { joined, relayed: true });
    }
}
