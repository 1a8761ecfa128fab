//! The CPU and memory that a process uses.

use std::collections::BTreeMap;
use std::time::Instant;

/// Returns the CPU seconds that a process has used and its bytes in memory.
fn usage(pid: u32) -> Option<(f64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Counted from the state, which is the third field of the file.
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let pages: u64 = fields.get(21)?.parse().ok()?;
    // Linux reports hundredths of a second, whatever its internal clock is.
    Some((ticks as f64 / 100.0, pages * rustix::param::page_size() as u64))
}

/// CPU usage between two calls.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    before: BTreeMap<u32, (Instant, f64)>,
}

impl Loads {
    /// Returns the CPUs in use since the last call (1.0 is one CPU) and bytes in memory; `None` if there is no such process.
    pub(crate) fn of(&mut self, pid: u32) -> Option<(f64, u64)> {
        let (seconds, memory) = usage(pid)?;
        let now = Instant::now();
        let (at, before) = self.before.insert(pid, (now, seconds)).unwrap_or((now, seconds));
        let time = (now - at).as_secs_f64();
        Some((if time > 0.0 { (seconds - before).max(0.0) / time } else { 0.0 }, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        let mut loads = Loads::default();
        let (_, memory) = loads.of(std::process::id()).unwrap();
        assert!(memory > 1 << 16, "{memory}");
        assert_eq!(loads.of(u32::MAX), None);
    }
}
