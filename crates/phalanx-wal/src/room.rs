//! How much memory this machine, or this container, can spare.

use rustix::fs::{statfs, statvfs};
use std::path::Path;

/// The file system type of memory.
const TMPFS: i64 = 0x0102_1994;

/// The memory that files in a folder may still take.
///
/// ```
/// let room = phalanx_wal::Room::of(std::path::Path::new("/dev/shm"));
/// println!("{} MiB ({})", room.bytes >> 20, room.limit);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many bytes.
    pub bytes: u64,
    /// What limits them.
    pub limit: &'static str,
}

impl Room {
    /// Looks at the file system of a folder; where that is memory, also at the machine's memory and at the limits of this
    /// process's control groups, which files in memory count against.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let free = statvfs(folder).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
        let mut room = Self { bytes: free, limit: "the size of its file system" };
        if is_memory(folder) {
            let machine = read("/proc/meminfo").and_then(|text| available(&text));
            room = room.at_most(machine, "the memory of this machine");
            room = room.at_most(of_control_groups(), "the memory limit of this container");
        }
        room
    }

    fn at_most(self, bytes: Option<u64>, limit: &'static str) -> Self {
        bytes.filter(|&bytes| bytes < self.bytes).map_or(self, |bytes| Self { bytes, limit })
    }
}

/// Returns whether files of this folder lie in memory.
#[must_use]
pub fn is_memory(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|fs| fs.f_type == TMPFS)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the available memory in bytes, by the text of `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Returns the smallest amount that any control group of this process may still take; `None` if none is limited.
fn of_control_groups() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, names) = match controllers {
            "" => ("/sys/fs/cgroup", ["memory.max", "memory.current"]),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"])
            }
            _ => continue,
        };
        // A container sees its own group at the root, whatever path the file names.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let number = |name| read(Path::new(root).join(group).join(name))?.trim().parse::<u64>().ok();
            if let [Some(limit), Some(used)] = names.map(number) {
                let left = limit.saturating_sub(used);
                least = Some(least.map_or(left, |least: u64| least.min(left)));
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts_and_is_named() {
        let room = Room { bytes: 100, limit: "a" };
        assert_eq!(room.at_most(Some(40), "b"), Room { bytes: 40, limit: "b" });
        assert_eq!((room.at_most(Some(400), "b"), room.at_most(None, "b")), (room, room));
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    3 kB\n"), Some(3 << 10));
        assert_eq!(available("MemAvailable: much\n"), None);
    }

    #[test]
    fn a_folder_has_room_and_one_that_does_not_exist_has_none() {
        assert!(Room::of(&std::env::temp_dir()).bytes > 0);
        assert_eq!(Room::of(Path::new("/nowhere/at/all")).bytes, 0);
    }
}
