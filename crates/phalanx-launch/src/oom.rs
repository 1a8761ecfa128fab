//! Out-of-memory kills.

use std::path::PathBuf;

/// Counts the out-of-memory kills in the control group of this process.
#[derive(Debug)]
pub(crate) struct OomKills {
    file: Option<PathBuf>,
    known: u64,
}

impl OomKills {
    /// Counts from now on. Without cgroup v2 nothing is counted.
    pub(crate) fn watch() -> Self {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        Self::of(group.map(|group| PathBuf::from("/sys/fs/cgroup").join(group).join("memory.events")))
    }

    fn of(file: Option<PathBuf>) -> Self {
        let mut kills = Self { file, known: 0 };
        kills.known = kills.count();
        kills
    }

    /// Whether there was a kill since the last call.
    pub(crate) fn any_new(&mut self) -> bool {
        let count = self.count();
        let new = count > self.known;
        self.known = count;
        new
    }

    fn count(&self) -> u64 {
        let text = self.file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kill_is_returned_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory.events");
        let write = |kills: u64| std::fs::write(&file, format!("low 0\noom 7\noom_kill {kills}\noom_group_kill 9\n"));
        write(2).unwrap();
        let mut kills = OomKills::of(Some(file.clone()));
        assert!(!kills.any_new(), "kills before the job do not count");
        write(3).unwrap();
        assert!(kills.any_new() && !kills.any_new());
        std::fs::remove_file(&file).unwrap();
        assert!(!kills.any_new() && !OomKills::of(None).any_new());
    }
}
