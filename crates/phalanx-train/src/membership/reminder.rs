//! When to say again what everybody knows.

use std::time::{Duration, Instant};

/// When to say who is missing: within 5 s, then every 10 s.
pub(super) struct Reminder {
    next: Instant,
}

impl Reminder {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() + Duration::from_secs(3) }
    }

    pub(super) fn is_due(&mut self) -> bool {
        let due = Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + Duration::from_secs(10);
        }
        due
    }
}
