//! Ports on loopback that no other test uses.

use phalanx_cluster::ClusterSpec;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that is free and that no other call in this process gets: below the range from which the system gives out
/// ports by itself, so that nobody takes it before the task does.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let at = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + at).unwrap_or(u16::MAX);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("there is no free port");
}

/// A chief, a worker and two parameter servers on such ports, for a job whose tasks are threads of a test.
#[must_use]
pub fn small_cluster() -> ClusterSpec {
    let address = || format!("127.0.0.1:{}", free());
    ClusterSpec::new()
        .job("chief", vec![address()])
        .job("worker", vec![address()])
        .job("ps", vec![address(), address()])
}
