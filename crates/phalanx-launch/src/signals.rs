//! Ctrl-C and SIGTERM at the launcher.

use phalanx_base::{Code, Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the signals that ask this process to stop.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    interrupts: Arc<AtomicU32>,
    terminations: Arc<AtomicU32>,
}

impl Signals {
    /// Handles SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn listen() -> Result<Self> {
        let signals = Self::default();
        let what = "signal handlers cannot be installed";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, what)?;
        let (mut int, mut term, mut hup) = {
            use tokio::signal::unix::{SignalKind, signal};
            let _inside = runtime.enter();
            let listen = |kind| signal(kind).context(Code::Internal, what);
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?)
        };
        let counts = signals.clone();
        let wait = move || {
            runtime.block_on(async {
                loop {
                    let ctrl_c =
                        tokio::select! { _ = int.recv() => true, _ = term.recv() => false, _ = hup.recv() => false };
                    counts.stop(ctrl_c);
                }
            });
        };
        std::thread::Builder::new().name("phalanx-signals".into()).spawn(wait).context(Code::Internal, what)?;
        Ok(signals)
    }

    /// Counts a request to stop, as Ctrl-C (`true`) or SIGTERM makes it.
    pub fn stop(&self, ctrl_c: bool) {
        let which = if ctrl_c { &self.interrupts } else { &self.terminations };
        which.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of requests so far: Ctrl-C, SIGTERM.
    #[must_use]
    pub fn received(&self) -> (u32, u32) {
        (self.interrupts.load(Ordering::Acquire), self.terminations.load(Ordering::Acquire))
    }
}
