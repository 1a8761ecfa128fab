//! Access to run directories on a local path or in an object store.
//!
//! Read [`Dir`] first. A file becomes visible completely or not at all: it is written under a temporary name
//! ([`StagedFile`]), made durable, then published under its real name. Readers and watchers need no lock.
//!
//! All calls block, and may be made from any thread, those of an asynchronous runtime included. Object stores are
//! built in with the features `s3`, `gs` and `az`; without them this crate is plain file access.
//!
//! ```
//! use phalanx_storage::Dir;
//! let dir = Dir::in_memory();
//! dir.write("checkpoint", b"model_checkpoint_path: \"model.ckpt-1\"\n")?;
//! assert_eq!(dir.list("")?[0].name, "checkpoint");
//! # Ok::<(), phalanx_base::Error>(())
//! ```

mod append;
mod dir;
mod fault;
mod glob;
mod local;
mod location;
mod lock;
mod memory;
mod name;
#[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
mod object;
mod pattern;
mod read;
mod roll;
mod stage;
mod store;
#[cfg(test)]
mod tests;
mod watch;

pub use append::AppendFile;
pub use dir::Dir;
pub use fault::cause;
pub use glob::glob;
pub use lock::{DirLock, Locked};
pub use read::ReadFile;
pub use roll::Roll;
pub use stage::{Staged, StagedFile};
pub use store::Entry;
pub use watch::Watch;
