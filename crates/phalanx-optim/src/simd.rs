//! The choice of vector instructions. The same Rust code is compiled twice, for every x86-64 and for those with AVX2 (all
//! since 2013); results are bit for bit the same, because nothing is fused or reordered.
//!
//! Measured on one Zen 4 core, Adagrad on a chunk of 64 Ki elements: baseline 1.8 G elements/s, AVX2 3.3. AVX-512 was
//! tried and dropped: 3.4 on chunks, but 0.4 instead of 1.6 on rows of 8, which its 16 lanes leave to the scalar tail.

use crate::kernel::{Kernel, run};

/// How many elements are computed together: one AVX2 register, two of the baseline's.
const LANES: usize = 8;

/// The instructions to use. Only [`detect`](Level::detect) returns one above the baseline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level(Instructions);

#[derive(Clone, Copy, Debug)]
enum Instructions {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Level {
    /// Returns the best level of this CPU. Cheap: the standard library detects features once per process.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Self(Instructions::Avx2);
        }
        Self(Instructions::Baseline)
    }

    /// Runs `kernel`; see [`run`].
    #[allow(unsafe_code)]
    #[inline]
    pub(crate) fn run<const N: usize, K: Kernel<N>>(
        self,
        kernel: K,
        values: &mut [f32],
        slots: [&mut [f32]; N],
        grad: &[f32],
    ) {
        match self.0 {
            Instructions::Baseline => run::<LANES, N, K>(kernel, values, slots, grad),
            // SAFETY: `avx2` is unsafe to call only on a processor without AVX2, and `detect`, which alone makes this
            // variant, has found that this one has it.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2(kernel, values, slots, grad) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const N: usize, K: Kernel<N>>(kernel: K, values: &mut [f32], slots: [&mut [f32]; N], grad: &[f32]) {
    run::<LANES, N, K>(kernel, values, slots, grad);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not a real rule: one operation of each kind the rules use.
    #[derive(Clone, Copy)]
    struct Everything;

    impl Kernel<3> for Everything {
        #[inline(always)]
        fn element(self, value: f32, [a, b, c]: &mut [f32; 3], grad: f32) -> f32 {
            *a += grad * grad;
            *b = b.max(*a) - *c * 0.3;
            *c = (grad * 0.7) / (a.sqrt() + 1e-7);
            if c.abs() > 0.1 { value - *c } else { value + *b * grad * 0.1 }
        }
    }

    fn quarters(buffer: &mut [f32]) -> [&mut [f32]; 4] {
        let mut parts = buffer.chunks_exact_mut((buffer.len() / 4).max(1));
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }

    #[test]
    fn every_level_computes_the_same_bits() {
        for len in [0, 1, 7, 8, 9, 15, 16, 17, 31, 64, 1000] {
            let grad: Vec<f32> = (0..len).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
            let start: Vec<f32> = (0..len * 4).map(|i| (i as f32 * 0.9).cos().abs()).collect();
            let [mut plain, mut best, mut scalar] = [start.clone(), start.clone(), start];
            for _ in 0..5 {
                let [value, slots @ ..] = quarters(&mut plain);
                Level(Instructions::Baseline).run(Everything, value, slots, &grad);
                let [value, slots @ ..] = quarters(&mut best);
                Level::detect().run(Everything, value, slots, &grad);
                let [value, slots @ ..] = quarters(&mut scalar);
                run::<1, 3, _>(Everything, value, slots, &grad);
            }
            assert_eq!(plain, scalar, "{len} elements in lanes and one by one");
            assert_eq!(plain, best, "{len} elements on {:?}", Level::detect());
        }
    }
}
