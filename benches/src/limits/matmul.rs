//! How fast this machine multiplies matrices with the library that models use.

use crate::model::numbers_below;
use phalanx::{Result, with_threads};
use phalanx_base::{Code, Error};
use phalanx_matmul::{Matrix, Precision, is_supported, matmul};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Products that belong together: a square one, or those of a model's step.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    /// The widths of dense layers, the input's first.
    layers: Vec<usize>,
    batch: usize,
    /// Whether the first layer's inputs have a gradient.
    first_input: bool,
    /// Only forward.
    forward: bool,
}

impl Shapes {
    pub(crate) fn square(size: usize) -> Self {
        Self { layers: vec![size, size], batch: size, first_input: false, forward: true }
    }

    /// Forward, gradient of the weights, gradient of the inputs of every layer.
    pub(crate) fn step(layers: &[usize], batch: usize, first_input: bool) -> Self {
        Self { layers: layers.to_vec(), batch, first_input, forward: false }
    }

    fn work(&self) -> impl Fn() {
        let mut below = numbers_below(1);
        let mut random = |count: usize| -> Vec<f32> { (0..count).map(|_| below(1000) as f32 / 500.0 - 1.0).collect() };
        let batch = self.batch;
        let layer = |pair: &[usize]| {
            let [from, to] = [pair[0], pair[1]];
            (from, to, [random(batch * from), random(from * to), random(batch * to)])
        };
        let layers: Vec<_> = self.layers.windows(2).map(layer).collect();
        let (first, forward) = (self.first_input, self.forward);
        move || {
            for (number, (from, to, [input, weight, gradient])) in layers.iter().enumerate() {
                let input = Matrix::new(input, batch, *from);
                let weight = Matrix::new(weight, *from, *to);
                let gradient = Matrix::new(gradient, batch, *to);
                let compute = |a, b| std::hint::black_box(matmul(a, b, Precision::F32, None));
                compute(input, weight);
                if forward {
                    continue;
                }
                compute(input.transposed(), gradient);
                if number > 0 || first {
                    compute(gradient, weight.transposed());
                }
            }
        }
    }

    /// Times per second that `cores` threads, each for itself, do this, all together.
    pub(crate) fn rate(&self, cores: usize, time: Duration) -> Result<f64> {
        if !is_supported(Precision::F32) {
            return Err(Error::new(Code::BadSetting, "this processor has no AVX-512").help("measure on one that has"));
        }
        let start = Barrier::new(cores);
        let one = || {
            with_threads(1, || {
                let work = self.work();
                work();
                start.wait();
                let (since, mut done) = (Instant::now(), 0_u64);
                while done < 2 || since.elapsed() < time {
                    work();
                    done += 1;
                }
                Ok(done as f64 / since.elapsed().as_secs_f64())
            })
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|_| scope.spawn(one)).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Error::new(Code::Internal, "a matrix product panicked")))
            });
            joined.sum()
        })
    }
}

/// Returns the best GFLOP/s of square matmuls on this number of cores, and their size.
pub(crate) fn best(cores: usize, time: Duration) -> Result<(f64, usize)> {
    let mut best = (0.0, 0);
    for size in [512_usize, 1024, 2048] {
        let rate = Shapes::square(size).rate(cores, time)? * 2.0 * (size as f64).powi(3) / 1e9;
        if rate > best.0 {
            best = (rate, size);
        }
    }
    Ok(best)
}
