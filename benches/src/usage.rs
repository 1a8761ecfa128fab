//! What processes have used, as the kernel counts it.

use std::collections::BTreeMap;

/// Ticks of the kernel's process clock in a second: part of its interface on every machine we know.
const TICKS: f64 = 100.0;

/// One process, as it was when looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// Processor seconds, in user space and in the kernel.
    pub(crate) cpu: f64,
    /// The most memory it had.
    pub(crate) peak_bytes: u64,
    pub(crate) resident_bytes: u64,
    /// When it started, in the kernel's ticks: a process id alone may be somebody else's later.
    pub(crate) started: u64,
}

/// Processor seconds of this process so far.
pub(crate) fn own_cpu_seconds() -> f64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::read(&text)).map_or(0.0, |of| of.cpu)
}

/// `root` and everything below it that is alive, by process id.
pub(crate) fn tree(root: u32) -> BTreeMap<u32, Process> {
    let mut alive = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        if let Some(of) = text.and_then(|text| Stat::read(&text)) {
            alive.insert(pid, of);
        }
    }
    let below = |mut pid: u32| {
        // No deeper than there are processes, so that a race of ids cannot keep us here.
        for _ in 0..alive.len() {
            if pid == root {
                return true;
            }
            let Some(of) = alive.get(&pid) else { return false };
            pid = of.parent;
        }
        false
    };
    let mine = alive.iter().filter(|&(&pid, _)| below(pid));
    mine.filter_map(|(&pid, of)| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let bytes = |key| 1024 * kilobytes(&status, key).unwrap_or(0);
        let (cpu, started) = (of.cpu, of.started);
        Some((pid, Process { cpu, peak_bytes: bytes("VmHWM:"), resident_bytes: bytes("VmRSS:"), started }))
    })
    .collect()
}

/// Bytes that went over the loopback device since the machine started.
pub(crate) fn loopback_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/net/dev").ok()?;
    received(&text, "lo")
}

/// Memory that could be had now without swapping.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some(1024 * kilobytes(&text, "MemAvailable:")?)
}

/// Whether the process that started then still runs; one that only waits to be collected does not.
pub(crate) fn is_alive(pid: u32, started: u64) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    text.and_then(|text| Stat::read(&text)).is_some_and(|of| of.started == started && of.state != "Z")
}

/// Ends a process at once.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // Already gone is as good as killed.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
}

/// What `/proc/PID/stat` says.
#[derive(Debug, PartialEq)]
struct Stat {
    state: String,
    parent: u32,
    cpu: f64,
    started: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The name is in brackets, and may itself have brackets and spaces.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            state: (*fields.first()?).to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            cpu: (ticks(11)? + ticks(12)?) as f64 / TICKS,
            started: ticks(19)?,
        })
    }
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.trim().trim_end_matches("kB").trim().parse().ok()
}

fn received(text: &str, device: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let text = "42 (a) b (c)) S 7 42 42 0 -1 0 1 2 3 4 250 50 0 0 20 0 1 0 100 1 1";
        assert_eq!(Stat::read(text), Some(Stat { state: "S".to_owned(), parent: 7, cpu: 3.0, started: 100 }));
        assert_eq!(Stat::read("42 (broken"), None);
        assert_eq!(kilobytes("VmPeak:\t  9 kB\nVmHWM:\t  1234 kB\n", "VmHWM:"), Some(1234));
        assert_eq!(received("Inter-|\n    lo: 17 2 0\n  eth0: 5 1\n", "lo"), Some(17));
    }

    #[test]
    fn this_process_is_in_its_own_tree() {
        let own = std::process::id();
        assert!(tree(own).get(&own).is_some_and(|process| process.peak_bytes > 0));
    }
}
