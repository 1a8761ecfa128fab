//! What a process takes of the machine.

use std::collections::BTreeMap;
use std::time::Instant;

/// Seconds of processor time so far, and bytes in memory.
fn usage(pid: u32) -> Option<(f64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Counted from the state, which is the third field of the file.
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let pages: u64 = fields.get(21)?.parse().ok()?;
    // Linux counts in hundredths whatever its own clock is.
    Some((ticks as f64 / 100.0, pages * rustix::param::page_size() as u64))
}

/// Processor shares over the time between two looks.
#[derive(Debug, Default)]
pub(super) struct Loads {
    before: BTreeMap<u32, (Instant, f64)>,
}

impl Loads {
    /// Processors in use (1.0 is one of them) and bytes in memory; `None` for a process that is not there.
    pub(super) fn of(&mut self, pid: u32) -> Option<(f64, u64)> {
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
    fn this_process_takes_something() {
        let mut loads = Loads::default();
        let (_, memory) = loads.of(std::process::id()).unwrap();
        assert!(memory > 1 << 16, "{memory}");
        assert_eq!(loads.of(u32::MAX), None);
    }
}
