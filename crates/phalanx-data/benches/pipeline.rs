//! What do the stages of a pipeline cost beside parsing? `cargo bench -p phalanx-data --bench pipeline`
//!
//! Rows as in a click log: a label, 13 numbers, 26 short strings. From memory, and from CSV. A word after `--` picks
//! the lines that contain it.

use phalanx_data::{Batch, Column, Dataset, Parallel, SourceExt, Strings, csv};
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

const ROWS: usize = 200_000;

fn main() {
    let memory = || Dataset::from_tensor_slices(rows());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("clicks.csv");
    write_csv(&path);
    eprintln!("M rows/s, one consumer; {ROWS} rows of 40 columns");
    let file = || csv(&path).dataset();
    for (name, make) in [("memory", &memory as &dyn Fn() -> Dataset), ("csv", &file)] {
        let rate = |label: &str, data: Dataset| {
            let picked = |word: &String| word.starts_with("--") || format!("{name} → {label}").contains(word.as_str());
            if !std::env::args().skip(1).all(|word| picked(&word)) {
                return;
            }
            let best = (0..3).map(|_| pass(&data)).fold(0.0_f64, f64::max);
            eprintln!("{name:>8} → {label:<42} {best:8.3}");
        };
        rate("batch(1024)", make().batch(1024));
        rate("shuffle(10_000) → batch(1024)", make().shuffle(10_000).batch(1024));
        rate("shuffle(10_000) → batch(32)", make().shuffle(10_000).batch(32));
        rate("shard(2, 0) → batch(1024)", make().shard((2, 0)).batch(1024));
        rate("shuffle(10_000) → batch(1024) → prefetch(2)", make().shuffle(10_000).batch(1024).prefetch(2));
        rate("map_batches(2 threads) → batch(1024)", make().map_batches(Parallel::calls(2), Ok).batch(1024));
        rate("map per row → batch(1024)", make().map(Ok).batch(1024));
    }
}

fn pass(data: &Dataset) -> f64 {
    let start = Instant::now();
    let mut rows = 0;
    for batch in data.iter().expect("it opens") {
        rows += black_box(batch.expect("it reads")).rows();
    }
    rows as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn rows() -> Batch {
    let numbers = (0..13).map(|column| {
        let values = (0..ROWS).map(|row| (row * 31 + column) as f32).collect();
        (format!("I{column}"), Column::f32(values))
    });
    let words = (0..26).map(|column| {
        let strings: Strings = (0..ROWS).map(|row| format!("{:08x}", row * 7 + column)).collect();
        (format!("C{column}"), Column::bytes(strings))
    });
    let label = [("label".to_string(), Column::i64((0..ROWS as i64).map(|row| row % 2).collect()))];
    Batch::new(label.into_iter().chain(numbers).chain(words)).expect("columns of equal length")
}

fn write_csv(path: &std::path::Path) {
    let batch = rows();
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).expect("a file"));
    let names: Vec<&str> = batch.names().iter().map(|name| &**name).collect();
    writeln!(out, "{}", names.join(",")).expect("written");
    for row in 0..ROWS {
        write!(out, "{}", row % 2).expect("written");
        (0..13).for_each(|column| write!(out, ",{}", row * 31 + column).expect("written"));
        (0..26).for_each(|column| write!(out, ",{:08x}", row * 7 + column).expect("written"));
        writeln!(out).expect("written");
    }
}
