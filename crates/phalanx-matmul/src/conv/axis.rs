//! One axis of a convolution: which numbers of the source each place of the output multiplies.

use std::ops::Range;

/// Place `t` of the output multiplies, for tap `i`, number `t * stride + i * dilation + offset` of the source, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// The places of the output.
    pub(super) places: usize,
    /// The first place in the target, and the distance between two of them.
    pub(super) first: usize,
    pub(super) apart: usize,
    pub(super) taps: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) offset: isize,
    /// The numbers of the source.
    pub(super) length: usize,
}

impl Axis {
    /// Returns the taps that are inside the source at a place.
    fn inside(&self, place: usize) -> Range<usize> {
        let start = (place * self.stride) as isize + self.offset;
        let dilation = self.dilation as isize;
        let first = if start < 0 { (-start + dilation - 1) / dilation } else { 0 } as usize;
        let end =
            if start < self.length as isize { (self.length as isize - 1 - start) / dilation + 1 } else { 0 } as usize;
        let end = end.min(self.taps);
        first.min(end)..end
    }

    /// Returns the place in the source of a tap that is inside it.
    pub(super) fn source(&self, place: usize, tap: usize) -> usize {
        ((place * self.stride + tap * self.dilation) as isize + self.offset) as usize
    }

    /// Iterates over ranges of places that have the same taps inside the source: the border, the middle, the border.
    pub(super) fn classes(self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + Clone {
        let mut start = 0;
        std::iter::from_fn(move || {
            let first = start;
            let taps = (first < self.places).then(|| self.inside(first))?;
            start += 1;
            while start < self.places && self.inside(start) == taps {
                start += 1;
            }
            Some((first..start, taps))
        })
    }

    /// Returns the places at which a tap is inside the source.
    pub(super) fn places_of(&self, tap: usize) -> Range<usize> {
        let start = (tap * self.dilation) as isize + self.offset;
        let stride = self.stride as isize;
        let first = if start < 0 { (-start + stride - 1) / stride } else { 0 } as usize;
        let end =
            if start < self.length as isize { (self.length as isize - 1 - start) / stride + 1 } else { 0 } as usize;
        let end = end.min(self.places);
        first.min(end)..end
    }
}

/// The places of the inputs of a convolution whose gradients multiply the same taps: every `stride`th one. As a convolution
/// of the gradient of the outputs, with the taps in reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) axis: Axis,
    /// Tap `i` of the axis is tap `last - i * apart` of the kernel.
    last: usize,
    apart: usize,
}

impl Phase {
    /// Returns phase `phase` of a forward axis whose output has `places` places.
    pub(super) fn new(forward: Axis, phase: usize) -> Self {
        // Input p = t * stride + phase gets tap k from output (p - k * dilation - offset) / stride, if that is whole.
        let (stride, dilation) = (forward.stride as isize, forward.dilation as isize);
        let whole = |tap: usize| (phase as isize - tap as isize * dilation - forward.offset) % stride == 0;
        let first = (0..forward.taps).find(|&tap| whole(tap));
        let apart = forward.stride / greatest_common_divisor(forward.stride, forward.dilation);
        let taps = first.map_or(0, |first| (forward.taps - 1 - first) / apart + 1);
        let last = first.map_or(0, |first| first + taps.saturating_sub(1) * apart);
        let axis = Axis {
            places: forward.length.saturating_sub(phase).div_ceil(forward.stride),
            first: phase,
            apart: forward.stride,
            taps,
            stride: 1,
            dilation: apart * forward.dilation / forward.stride,
            offset: (phase as isize - last as isize * dilation - forward.offset) / stride,
            length: forward.places,
        };
        Self { axis, last, apart }
    }

    /// Returns the tap of the kernel that is tap `i` of the axis.
    pub(super) fn tap(&self, i: usize) -> usize {
        self.last - i * self.apart
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
