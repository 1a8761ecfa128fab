//! Two-dimensional convolution, channels last.

use crate::{Activation, Image, Level, Window};

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

impl Conv2d {
    /// Returns the convolution of these images, unless a size is 0, the window does not fit, the groups do not divide channels
    /// and filters, or memory cannot hold the numbers.
    #[must_use]
    pub fn new(image: Image, window: Window, filters: usize, groups: usize) -> Option<Self> {
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

    /// Returns the numbers of the kernel.
    #[must_use]
    pub fn kernel_len(&self) -> usize {
        self.window.size[0] * self.window.size[1] * (self.image.channels / self.groups) * self.output.channels
    }

    /// Returns how many numbers of scratch each of [`Self::forward`], [`Self::input_gradient`] and
    /// [`Self::kernel_gradient`] needs.
    #[must_use]
    pub fn scratch(&self, level: Level) -> usize {
        let _ = level;
        0
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
        let _ = scratch;
        for (at, y) in y.iter_mut().enumerate() {
            *y = bias.map_or(0.0, |bias| bias[at % self.output.channels]);
        }
        self.terms(|x_at, k_at, y_at| y[y_at] += x[x_at] * kernel[k_at]);
        activation.apply(level, y);
    }

    /// Writes the gradient of the inputs.
    ///
    /// # Panics
    /// If the slices do not have these shapes, or there is too little scratch.
    pub fn input_gradient(&self, level: Level, dy: &[f32], kernel: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
        self.check(dx, kernel, dy);
        let _ = (level, scratch);
        dx.fill(0.0);
        self.terms(|x_at, k_at, y_at| dx[x_at] += dy[y_at] * kernel[k_at]);
    }

    /// Writes the gradient of the kernel.
    ///
    /// # Panics
    /// If the slices do not have these shapes, or there is too little scratch.
    pub fn kernel_gradient(&self, level: Level, x: &[f32], dy: &[f32], dkernel: &mut [f32], scratch: &mut [f32]) {
        self.check(x, dkernel, dy);
        let _ = (level, scratch);
        dkernel.fill(0.0);
        self.terms(|x_at, k_at, y_at| dkernel[k_at] += dy[y_at] * x[x_at]);
    }

    fn check(&self, x: &[f32], kernel: &[f32], y: &[f32]) {
        assert_eq!(Some(x.len()), self.image.count(), "the images are {:?}", self.image);
        assert_eq!(Some(y.len()), self.output.count(), "the outputs are {:?}", self.output);
        assert_eq!(kernel.len(), self.kernel_len(), "the kernel");
    }

    /// Calls `term` with the places in the image, the kernel and the output of every product.
    fn terms(&self, mut term: impl FnMut(usize, usize, usize)) {
        let (image, output) = (self.image, self.output);
        let (inputs, filters) = (image.channels / self.groups, output.channels / self.groups);
        for n in 0..image.batch {
            for (y, x) in (0..output.height).flat_map(|y| (0..output.width).map(move |x| (y, x))) {
                for (i, row) in self.window.inside(0, y, image.height) {
                    for (j, column) in self.window.inside(1, x, image.width) {
                        for (channel, filter) in (0..inputs).flat_map(|c| (0..output.channels).map(move |f| (c, f))) {
                            let from = ((n * image.height + row) * image.width + column) * image.channels;
                            let tap = (i * self.window.size[1] + j) * inputs + channel;
                            let to = ((n * output.height + y) * output.width + x) * output.channels + filter;
                            term(from + filter / filters * inputs + channel, tap * output.channels + filter, to);
                        }
                    }
                }
            }
        }
    }
}
