//! How fast this machine copies memory and finds rows in it.

use phalanx_base::SplitMix;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Far more than any cache.
const COPIED: usize = 128 << 20;
/// Numbers of a row of 64 bytes.
const ROW: usize = 16;
const ROWS: usize = 16 << 20;

/// GB/s that `cores` threads copy, all together: bytes arriving, not read and written.
pub(crate) fn copy(cores: usize, time: Duration) -> f64 {
    let start = Barrier::new(cores);
    let one = || {
        let (from, mut to) = (vec![1_u8; COPIED], vec![0_u8; COPIED]);
        to.copy_from_slice(&from);
        start.wait();
        let (since, mut done) = (Instant::now(), 0);
        while since.elapsed() < time {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            done += COPIED;
        }
        done as f64 / since.elapsed().as_secs_f64() / 1e9
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}

/// Rows of 64 bytes per second that one core copies from random places of 1 GiB.
pub(crate) fn gather(time: Duration) -> f64 {
    let table = vec![1.0_f32; ROW * ROWS];
    let mut random = SplitMix::new(1);
    let places: Vec<usize> = (0..1 << 20).map(|_| random.below(ROWS)).collect();
    let mut out = vec![0.0_f32; ROW * 4096];
    let (since, mut done) = (Instant::now(), 0_usize);
    while since.elapsed() < time {
        let from = done % places.len();
        for (out, &at) in out.chunks_exact_mut(ROW).zip(&places[from..]) {
            out.copy_from_slice(&table[at * ROW..][..ROW]);
        }
        std::hint::black_box(&mut out);
        done += 4096;
    }
    done as f64 / since.elapsed().as_secs_f64()
}
