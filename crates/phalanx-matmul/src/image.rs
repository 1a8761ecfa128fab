//! Images and the windows that move over them.

/// A batch of images, channels last: number `((n * height + y) * width + x) * channels + c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The number of images.
    pub batch: usize,
    /// The rows of an image.
    pub height: usize,
    /// The columns of an image.
    pub width: usize,
    /// The numbers of a pixel.
    pub channels: usize,
}

impl Image {
    /// Returns the count of numbers, unless memory cannot hold them.
    ///
    /// ```
    /// use phalanx_matmul::Image;
    /// assert_eq!(Image { batch: 2, height: 3, width: 4, channels: 5 }.count(), Some(120));
    /// assert_eq!(Image { batch: usize::MAX, height: 3, width: 4, channels: 5 }.count(), None);
    /// ```
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        let pixels = self.batch.checked_mul(self.height)?.checked_mul(self.width)?;
        pixels.checked_mul(self.channels).filter(|&count| count <= MOST)
    }

    /// Returns the numbers of one image.
    pub(crate) fn one(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Returns the numbers of one row of pixels.
    pub(crate) fn row(&self) -> usize {
        self.width * self.channels
    }
}

/// The most numbers of a slice: its bytes are counted in an `isize`.
pub(crate) const MOST: usize = isize::MAX as usize / size_of::<f32>();

/// A window that moves over an image: its size, the steps between its places and between its own numbers, and the padding
/// before and after each axis. Each is height first, then width.
///
/// ```
/// use phalanx_matmul::Window;
///
/// let window = Window::new([3, 3], [2, 2]).same([28, 28]).unwrap();
/// assert_eq!((window.padding, window.output([28, 28])), ([[0, 1], [0, 1]], Some([14, 14])));
/// assert_eq!(Window::new([3, 3], [1, 1]).output([2, 2]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The numbers along each axis.
    pub size: [usize; 2],
    /// The step between two places of the window.
    pub stride: [usize; 2],
    /// The step between two numbers of the window.
    pub dilation: [usize; 2],
    /// The zeros before and after each axis.
    pub padding: [[usize; 2]; 2],
}

impl Window {
    /// Returns a window without dilation and padding.
    #[must_use]
    pub fn new(size: [usize; 2], stride: [usize; 2]) -> Self {
        Self { size, stride, dilation: [1; 2], padding: [[0; 2]; 2] }
    }

    /// Returns the window with TensorFlow's padding `SAME` for images of this height and width: an odd amount is larger at
    /// the end. `None` if a size is 0 or too large.
    #[must_use]
    pub fn same(mut self, image: [usize; 2]) -> Option<Self> {
        for axis in 0..2 {
            let steps = image[axis].checked_sub(1).map_or(0, |last| last.checked_div(self.stride[axis]).unwrap_or(0));
            let covered = steps.checked_mul(self.stride[axis])?.checked_add(self.reach(axis)?)?;
            let total = covered.saturating_sub(image[axis]);
            self.padding[axis] = [total / 2, total - total / 2];
        }
        Some(self)
    }

    /// Returns the places of the window over an image of this height and width, unless a size is 0 or does not fit.
    #[must_use]
    pub fn output(&self, image: [usize; 2]) -> Option<[usize; 2]> {
        let mut output = [0; 2];
        for axis in 0..2 {
            let [before, after] = self.padding[axis];
            let padded = image[axis].checked_add(before)?.checked_add(after)?;
            let free = padded.checked_sub(self.reach(axis)?)?;
            output[axis] = free.checked_div(self.stride[axis])? + 1;
        }
        Some(output)
    }

    /// Returns how far the window reaches along an axis.
    fn reach(&self, axis: usize) -> Option<usize> {
        self.size[axis]
            .checked_sub(1)?
            .checked_mul(self.dilation[axis])?
            .checked_add(1)
            .filter(|_| self.dilation[axis] > 0)
    }

    /// Iterates over the numbers of a window of which the first is at `place * stride - padding`: their index in the window,
    /// and in the image for those that are inside.
    #[inline(always)]
    pub(crate) fn inside(
        self,
        axis: usize,
        place: usize,
        length: usize,
    ) -> impl Iterator<Item = (usize, usize)> + Clone {
        let (start, before, step) = (place * self.stride[axis], self.padding[axis][0], self.dilation[axis]);
        (0..self.size[axis]).filter_map(move |i| {
            let at = (start + i * step).checked_sub(before)?;
            (at < length).then_some((i, at))
        })
    }
}
