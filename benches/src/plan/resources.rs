//! What tasks share: cores, threads, wires.

use std::collections::VecDeque;

/// Something to be computed: a worker's step, or a server's share of one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Step(usize),
    Serve { worker: usize, server: usize },
}

/// Cores, and who waits for one.
pub(super) struct Host {
    pub(super) free: usize,
    pub(super) waiting: VecDeque<Work>,
    pub(super) busy: f64,
}

/// Threads of a server, and whose messages wait for one.
pub(super) struct Threads {
    pub(super) free: usize,
    pub(super) waiting: VecDeque<usize>,
    pub(super) busy: f64,
}

/// One direction of a machine's network: a message at a time.
#[derive(Clone, Copy, Default)]
pub(super) struct Wire {
    pub(super) free_at: f64,
    pub(super) busy: f64,
}

impl Wire {
    /// When a message that is ready now begins to move.
    pub(super) fn take(&mut self, now: f64, time: f64) -> f64 {
        let start = now.max(self.free_at);
        self.free_at = start + time;
        self.busy += time;
        start
    }
}
