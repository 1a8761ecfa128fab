//! The throughput of the census's wide-and-deep columns on one thread: `cargo bench -p phalanx-feature`
//!
//! With PHALANX_DATA_DIR it reads the census, otherwise it uses synthetic rows.

#[path = "../tests/it/common/census.rs"]
mod census;

use phalanx_data::{Batch, Column, Dataset, SourceExt};
use phalanx_feature::Transform;
use std::hint::black_box;
use std::time::Instant;

/// A typical batch size for training, and a large one.
const SIZES: [usize; 2] = [128, 1024];

const SYNTHETIC: usize = 32_768;

fn main() {
    let wide = Transform::linear_model(&census::wide()).expect("columns that fit");
    let deep = Transform::dense_features(&census::deep()).expect("columns that fit");
    for size in SIZES {
        let batches = batches(size);
        let rows: usize = batches.iter().map(Batch::rows).sum();
        eprintln!("M rows/s, one thread; {rows} rows in batches of {size}");
        for (name, plans) in [("wide", vec![&wide]), ("deep", vec![&deep]), ("wide and deep", vec![&wide, &deep])] {
            let best = (0..20).map(|_| pass(&batches, &plans)).fold(0.0_f64, f64::max);
            eprintln!("{name:>14} {best:8.3}");
        }
    }
}

fn batches(size: usize) -> Vec<Batch> {
    let data = match std::env::var_os("PHALANX_DATA_DIR") {
        Some(folder) => census::census(std::path::Path::new(&folder).join("census/adult.data")).dataset(),
        None => Dataset::from_tensor_slices(synthetic()),
    };
    data.batch(size).iter().expect("the rows").map(|batch| batch.expect("the rows")).collect()
}

/// Million rows per second, over ten passes.
fn pass(batches: &[Batch], plans: &[&Transform]) -> f64 {
    let start = Instant::now();
    let mut rows = 0;
    for _ in 0..10 {
        for batch in batches {
            for plan in plans {
                black_box(plan.apply(batch).expect("a batch that fits"));
            }
            rows += batch.rows();
        }
    }
    rows as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn synthetic() -> Batch {
    let number = |scale: usize| Column::f32((0..SYNTHETIC).map(|row| (row * 31 % scale) as f32).collect());
    let word = |words: &[&str]| Column::text((0..SYNTHETIC).map(|row| words[row * 7 % words.len()]));
    Batch::new([
        ("age", number(90)),
        ("education_num", number(16)),
        ("capital_gain", number(10_000)),
        ("capital_loss", number(4_000)),
        ("hours_per_week", number(99)),
        ("education", word(&["Bachelors", "HS-grad", "11th", "Masters", "Some-college"])),
        ("marital_status", word(&["Divorced", "Never-married", "Widowed"])),
        ("relationship", word(&["Husband", "Wife", "Own-child"])),
        ("workclass", word(&["Private", "State-gov", "?"])),
        ("occupation", word(&["Sales", "Tech-support", "Craft-repair", "Adm-clerical"])),
    ])
    .expect("columns of equal length")
}
