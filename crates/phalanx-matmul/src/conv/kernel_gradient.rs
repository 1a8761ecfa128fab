//! The gradient of a kernel: for each tap, the sum over all pixels of the outputs of the products of a number of the image and
//! one of their gradient. Both are read where they stand.

use super::axis::Axis;
use super::{Conv2d, MULTIPLICATIONS};
use crate::blocks::{Shared, parts, uninit};
use crate::parallel::by_rows;
use crate::tile::{Factors, Kernel, Repeat, Sums, Tile};
use crate::{Level, add_scaled};
use std::ops::Range;

/// Numbers of images and gradients that tiles go through together: half of an L2 cache.
const BLOCK: usize = 1 << 17;
/// The units of work that are worth having, for the threads there may be.
const UNITS: usize = 16;

/// The computation of a kernel's gradient.
pub(super) struct KernelGradient<'a> {
    conv: &'a Conv2d,
    kernel: Kernel,
    x: &'a [f32],
    dy: &'a [f32],
    axes: [Axis; 2],
}

/// What a unit computes.
struct Unit {
    /// The images that are summed up.
    images: Range<usize>,
    /// The row of taps, and the taps in it.
    line: usize,
    taps: Range<usize>,
    group: usize,
    /// Filters of the group.
    columns: Range<usize>,
}

impl<'a> KernelGradient<'a> {
    pub(super) fn new(conv: &'a Conv2d, kernel: Kernel, x: &'a [f32], dy: &'a [f32]) -> Self {
        Self { conv, kernel, x, dy, axes: [conv.axis(0), conv.axis(1)] }
    }

    /// Returns the scratch that is needed: gradients of groups of images, if there are several.
    pub(super) fn scratch(conv: &'a Conv2d, kernel: Kernel) -> usize {
        let sums = Self::new(conv, kernel, &[], &[]).sums();
        if sums > 1 { conv.kernel_len().saturating_mul(sums) } else { 0 }
    }

    /// Writes the gradient.
    pub(super) fn compute(&self, level: Level, dkernel: &mut [f32], scratch: &mut [f32]) {
        let (sums, length) = (self.sums(), dkernel.len());
        let image = self.conv.image.one() + self.conv.output.one();
        if self.conv.image.batch == 0 || self.conv.output.one() == 0 {
            return dkernel.fill(0.0);
        }
        let units = self.units() * sums;
        let to = if sums > 1 { &mut scratch[..length * sums] } else { &mut *dkernel };
        to.fill(0.0);
        let out = Shared::new(uninit(to));
        let pixels = self.conv.image.batch * self.conv.output.one() / self.conv.output.channels;
        let each = pixels.saturating_mul(length) / units;
        by_rows(units, (MULTIPLICATIONS / each.max(1)).max(1), 0..units, &|units: Range<usize>| {
            let mut start = units.start;
            while start < units.end {
                let sum = start / self.units();
                let own = start..units.end.min((sum + 1) * self.units());
                // All tiles of some images, then those of the next ones, which then are in the cache.
                for images in parts(self.images_of(sum), (BLOCK / image).max(1)) {
                    for unit in own.clone() {
                        // SAFETY: units compute different numbers, and the sizes were checked.
                        unsafe { self.unit(self.at(unit, &images), out.at(sum * length)) };
                    }
                }
                start = own.end;
            }
        });
        if sums > 1 {
            let (first, others) = scratch[..length * sums].split_at(length);
            dkernel.copy_from_slice(first);
            others.chunks_exact(length).for_each(|other| add_scaled(level, 1.0, other, dkernel));
        }
    }

    /// Returns whether the taps of a row are summed up together: for few channels, which would make low tiles.
    fn joins_taps(&self) -> bool {
        self.conv.window.dilation[1] == 1 && self.conv.groups == 1 && self.conv.channels() < 8
    }

    fn tiles(&self) -> usize {
        self.conv.filters().div_ceil(self.kernel.columns())
    }

    /// Returns the number of units of one gradient.
    fn units(&self) -> usize {
        let taps = if self.joins_taps() { 1 } else { self.conv.window.size[1] };
        self.conv.window.size[0] * taps * self.conv.groups * self.tiles()
    }

    /// Returns the number of gradients that are computed and then added up: it depends on the shape alone, so that the number
    /// of threads changes no bit.
    fn sums(&self) -> usize {
        UNITS.div_ceil(self.units()).min(self.conv.image.batch).max(1)
    }

    /// Returns the images of one of the gradients that are added up.
    fn images_of(&self, sum: usize) -> Range<usize> {
        let (batch, sums) = (self.conv.image.batch, self.sums());
        sum * batch / sums..(sum + 1) * batch / sums
    }

    fn at(&self, unit: usize, images: &Range<usize>) -> Unit {
        let unit = unit % self.units();
        let (unit, tile) = (unit / self.tiles(), unit % self.tiles());
        let (tap, group) = (unit / self.conv.groups, unit % self.conv.groups);
        let start = tile * self.kernel.columns();
        let columns = start..self.conv.filters().min(start + self.kernel.columns());
        let across = self.conv.window.size[1];
        let (line, taps) =
            if self.joins_taps() { (tap, 0..across) } else { (tap / across, tap % across..tap % across + 1) };
        Unit { images: images.clone(), line, taps, group, columns }
    }

    /// Adds a unit's sums to a gradient.
    ///
    /// # Safety
    /// `out` is a gradient, initialized, of which no other thread uses what the unit computes.
    unsafe fn unit(&self, unit: Unit, out: *mut f32) {
        let rows = self.axes[0].places_of(unit.line);
        if unit.images.is_empty() || rows.is_empty() {
            return;
        }
        let channels = self.conv.channels();
        let mut tap = unit.taps.start;
        while tap < unit.taps.end {
            // Neighbouring taps that see the same pixels.
            let places = self.axes[1].places_of(tap);
            let first = tap;
            while tap < unit.taps.end && self.axes[1].places_of(tap) == places {
                tap += 1;
            }
            if places.is_empty() {
                continue;
            }
            let numbers = (tap - first) * channels;
            let height = numbers.div_ceil(numbers.div_ceil(self.kernel.rows()));
            for part in parts(0..numbers, height) {
                let factors = self.factors(&unit, first, part.start, &rows, &places);
                let at = (unit.line * self.conv.window.size[1] + first) * channels + part.start;
                let column = unit.group * self.conv.filters() + unit.columns.start;
                let width = self.conv.output.channels;
                let sums = Sums {
                    out: out.wrapping_add(at * width + column),
                    row: width,
                    add: true,
                    bias: std::ptr::null(),
                    relu: false,
                    relu_outputs: std::ptr::null(),
                };
                // SAFETY: these taps are inside the image at all these places; the caller promises the rest.
                unsafe { self.kernel.compute(&Tile { rows: part.len(), columns: unit.columns.len(), factors, sums }) };
            }
        }
    }

    /// Where the factors stand of a tile that begins at a number of a tap.
    fn factors(&self, unit: &Unit, tap: usize, number: usize, rows: &Range<usize>, places: &Range<usize>) -> Factors {
        let (image, output) = (self.conv.image, self.conv.output);
        let [y, x] = [self.axes[0].source(rows.start, unit.line), self.axes[1].source(places.start, tap)];
        let from = ((unit.images.start * image.height + y) * image.width + x) * image.channels;
        let to = ((unit.images.start * output.height + rows.start) * output.width + places.start) * output.channels;
        let column = unit.group * self.conv.filters() + unit.columns.start;
        let [down, across] = self.conv.window.stride;
        Factors {
            repeats: [
                Repeat { count: unit.images.len(), left: image.one(), right: output.one() },
                Repeat { count: rows.len(), left: down * image.row(), right: output.row() },
            ],
            steps: places.len(),
            left: self.x.as_ptr().wrapping_add(from + unit.group * self.conv.channels() + number),
            left_row: 1,
            left_step: across * image.channels,
            right: self.dy.as_ptr().wrapping_add(to + column),
            right_vector: self.kernel.lanes(),
            right_step: output.channels,
            right_padded: false,
        }
    }
}
