//! How tasks find each other and stay together. The chief keeps the list; everybody else beats.

mod chief;
mod hello;
mod member;

pub(crate) use chief::Chief;
pub(crate) use hello::{Who, check_peer};
pub(crate) use member::Member;

use std::time::{Duration, Instant};

/// When to say who is missing: within 5 s, then every 10 s.
pub(crate) struct Reminder {
    next: Instant,
}

impl Reminder {
    pub(crate) fn new() -> Self {
        Self { next: Instant::now() + Duration::from_secs(3) }
    }

    pub(crate) fn is_due(&mut self) -> bool {
        let due = Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + Duration::from_secs(10);
        }
        due
    }
}
