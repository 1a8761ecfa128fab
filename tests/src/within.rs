//! Waiting, with a deadline.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Runs `work` on a thread of its own and panics, with `what`, when it takes longer than `deadline`.
///
/// # Panics
/// When `work` does, or does not end in time.
pub fn within<T: Send + 'static>(deadline: Duration, what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = work();
        // Nobody listens any more if the deadline has passed.
        let _ = done.send(());
        result
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(deadline) {
        panic!("{what}: not done after {deadline:?}");
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Asks `check` every 2 ms until it returns something, and returns that.
///
/// # Panics
/// With `what`, when it does not come in time.
pub fn wait_until<T>(deadline: Duration, what: impl Fn() -> String, mut check: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + deadline;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < until, "{} after {deadline:?}", what());
        std::thread::sleep(Duration::from_millis(2));
    }
}
