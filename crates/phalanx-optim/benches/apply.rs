//! How fast is an update when its buffer is in the cache? `cargo bench -p phalanx-optim`
//!
//! A server applies chunks of variables (64 Ki elements here) in runs of 4 KiB, and single rows of tables.

use std::hint::black_box;
use std::time::Instant;

use phalanx_optim::{Adagrad, Adam, AdamW, Ftrl, Optimizer, RmsProp, Rule, Sgd};

const CHUNK: usize = 64 * 1024;
/// The elements of one 4 KiB run.
const RUN: usize = 1024;

fn main() {
    let rules: [(&str, Optimizer); 9] = [
        ("sgd", Sgd::new(0.01).into()),
        ("sgd, momentum", Sgd::new(0.01).momentum(0.9).into()),
        ("adagrad", Adagrad::new(0.01).into()),
        ("rmsprop", RmsProp::new(0.01).into()),
        ("rmsprop, centered, momentum", RmsProp::new(0.01).momentum(0.9).centered(true).into()),
        ("adam", Adam::new(0.01).into()),
        ("adamw", AdamW::new(0.01).into()),
        ("ftrl", Ftrl::new(0.01).l1(0.01).into()),
        ("ftrl, power -0.6", Ftrl::new(0.01).learning_rate_power(-0.6).into()),
    ];
    eprintln!(
        "G elements/s: {:<21} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7}",
        "", "chunk", "runs", "row 8", "row 16", "row 64", "row 13"
    );
    for (name, optimizer) in rules {
        let rule = optimizer.at_step(10);
        let parts = 1 + optimizer.slot_count();
        let grad: Vec<f32> = (0..CHUNK).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut buffer = vec![0.5; CHUNK * parts];
        let whole = rate(|| rule.apply(&mut buffer, &grad).unwrap());
        let runs = rate(|| {
            for (i, grad) in grad.chunks(RUN).enumerate() {
                rule.apply_range(&mut buffer, i * RUN, grad).unwrap();
            }
        });
        let rows = [8, 16, 64, 13].map(|dim| rate(|| by_rows(rule, &mut buffer, &grad, dim)));
        eprintln!(
            "{name:<35} {whole:>6.2} {runs:>6.2} {:>7.2} {:>7.2} {:>7.2} {:>7.2}",
            rows[0], rows[1], rows[2], rows[3]
        );
    }
}

fn by_rows(rule: Rule, buffer: &mut [f32], grad: &[f32], dim: usize) {
    let parts = 1 + rule.slot_count();
    for (row, grad) in buffer.chunks_exact_mut(dim * parts).zip(grad.chunks_exact(dim)) {
        rule.apply(row, grad).unwrap();
    }
}

/// Billions of elements per second: the best of several tries, since anything else on the machine only slows it.
fn rate(mut update_chunk: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..50 {
        let start = Instant::now();
        for _ in 0..10 {
            black_box(&mut update_chunk)();
        }
        best = best.min(start.elapsed().as_secs_f64() / 10.0);
    }
    CHUNK as f64 / best / 1e9
}
