//! What a second core brings: the same work with one thread and with two, by the clock.

use crate::{BATCH, ours};
use phalanx_base::Result;
use phalanx_data::{Batch, Column, Dataset, Interleave, Parallel};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Prints how much faster two threads are than one, for a map of some weight and for files read by turns.
pub(crate) fn measure(records: &Path, rounds: usize) -> Result<()> {
    let map = |threads: usize| {
        let numbers = Dataset::range(0, 1_000_000, 1).batch(BATCH);
        ours::count(&numbers.map_batches(Parallel::calls(threads), heavy))
    };
    println!("map_batches, 2 threads beside 1        {:.2} times", ratio(rounds, map)?);
    let file = PathBuf::from(records);
    let interleave = |threads: usize| {
        let file = file.clone();
        // Threads beside the one that takes the batches; with none, that one reads.
        let ahead = if threads == 1 { 0 } else { threads };
        let turns = Interleave { cycle_length: 2, block_length: 1, num_parallel_calls: ahead, batched: true };
        // Each of four elements stands for a file.
        let files = Dataset::range(0, 4, 1).interleave(move |_| Ok(ours::records(&file)), turns);
        ours::count(&files)
    };
    println!("interleave of files, 2 threads beside 1 {:.2} times", ratio(rounds, interleave)?);
    Ok(())
}

/// About a millisecond of arithmetic on a batch.
fn heavy(batch: Batch) -> Result<Batch> {
    let sums: Vec<f32> = batch
        .i64("value")?
        .iter()
        .map(|&number| (0..400).fold(number as f32, |sum, i| (sum + i as f32).sqrt() * 1.5))
        .collect();
    batch.with_column("sum", Column::f32(sums))
}

/// The best time with one thread over the best with two, measured alternately.
fn ratio(rounds: usize, work: impl Fn(usize) -> Result<usize>) -> Result<f64> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..rounds {
        for (threads, best) in (1..).zip(&mut best) {
            let started = Instant::now();
            work(threads)?;
            *best = best.min(started.elapsed().as_secs_f64());
        }
    }
    Ok(best[0] / best[1])
}
