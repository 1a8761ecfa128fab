//! Whether any task listens on its address: a program that reads its `TF_CONFIG` does, sooner or later.

use crate::Launch;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often the kernel is asked until a task listens.
const EVERY: Duration = Duration::from_millis(500);

/// The ports that were chosen for a job on this machine, until a task listens on one.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// Empty once a task has listened, or if the job has chosen no ports.
    ports: BTreeSet<u16>,
    looked: Instant,
}

impl Listeners {
    /// Watches a job of several tasks that all run here.
    pub(crate) fn of(launch: &Launch) -> Self {
        let ports: BTreeSet<u16> = launch.layout.reserved_ports().collect();
        let ports = if ports.len() > 1 { ports } else { BTreeSet::new() };
        Self { ports, looked: Instant::now() }
    }

    /// Asks the kernel, if it is time to.
    pub(crate) fn look(&mut self) {
        if self.ports.is_empty() || self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        if tables.iter().flat_map(|table| table.lines()).filter_map(listens).any(|port| self.ports.contains(&port)) {
            self.ports.clear();
        }
    }

    /// Whether no task ever listened.
    pub(crate) fn none_seen(&self) -> bool {
        !self.ports.is_empty()
    }
}

/// The port in a line of `/proc/net/tcp`, if its socket listens.
fn listens(line: &str) -> Option<u16> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    (fields.nth(1)? == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let table = || std::fs::read_to_string("/proc/net/tcp").unwrap();
        assert!(table().lines().filter_map(listens).any(|one| one == port));
        assert_eq!(listens("  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000"), None);
        assert_eq!(listens("  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000"), Some(8080));
        assert_eq!(listens("  sl  local_address rem_address   st"), None);
    }
}
