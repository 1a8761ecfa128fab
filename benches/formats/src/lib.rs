//! Speed of the file formats beside TensorFlow's, alternately in one run: writing and reading a checkpoint, and parsing
//! records of Examples on one thread.
//!
//! ```text
//! cargo run --release -p phalanx-bench-formats -- --python PATH_OF_AN_INTERPRETER_WITH_TENSORFLOW
//! ```
//!
//! What makes it fair: both sides write the same numbers and read the same files; the files are in the page cache, and
//! nothing waits to be written back, before every measurement; neither waits for the disk, except where `fsync` is in
//! the name; each side frees a tensor before it reads the next.

#![allow(clippy::print_stdout)]

mod checkpoint;
mod examples;
mod files;
mod peer;
mod report;

use phalanx_base::{Code, Context, Error, Result};
use std::path::PathBuf;

/// What to measure, and beside whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A Python interpreter with TensorFlow; without it only ours is measured
    #[arg(long)]
    python: Option<PathBuf>,
    /// Where to write; a folder of its own under the system's temporary one unless said otherwise
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many tensors the checkpoint has
    #[arg(long, default_value_t = 64)]
    tensors: usize,
    /// How large each is
    #[arg(long, default_value_t = 16)]
    tensor_mib: usize,
    /// How many records the record file has
    #[arg(long, default_value_t = 200_000)]
    records: usize,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Measures everything and prints it.
///
/// # Errors
/// When a setting is not valid, a file cannot be written or read, or the interpreter has no TensorFlow.
pub fn run(args: &Args) -> Result<()> {
    if args.rounds == 0 || args.tensors == 0 || args.tensor_mib == 0 || args.records == 0 {
        return Err(Error::new(Code::BadSetting, "nothing is measured: a number of the command line is 0"));
    }
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = tempfile::tempdir_in(&parent)
        .context(Code::StorageWrite, "the files to measure cannot be written")
        .map_err(|error| error.at(parent.display().to_string()))?;
    let mut report = report::Report::new(args);
    checkpoint::measure(args, dir.path(), &mut report)?;
    examples::measure(args, dir.path(), &mut report)?;
    print!("{}", if args.json { report.json() } else { report.text() });
    Ok(())
}
