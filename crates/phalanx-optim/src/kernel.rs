//! The update of one element, and the loop that runs it over slices.
//!
//! Hot: no allocation, no branch per element that depends on settings, no `mul_add` (fused results would differ from
//! TensorFlow's in the last digits, and between machines).

use std::sync::atomic::{Ordering, compiler_fence};

/// One rule's arithmetic for one element with `N` slots. Scalars that depend on the step are inside already.
pub(crate) trait Kernel<const N: usize>: Copy {
    /// Returns the new value; `slots` are updated in place.
    fn element(self, value: f32, slots: &mut [f32; N], grad: f32) -> f32;
}

/// Runs `kernel` over values, their slots and a gradient, all of the same length.
///
/// The caller has checked the lengths. `LANES` elements are loaded, computed and stored
/// together: by value, so the compiler needs no proof that the parts do not overlap, and short rows (an embedding of
/// 8 or 16) take the vector path too, which a loop unrolled by the compiler would leave to its scalar tail.
#[inline(always)]
pub(crate) fn run<const LANES: usize, const N: usize, K: Kernel<N>>(
    kernel: K,
    values: &mut [f32],
    slots: [&mut [f32]; N],
    grad: &[f32],
) {
    debug_assert!(values.len() == grad.len() && slots.iter().all(|slot| slot.len() == grad.len()));
    let (values, value_tail) = values.as_chunks_mut::<LANES>();
    let mut slots = slots.map(|slot| slot.as_chunks_mut::<LANES>());
    let (grads, grad_tail) = grad.as_chunks::<LANES>();

    for (at, (value, grad)) in values.iter_mut().zip(grads).enumerate() {
        let mut new = *value;
        let mut held: [[f32; LANES]; N] = std::array::from_fn(|slot| slots[slot].0[at]);
        for lane in 0..LANES {
            let mut element = std::array::from_fn(|slot| held[slot][lane]);
            new[lane] = kernel.element(new[lane], &mut element, grad[lane]);
            held.iter_mut().zip(element).for_each(|(held, new)| held[lane] = new);
        }
        *value = new;
        slots.iter_mut().zip(held).for_each(|(slot, held)| slot.0[at] = held);
        // No instruction, but a wall for the optimizer: without it LLVM vectorizes this outer loop as well, and for
        // some rules that is ten times the code, all shuffles, and slower (momentum in runs of 4 KiB: 4.2 instead of
        // 6.1 G elements/s; plain SGD on the baseline: 3.1 instead of 11.8).
        compiler_fence(Ordering::SeqCst);
    }
    for (at, (value, &grad)) in value_tail.iter_mut().zip(grad_tail).enumerate() {
        let mut element = std::array::from_fn(|slot| slots[slot].1[at]);
        *value = kernel.element(*value, &mut element, grad);
        slots.iter_mut().zip(element).for_each(|(slot, new)| slot.1[at] = new);
    }
}
