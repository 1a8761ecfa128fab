//! Speed of the input pipelines beside tf.data and pyarrow, alternately in one run on one core: the census CSV fifty
//! times over, a TFRecord file of 13 + 26 features, a Parquet file of the same columns, all to batches of 1,024.
//!
//! ```text
//! taskset -c 0 cargo run --release -p phalanx-bench-data -- --data-dir FOLDER_WITH_CENSUS \
//!     --python INTERPRETER_WITH_TENSORFLOW --pyarrow-python INTERPRETER_WITH_PYARROW
//! ```
//!
//! Started without `taskset` on a machine with several cores, it also says what a second core brings.
//!
//! What makes it fair: all read the same files from the page cache into batches of named columns; where a peer has two
//! ways, both are measured and the better one counts; every child inherits the one core. Seconds are the processor's, as the
//! process sees them: on a quiet core they are those of the clock, and on a busy one they still mean the same.

#![allow(clippy::print_stdout)]

mod files;
mod ours;
mod peer;
mod report;
mod scaling;

use phalanx_base::{Code, Context, Error, Result};
use std::path::PathBuf;

/// Rows of a batch.
const BATCH: usize = 1024;

/// What to measure, and beside whom.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The folder that has `census/adult.data`; without it no CSV is measured
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// A Python interpreter with TensorFlow; without it only ours is measured
    #[arg(long)]
    python: Option<PathBuf>,
    /// A Python interpreter with pyarrow; the one with TensorFlow unless said otherwise
    #[arg(long)]
    pyarrow_python: Option<PathBuf>,
    /// How often each is measured; the best counts, for both sides
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many times the census follows itself
    #[arg(long, default_value_t = 50)]
    copies: usize,
    /// How many records the TFRecord file has
    #[arg(long, default_value_t = 200_000)]
    records: u64,
    /// How many rows the Parquet file has
    #[arg(long, default_value_t = 1_000_000)]
    parquet_rows: u64,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Measures everything and prints it.
///
/// # Errors
/// When a setting is not valid, a file cannot be written or read, or an interpreter lacks what it should have.
pub fn run(args: &Args) -> Result<()> {
    if args.rounds == 0 || args.copies == 0 || args.records == 0 || args.parquet_rows == 0 {
        return Err(Error::new(Code::BadSetting, "nothing is measured: a number of the command line is 0"));
    }
    let dir = tempfile::tempdir().context(Code::StorageWrite, "the files to measure cannot be written")?;
    let mut report = report::Report::new();
    let pyarrow = args.pyarrow_python.as_ref().or(args.python.as_ref());

    match &args.data_dir {
        Some(data) => {
            let file = files::census(data, args.copies, dir.path())?;
            let peers = peer::Peer::start_all(args.python.as_ref(), &["csv_make", "csv_lines"], &file)?;
            report.measure("census CSV", args.rounds, || ours::csv_rows(&file), peers)?;
        }
        None => println!("skipped: census CSV needs data (--data-dir)"),
    }
    let file = files::records(args.records, dir.path())?;
    let peers = peer::Peer::start_all(args.python.as_ref(), &["tfrecord"], &file)?;
    report.measure("TFRecord of 40 features", args.rounds, || ours::record_rows(&file), peers)?;

    if !args.json && std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        scaling::measure(&file, args.rounds)?;
    }
    let file = files::parquet(args.parquet_rows, dir.path())?;
    let peers = peer::Peer::start_all(pyarrow, &["parquet_batches", "parquet_table"], &file)?;
    report.measure("Parquet of 40 columns", args.rounds, || ours::parquet_rows(&file), peers)?;

    report.measure("click log, made on the spot", args.rounds, ours::click_rows, Vec::new())?;
    report.print(args.json);
    Ok(())
}
