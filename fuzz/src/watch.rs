//! Ends the process when an input keeps a parser busy for good, and saves that input first.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is running, and since when.
#[derive(Default)]
struct Running {
    parser: &'static str,
    input: Vec<u8>,
    since: Option<Instant>,
}

/// A thread that looks at the clock.
pub(crate) struct Watch(Arc<Mutex<Running>>);

impl Watch {
    /// Ends the process when an input takes ten times the limit.
    pub(crate) fn start(findings: PathBuf, limit_ms: u64) -> Self {
        let running = Arc::new(Mutex::new(Running::default()));
        let (seen, limit) = (Arc::clone(&running), Duration::from_millis(limit_ms.saturating_mul(10)));
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let running = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if running.since.is_some_and(|since| since.elapsed() > limit) {
                    let path = findings.join(format!("finding-{}-endless.bin", running.parser));
                    let saved = std::fs::write(&path, &running.input);
                    eprintln!("{}: endless; input at {} ({saved:?})", running.parser, path.display());
                    std::process::exit(1);
                }
            }
        });
        Self(running)
    }

    pub(crate) fn begin(&self, parser: &'static str, input: &[u8]) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.parser = parser;
        running.input.clear();
        running.input.extend_from_slice(input);
        running.since = Some(Instant::now());
    }

    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).since = None;
    }
}
