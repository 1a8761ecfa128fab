//! A deadline around anything.

use std::sync::mpsc;
use std::time::Duration;

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
