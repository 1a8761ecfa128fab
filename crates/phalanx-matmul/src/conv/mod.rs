//! Two-dimensional convolution, channels last, without copies of images.

#![allow(unsafe_code)]

mod axis;
mod core;
mod kernel_gradient;

use self::axis::{Axis, Phase};
use self::core::Core;
use self::kernel_gradient::KernelGradient;
use crate::blocks::{Shared, aligned, uninit};
use crate::pack::{self, LANES, Line, Source};
use crate::parallel::by_rows;
use crate::tile::Kernel;
use crate::{Activation, Image, Level, Precision, Window};
use std::mem::MaybeUninit;
use std::ops::Range;

/// A convolution of images with a kernel `[height, width, channels / groups, filters]`, as TensorFlow's.
///
/// ```
/// use phalanx_matmul::{Activation, Conv2d, Image, Level, Window};
///
/// let image = Image { batch: 1, height: 1, width: 3, channels: 1 };
/// let conv = Conv2d::new(image, Window::new([1, 2], [1, 1]), 1, 1).unwrap();
/// let mut scratch = vec![0.0; conv.scratch(Level::detect())];
/// let mut y = [0.0; 2];
/// let bias = Some(&[0.5][..]);
/// conv.forward(Level::detect(), &[1.0, 2.0, 4.0], &[-1.0, 1.0], bias, Activation::Linear, &mut y, &mut scratch);
/// assert_eq!(y, [1.5, 2.5]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    image: Image,
    window: Window,
    output: Image,
    groups: usize,
}

/// The most that a window may be padded, and the largest of its steps: what is added up from these fits into an `isize`.
const MOST_STEP: usize = u32::MAX as usize;

impl Conv2d {
    /// Returns the convolution of these images, unless a size is 0, the window does not fit, the groups do not divide channels
    /// and filters, or memory cannot hold the numbers.
    #[must_use]
    pub fn new(image: Image, window: Window, filters: usize, groups: usize) -> Option<Self> {
        let steps = window.padding.as_flattened().iter().chain(&window.stride).chain(&window.dilation);
        steps.chain(&window.size).all(|&step| step <= MOST_STEP).then_some(())?;
        let [height, width] = window.output([image.height, image.width])?;
        let output = Image { batch: image.batch, height, width, channels: filters };
        let kernel = Image { batch: window.size[0], height: window.size[1], width: image.channels, channels: filters };
        image.count().and(output.count()).and(kernel.count())?;
        let whole = groups > 0 && image.channels.is_multiple_of(groups) && filters.is_multiple_of(groups);
        (whole && image.channels > 0 && filters > 0).then_some(Self { image, window, output, groups })
    }

    /// Returns the shape of the outputs.
    #[must_use]
    pub fn output(&self) -> Image {
        self.output
    }

    /// Returns the count of numbers of the kernel.
    #[must_use]
    pub fn kernel_len(&self) -> usize {
        self.taps() * self.channels() * self.output.channels
    }

    /// Returns how many numbers of scratch each of [`Self::forward`], [`Self::input_gradient`] and
    /// [`Self::kernel_gradient`] needs.
    #[must_use]
    pub fn scratch(&self, level: Level) -> usize {
        let kernel = Kernel::new(level, Precision::F32);
        let lines = self.lines(self.channels(), self.filters()).max(self.lines(self.filters(), self.channels()));
        let packed = lines.saturating_mul(LANES).saturating_add(LANES - 1);
        packed.max(KernelGradient::scratch(self, kernel))
    }

    /// Writes the convolution, plus a bias for each filter, through an activation.
    ///
    /// # Panics
    /// If the slices do not have these shapes, or there is too little scratch.
    #[allow(clippy::too_many_arguments)]
    pub fn forward(
        &self,
        level: Level,
        x: &[f32],
        kernel: &[f32],
        bias: Option<&[f32]>,
        activation: Activation,
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        self.check(x, kernel, y);
        assert!(bias.is_none_or(|bias| bias.len() == self.output.channels), "a bias for every filter");
        let lines = aligned(uninit(scratch), self.lines(self.channels(), self.filters()));
        let tiles = Kernel::new(level, Precision::F32);
        self.pack_forward(level, tiles, kernel, lines);
        let core = Core {
            level,
            kernel: tiles,
            source: x,
            source_image: self.image,
            target: Shared::new(uninit(y)),
            target_image: self.output,
            groups: self.groups,
            axes: [self.axis(0), self.axis(1)],
            taps: lines,
            bias,
            activation,
        };
        self.run(&core);
    }

    /// Writes the gradient of the inputs.
    ///
    /// ```
    /// use phalanx_matmul::{Conv2d, Image, Level, Window};
    ///
    /// let image = Image { batch: 1, height: 1, width: 3, channels: 1 };
    /// let conv = Conv2d::new(image, Window::new([1, 2], [1, 1]), 1, 1).unwrap();
    /// let (mut dx, mut scratch) = ([0.0; 3], vec![0.0; conv.scratch(Level::detect())]);
    /// conv.input_gradient(Level::detect(), &[1.0, 10.0], &[-1.0, 1.0], &mut dx, &mut scratch);
    /// assert_eq!(dx, [-1.0, -9.0, 10.0]);
    /// ```
    ///
    /// # Panics
    /// If the slices do not have these shapes, or there is too little scratch.
    pub fn input_gradient(&self, level: Level, dy: &[f32], kernel: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
        self.check(dx, kernel, dy);
        let tiles = Kernel::new(level, Precision::F32);
        let mut lines = aligned(uninit(scratch), self.lines(self.filters(), self.channels()));
        let target = Shared::new(uninit(dx));
        let phases = |axis: usize| {
            let forward = self.axis(axis);
            (0..forward.stride.min(forward.length)).map(move |phase| Phase::new(forward, phase))
        };
        for down in phases(0) {
            for across in phases(1) {
                let taps = down.axis.taps * across.axis.taps * self.filters();
                let (own, rest) = lines.split_at_mut(self.groups * self.channels().div_ceil(LANES) * taps);
                lines = rest;
                self.pack_backward(tiles, kernel, [&down, &across], own);
                let core = Core {
                    level,
                    kernel: tiles,
                    source: dy,
                    source_image: self.output,
                    target,
                    target_image: self.image,
                    groups: self.groups,
                    axes: [down.axis, across.axis],
                    taps: own,
                    bias: None,
                    activation: Activation::Linear,
                };
                self.run(&core);
            }
        }
    }

    /// Writes the gradient of the kernel.
    ///
    /// ```
    /// use phalanx_matmul::{Conv2d, Image, Level, Window};
    ///
    /// let image = Image { batch: 1, height: 1, width: 3, channels: 1 };
    /// let conv = Conv2d::new(image, Window::new([1, 2], [1, 1]), 1, 1).unwrap();
    /// let (mut dkernel, mut scratch) = ([0.0; 2], vec![0.0; conv.scratch(Level::detect())]);
    /// conv.kernel_gradient(Level::detect(), &[1.0, 2.0, 4.0], &[1.0, 10.0], &mut dkernel, &mut scratch);
    /// assert_eq!(dkernel, [21.0, 42.0]);
    /// ```
    ///
    /// # Panics
    /// If the slices do not have these shapes, or there is too little scratch.
    pub fn kernel_gradient(&self, level: Level, x: &[f32], dy: &[f32], dkernel: &mut [f32], scratch: &mut [f32]) {
        self.check(x, dkernel, dy);
        KernelGradient::new(self, Kernel::new(level, Precision::F32), x, dy).compute(level, dkernel, scratch);
    }

    /// Computes all units of a convolution.
    fn run(&self, core: &Core<'_>) {
        let units = core.units();
        let pixels = self.image.batch * self.output.height * self.output.width;
        let each = self.kernel_len().saturating_mul(pixels) / units.max(1);
        by_rows(units, (MULTIPLICATIONS / each.max(1)).max(1), 0..units, &|units: Range<usize>| {
            // SAFETY: units compute different parts of the target, and the sizes were checked.
            unsafe { core.compute(units) };
        });
    }

    fn check(&self, x: &[f32], kernel: &[f32], y: &[f32]) {
        assert_eq!(Some(x.len()), self.image.count(), "the images are {:?}", self.image);
        assert_eq!(Some(y.len()), self.output.count(), "the outputs are {:?}", self.output);
        assert_eq!(kernel.len(), self.kernel_len(), "the kernel");
    }

    fn taps(&self) -> usize {
        self.window.size[0] * self.window.size[1]
    }

    /// The channels of a group.
    fn channels(&self) -> usize {
        self.image.channels / self.groups
    }

    /// The filters of a group.
    fn filters(&self) -> usize {
        self.output.channels / self.groups
    }

    /// The lines of packed taps that multiply channels of a source.
    fn lines(&self, from: usize, to: usize) -> usize {
        to.div_ceil(LANES).saturating_mul(self.groups).saturating_mul(from).saturating_mul(self.taps())
    }

    fn axis(&self, axis: usize) -> Axis {
        Axis {
            places: [self.output.height, self.output.width][axis],
            first: 0,
            apart: 1,
            taps: self.window.size[axis],
            stride: self.window.stride[axis],
            dilation: self.window.dilation[axis],
            offset: -(self.window.padding[axis][0] as isize),
            length: [self.image.height, self.image.width][axis],
        }
    }

    /// Packs the kernel: for each group, panels of filters.
    fn pack_forward(&self, level: Level, tiles: Kernel, kernel: &[f32], lines: &mut [MaybeUninit<Line>]) {
        let (length, filters) = (self.taps() * self.channels(), self.filters());
        let own = filters.div_ceil(LANES) * length;
        for (group, lines) in lines.chunks_exact_mut(own).enumerate() {
            let part = (0..length, group * filters..(group + 1) * filters);
            pack::right(level, tiles, kernel, (1, self.output.channels), part, lines);
        }
    }

    /// Packs some taps of the kernel in reverse: for each group, panels of channels.
    fn pack_backward(&self, tiles: Kernel, kernel: &[f32], phases: [&Phase; 2], lines: &mut [MaybeUninit<Line>]) {
        let (channels, filters, width) = (self.channels(), self.filters(), self.output.channels);
        let taps = phases.map(|phase| phase.axis.taps);
        let panel_lines = taps[0] * taps[1] * filters;
        if panel_lines == 0 {
            return;
        }
        for (panel, lines) in lines.chunks_exact_mut(panel_lines).enumerate() {
            let panels = channels.div_ceil(LANES);
            let (group, first) = (panel / panels, panel % panels * LANES);
            for (i, lines) in lines.chunks_exact_mut(filters).enumerate() {
                let tap = phases[0].tap(i / taps[1]) * self.window.size[1] + phases[1].tap(i % taps[1]);
                let from = &kernel[tap * channels * width..][..channels * width];
                let lanes = first..channels.min(first + LANES);
                let steps = group * filters..(group + 1) * filters;
                Source::new(from, lanes, width, steps, 1).pack(tiles, lines);
            }
        }
    }
}

/// The multiplications from which work is worth a second thread.
const MULTIPLICATIONS: usize = 1 << 18;
