//! Ctrl-C and SIGTERM at the launcher.

use phalanx_base::{Code, Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often somebody asked this process to stop, and how. A value, so that a test can ask too.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    interrupts: Arc<AtomicU32>,
    terminations: Arc<AtomicU32>,
}

impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// When the operating system gives us no signals.
    pub fn listen() -> Result<Self> {
        let signals = Self::default();
        let wrong = "signals cannot be listened to";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, wrong)?;
        let (mut int, mut term, mut hup) = {
            use tokio::signal::unix::{SignalKind, signal};
            let _inside = runtime.enter();
            let listen = |kind| signal(kind).context(Code::Internal, wrong);
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?)
        };
        let seen = signals.clone();
        let wait = move || {
            runtime.block_on(async {
                loop {
                    let ctrl_c =
                        tokio::select! { _ = int.recv() => true, _ = term.recv() => false, _ = hup.recv() => false };
                    seen.ask(ctrl_c);
                }
            });
        };
        std::thread::Builder::new().name("phalanx-signals".into()).spawn(wait).context(Code::Internal, wrong)?;
        Ok(signals)
    }

    /// Asks for the end, as Ctrl-C (`true`) or SIGTERM does.
    pub fn ask(&self, ctrl_c: bool) {
        let which = if ctrl_c { &self.interrupts } else { &self.terminations };
        which.fetch_add(1, Ordering::AcqRel);
    }

    /// How often so far: Ctrl-C, SIGTERM.
    #[must_use]
    pub fn seen(&self) -> (u32, u32) {
        (self.interrupts.load(Ordering::Acquire), self.terminations.load(Ordering::Acquire))
    }
}
