//! The descendants of a process.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Kills every descendant of this process. A list of processes cannot show when that is done: a process may fork and exit while the
/// list is made, so that neither it nor its child is on it. But every descendant has an ancestor that is our child, because
/// orphans become our children; so it is done when the kernel reports no children. Processes that are stuck in the kernel
/// cannot be killed; `longest` bounds the wait for them.
pub(super) fn kill_all(longest: Duration) {
    let until = Instant::now() + longest;
    while has_children() && Instant::now() < until {
        for pid in below(getpid()) {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reaps children that have exited; returns whether there are others.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Every living descendant of `root`.
fn below(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some((state, parent)) = state_and_parent(&stat)
            && !matches!(state, 'Z' | 'X')
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        found.extend(own.iter().filter_map(|&pid| Pid::from_raw(pid)));
        open.extend(own);
    }
    found
}

/// Whether a process exists and has not exited.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state_and_parent(&stat).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Parses the state and the parent from `/proc/PID/stat`. The name in parentheses may itself contain parentheses.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_hide_a_parent() {
        assert_eq!(state_and_parent("12 (a) b) c) S 7 12 12"), Some(('S', 7)));
        assert_eq!(state_and_parent("12 (cat) Z 1"), Some(('Z', 1)));
        assert_eq!(state_and_parent("12"), None);
    }

    #[test]
    fn a_child_is_found_below_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
        assert!(below(getpid()).contains(&pid));
        assert!(is_alive(child.id()));
        child.kill().expect("it can be killed");
        child.wait().expect("it is a child");
        assert!(!below(getpid()).contains(&pid) && !is_alive(child.id()));
    }
}
