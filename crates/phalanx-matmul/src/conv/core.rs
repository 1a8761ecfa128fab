//! Convolution by tiles that read pixels where they stand. A tile has neighbouring pixels of the output; for each row of taps
//! the numbers that a pixel multiplies are contiguous, so nothing is copied.

use super::axis::Axis;
use crate::blocks::{Shared, parts};
use crate::pack::{LANES, Line};
use crate::tile::{Factors, Kernel, Repeat, Sums, Tile};
use crate::{Activation, Image, Level, activation};
use std::mem::MaybeUninit;
use std::ops::Range;

/// A convolution of `source`, with packed taps, into `target`.
pub(super) struct Core<'a> {
    pub(super) level: Level,
    pub(super) kernel: Kernel,
    pub(super) source: &'a [f32],
    pub(super) source_image: Image,
    pub(super) target: Shared,
    pub(super) target_image: Image,
    pub(super) groups: usize,
    /// Height and width.
    pub(super) axes: [Axis; 2],
    /// For each group, panels of [`LANES`] channels of the target, with a line for each channel of each tap: all written.
    pub(super) taps: &'a [MaybeUninit<Line>],
    pub(super) bias: Option<&'a [f32]>,
    pub(super) activation: Activation,
}

/// The channels of the target that a tile computes.
#[derive(Clone, Copy)]
struct Columns {
    /// Where their group begins among the channels of the source.
    source: usize,
    /// Their first channel in the target.
    target: usize,
    count: usize,
    /// Where their taps begin.
    taps: *const f32,
}

impl Core<'_> {
    /// Returns the number of units of work: for each image, tiles of channels.
    pub(super) fn units(&self) -> usize {
        self.source_image.batch * self.groups * self.tiles()
    }

    /// Tiles of channels of each group.
    fn tiles(&self) -> usize {
        (self.target_image.channels / self.groups).div_ceil(self.kernel.columns())
    }

    /// The channels of the source in a group.
    fn channels(&self) -> usize {
        self.source_image.channels / self.groups
    }

    /// The lines of a panel.
    fn lines(&self) -> usize {
        self.axes[0].taps * self.axes[1].taps * self.channels()
    }

    /// Computes some units.
    ///
    /// # Safety
    /// The units exist, `source`, `target` and `taps` have the sizes that the shapes tell, and no other thread uses the part
    /// of the target that these units compute.
    pub(super) unsafe fn compute(&self, units: Range<usize>) {
        let tiles = self.tiles();
        for unit in units {
            let (image, group, tile) = (unit / (self.groups * tiles), unit / tiles % self.groups, unit % tiles);
            let columns = self.columns(group, tile);
            let [rows, lines] = self.axes.map(Axis::classes);
            for (down, taps_down) in rows {
                for (across, taps_across) in lines.clone() {
                    // SAFETY: the places exist, and these taps are inside the source at all of them; the caller promises
                    // the rest.
                    unsafe { self.rectangle(image, columns, [&down, &across], [&taps_down, &taps_across]) };
                }
            }
        }
    }

    fn columns(&self, group: usize, tile: usize) -> Columns {
        let filters = self.target_image.channels / self.groups;
        let start = tile * self.kernel.columns();
        let panel = group * filters.div_ceil(LANES) + start / LANES;
        Columns {
            source: group * self.channels(),
            target: group * filters + start,
            count: self.kernel.columns().min(filters - start),
            taps: self.taps.as_ptr().wrapping_add(panel * self.lines()).cast::<f32>().wrapping_add(start % LANES),
        }
    }

    /// Computes the places of a rectangle, all with the same taps, by tiles along its longer side.
    ///
    /// # Safety
    /// As for [`Self::compute`]; the places exist and the taps are inside the source at all of them.
    unsafe fn rectangle(&self, image: usize, columns: Columns, places: [&Range<usize>; 2], taps: [&Range<usize>; 2]) {
        let along = usize::from(places[1].len() >= places[0].len().min(self.kernel.rows()));
        let across = 1 - along;
        let height = places[along].len().div_ceil(places[along].len().div_ceil(self.kernel.rows()));
        for other in places[across].clone() {
            for rows in parts(places[along].clone(), height) {
                let at = if along == 1 { [other, rows.start] } else { [rows.start, other] };
                let factors = self.factors(image, columns, at, along, taps);
                let sums = self.sums(image, columns, at, along);
                let tile = Tile { rows: rows.len(), columns: columns.count, factors, sums };
                // SAFETY: the caller promises that these pixels of source and target exist, and that the latter are ours.
                unsafe {
                    self.kernel.compute(&tile);
                    self.activate(&tile);
                }
            }
        }
    }

    /// Where the factors of a tile stand that begins at place `at` and has its rows along an axis.
    fn factors(
        &self,
        image: usize,
        columns: Columns,
        at: [usize; 2],
        along: usize,
        [down, across]: [&Range<usize>; 2],
    ) -> Factors {
        let (source, channels) = (self.source_image, self.channels());
        let is_empty = down.is_empty() || across.is_empty();
        // Without taps there is no such pixel, and none is read.
        let [y, x] = match is_empty {
            false => [self.axes[0].source(at[0], down.start), self.axes[1].source(at[1], across.start)],
            true => [0, 0],
        };
        let from = ((image * source.height + y) * source.width + x) * source.channels + columns.source;
        let tap = (down.start * self.axes[1].taps + across.start) * channels * LANES;
        // Between two rows of the tile, of pixels of the source, and of taps.
        let row = [source.row(), source.channels][along] * self.axes[along].stride;
        let [line, pixel] = [source.row() * self.axes[0].dilation, source.channels * self.axes[1].dilation];
        let [tap_line, tap_pixel] = [self.axes[1].taps * channels * LANES, channels * LANES];
        let outer = Repeat { count: down.len(), left: line, right: tap_line };
        let inner = Repeat { count: across.len(), left: pixel, right: tap_pixel };
        // Neighbouring pixels are contiguous, and so are their taps.
        let (inner, steps) =
            if pixel == channels { (Repeat::ONCE, across.len() * channels) } else { (inner, channels) };
        Factors {
            repeats: [outer, inner],
            steps: if is_empty { 0 } else { steps },
            left: self.source.as_ptr().wrapping_add(from),
            left_row: row,
            left_step: 1,
            right: columns.taps.wrapping_add(tap),
            right_vector: if self.kernel.lanes() == LANES { self.lines() * LANES } else { self.kernel.lanes() },
            right_step: LANES,
            right_padded: true,
        }
    }

    /// Where the sums of a tile go.
    fn sums(&self, image: usize, columns: Columns, at: [usize; 2], along: usize) -> Sums {
        let target = self.target_image;
        let [y, x] = [0, 1].map(|axis| self.axes[axis].first + at[axis] * self.axes[axis].apart);
        let place = ((image * target.height + y) * target.width + x) * target.channels + columns.target;
        Sums {
            out: self.target.at(place),
            row: [target.row(), target.channels][along] * self.axes[along].apart,
            add: false,
            bias: self.bias.map_or(std::ptr::null(), |bias| bias[columns.target..].as_ptr()),
            relu: self.activation == Activation::Relu,
            relu_outputs: std::ptr::null(),
        }
    }

    /// Applies an activation that is not fused with the tile.
    ///
    /// # Safety
    /// The tile was computed, and no other thread uses its sums.
    unsafe fn activate(&self, tile: &Tile) {
        if matches!(self.activation, Activation::Linear | Activation::Relu) {
            return;
        }
        for row in 0..tile.rows {
            // SAFETY: the caller promises that these sums are ours; they were written.
            let sums = unsafe { std::slice::from_raw_parts_mut(tile.sums.out.add(row * tile.sums.row), tile.columns) };
            activation::forward(self.level, self.activation, sums);
        }
    }
}
