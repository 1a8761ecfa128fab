//! Follows a small file that is published again and again.

use crate::Dir;
use phalanx_base::Result;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const LIMIT_BYTES: u64 = 1 << 20;

/// Sees when the content of a file changes: the way to follow a run's `checkpoint` file.
///
/// It asks again and again, at most twice a second after a while. That works alike on disks, network file systems and
/// object stores.
///
/// ```
/// use std::time::Duration;
/// use phalanx_storage::{Dir, Watch};
///
/// let dir = Dir::in_memory();
/// let mut watch = Watch::new(&dir, "checkpoint");
/// assert_eq!(watch.changed(Duration::ZERO)?, None);
/// dir.write("checkpoint", b"one")?;
/// assert_eq!(watch.changed(Duration::ZERO)?, Some(b"one".to_vec()));
/// assert_eq!(watch.changed(Duration::ZERO)?, None);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    dir: Dir,
    name: String,
    limit: u64,
    seen: Option<Vec<u8>>,
}

impl Watch {
    /// Watches a file, which need not exist yet. What is there at the first call counts as a change.
    #[must_use]
    pub fn new(dir: &Dir, name: &str) -> Self {
        Self { dir: dir.clone(), name: name.to_owned(), limit: LIMIT_BYTES, seen: None }
    }

    /// Sets how long the file may be; 1 MiB if not set.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Waits until the content is another than what this watch has last given, and gives it. Nothing after `timeout`,
    /// though the file is looked at once in any case. A file that is removed is no change.
    ///
    /// # Errors
    /// When the file is too long or cannot be read.
    pub fn changed(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let now = self.dir.try_read(&self.name, self.limit)?;
            if now.is_some() && now != self.seen {
                self.seen.clone_from(&now);
                return Ok(now);
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
