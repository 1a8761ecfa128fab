//! Maximum and mean pooling, channels last.

use crate::level::leveled;
use crate::parallel::{GRAIN, In, Out, by_rows, check};
use crate::{Image, Level, Window};

/// Pooling of images by a window. Padding counts neither for a maximum nor for a mean; a window of nothing else yields 0.
///
/// ```
/// use phalanx_matmul::{Image, Level, Pool2d, Window};
///
/// let image = Image { batch: 1, height: 2, width: 2, channels: 1 };
/// let pool = Pool2d::new(image, Window::new([2, 2], [2, 2])).unwrap();
/// let (mut y, mut places, mut dx) = ([0.0], [0], [9.0; 4]);
/// pool.max(Level::detect(), &[1.0, 4.0, 3.0, 2.0], &mut y, &mut places);
/// pool.max_gradient(Level::detect(), &[5.0], &places, &mut dx);
/// assert_eq!((y, dx), ([4.0], [0.0, 5.0, 0.0, 0.0]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool2d {
    image: Image,
    window: Window,
    output: Image,
}

impl Pool2d {
    /// Returns the pooling of these images, unless a size is 0, the window does not fit, or memory cannot hold the numbers.
    #[must_use]
    pub fn new(image: Image, window: Window) -> Option<Self> {
        let [height, width] = window.output([image.height, image.width])?;
        let output = Image { height, width, ..image };
        image.count()?;
        output.count()?;
        u32::try_from(window.size[0].checked_mul(window.size[1])?).ok()?;
        let pool = Self { image, window, output };
        (image.channels > 0).then_some(pool)
    }

    /// Returns the shape of the outputs.
    #[must_use]
    pub fn output(&self) -> Image {
        self.output
    }

    /// Writes the maximum of each window, and its place in the window: of equal numbers the first, as in TensorFlow.
    ///
    /// # Panics
    /// If the slices do not have these shapes.
    pub fn max(&self, level: Level, x: &[f32], y: &mut [f32], places: &mut [u32]) {
        self.check(x, y);
        check("the places", places, y.len(), 1);
        let row = self.output.row();
        let rows = self.output.batch * self.output.height;
        by_rows(rows, self.grain(), (0..rows, Out(y, row), Out(places, row)), &|(rows, y, places)| {
            max_rows(level, self, rows.start, x, y.0, places.0);
        });
    }

    /// Writes the gradient of the inputs of [`Self::max`].
    ///
    /// # Panics
    /// If the slices do not have these shapes.
    pub fn max_gradient(&self, level: Level, dy: &[f32], places: &[u32], dx: &mut [f32]) {
        self.check(dx, dy);
        check("the places", places, dy.len(), 1);
        let (one, input) = (self.output.one(), self.image.one());
        let parts = (In(dy, one), In(places, one), Out(dx, input));
        by_rows(self.image.batch, (GRAIN / input.max(1)).max(1), parts, &|(dy, places, dx)| {
            max_slopes(level, self, dy.0, places.0, dx.0);
        });
    }

    /// Writes the mean of each window.
    ///
    /// ```
    /// use phalanx_matmul::{Image, Level, Pool2d, Window};
    ///
    /// let image = Image { batch: 1, height: 1, width: 3, channels: 1 };
    /// let pool = Pool2d::new(image, Window::new([1, 2], [1, 1])).unwrap();
    /// let (mut y, mut dx) = ([0.0; 2], [0.0; 3]);
    /// pool.mean(Level::detect(), &[1.0, 3.0, 5.0], &mut y);
    /// pool.mean_gradient(Level::detect(), &[2.0, 4.0], &mut dx);
    /// assert_eq!((y, dx), ([2.0, 4.0], [1.0, 3.0, 2.0]));
    /// ```
    ///
    /// # Panics
    /// If the slices do not have these shapes.
    pub fn mean(&self, level: Level, x: &[f32], y: &mut [f32]) {
        self.check(x, y);
        let rows = self.output.batch * self.output.height;
        by_rows(rows, self.grain(), (0..rows, Out(y, self.output.row())), &|(rows, y)| {
            mean_rows(level, self, rows.start, x, y.0);
        });
    }

    /// Writes the gradient of the inputs of [`Self::mean`].
    ///
    /// # Panics
    /// If the slices do not have these shapes.
    pub fn mean_gradient(&self, level: Level, dy: &[f32], dx: &mut [f32]) {
        self.check(dx, dy);
        let (one, input) = (self.output.one(), self.image.one());
        by_rows(self.image.batch, (GRAIN / input.max(1)).max(1), (In(dy, one), Out(dx, input)), &|(dy, dx)| {
            mean_slopes(level, self, dy.0, dx.0);
        });
    }

    fn grain(&self) -> usize {
        let read = self.output.row().saturating_mul(self.window.size[0]).saturating_mul(self.window.size[1]);
        (GRAIN / read.max(1)).max(1)
    }

    fn check(&self, x: &[f32], y: &[f32]) {
        assert_eq!(Some(x.len()), self.image.count(), "the images are {:?}", self.image);
        assert_eq!(Some(y.len()), self.output.count(), "the pooled images are {:?}", self.output);
    }

    /// Returns the pixels of window `(y, x)` that are inside the image: their place in the window and in the image.
    #[inline(always)]
    fn pixels(&self, y: usize, x: usize) -> impl Iterator<Item = (usize, usize)> {
        let (window, image) = (self.window, self.image);
        let across = window.inside(1, x, image.width);
        window.inside(0, y, image.height).flat_map(move |(i, row)| {
            across
                .clone()
                .map(move |(j, column)| (i * window.size[1] + j, (row * image.width + column) * image.channels))
        })
    }

    /// Returns the number of pixels of window `(y, x)` that are inside the image.
    #[inline(always)]
    fn covered(&self, y: usize, x: usize) -> f32 {
        let down = self.window.inside(0, y, self.image.height).count();
        (down * self.window.inside(1, x, self.image.width).count()).max(1) as f32
    }
}

leveled! {
    fn max_rows(pool: &Pool2d, first: usize, x: &[f32], y: &mut [f32], places: &mut [u32]) => max_body;
    fn max_slopes(pool: &Pool2d, dy: &[f32], places: &[u32], dx: &mut [f32]) => max_slopes_body;
    fn mean_rows(pool: &Pool2d, first: usize, x: &[f32], y: &mut [f32]) => mean_body;
    fn mean_slopes(pool: &Pool2d, dy: &[f32], dx: &mut [f32]) => mean_slopes_body;
}

#[inline(always)]
fn max_body<const F: bool>(pool: &Pool2d, first: usize, x: &[f32], y: &mut [f32], places: &mut [u32]) {
    let (channels, row) = (pool.image.channels, pool.output.row());
    for (at, (y, places)) in y.chunks_exact_mut(row).zip(places.chunks_exact_mut(row)).enumerate() {
        let (image, line) = ((first + at) / pool.output.height, (first + at) % pool.output.height);
        let x = &x[image * pool.image.one()..][..pool.image.one()];
        let pixels = y.chunks_exact_mut(channels).zip(places.chunks_exact_mut(channels));
        for (column, (y, places)) in pixels.enumerate() {
            let mut pixels = pool.pixels(line, column);
            if let Some((place, pixel)) = pixels.next() {
                y.copy_from_slice(&x[pixel..][..channels]);
                places.fill(place as u32);
            } else {
                y.fill(0.0);
                places.fill(u32::MAX);
            }
            for (place, pixel) in pixels {
                for ((y, at), &x) in y.iter_mut().zip(&mut *places).zip(&x[pixel..][..channels]) {
                    // A number that is larger, or the first NaN.
                    let wins = x > *y || (x.is_nan() && !y.is_nan());
                    *at = if wins { place as u32 } else { *at };
                    *y = if wins { x } else { *y };
                }
            }
        }
    }
}

#[inline(always)]
fn max_slopes_body<const F: bool>(pool: &Pool2d, dy: &[f32], places: &[u32], dx: &mut [f32]) {
    let (channels, one) = (pool.image.channels, pool.output.one());
    dx.fill(0.0);
    if channels == 0 || one == 0 {
        return;
    }
    let images = dy.chunks_exact(one).zip(places.chunks_exact(one)).zip(dx.chunks_exact_mut(pool.image.one()));
    for ((dy, places), dx) in images {
        let pixels = dy.chunks_exact(channels).zip(places.chunks_exact(channels));
        for (at, (dy, places)) in pixels.enumerate() {
            for (place, pixel) in pool.pixels(at / pool.output.width, at % pool.output.width) {
                let dx = &mut dx[pixel..][..channels];
                for ((dx, &dy), &at) in dx.iter_mut().zip(dy).zip(places) {
                    *dx += if at == place as u32 { dy } else { 0.0 };
                }
            }
        }
    }
}

#[inline(always)]
fn mean_body<const F: bool>(pool: &Pool2d, first: usize, x: &[f32], y: &mut [f32]) {
    let (channels, row) = (pool.image.channels, pool.output.row());
    for (at, y) in y.chunks_exact_mut(row).enumerate() {
        let (image, line) = ((first + at) / pool.output.height, (first + at) % pool.output.height);
        let x = &x[image * pool.image.one()..][..pool.image.one()];
        for (column, y) in y.chunks_exact_mut(channels).enumerate() {
            y.fill(0.0);
            for (_, pixel) in pool.pixels(line, column) {
                y.iter_mut().zip(&x[pixel..][..channels]).for_each(|(y, &x)| *y += x);
            }
            let over = 1.0 / pool.covered(line, column);
            y.iter_mut().for_each(|y| *y *= over);
        }
    }
}

#[inline(always)]
fn mean_slopes_body<const F: bool>(pool: &Pool2d, dy: &[f32], dx: &mut [f32]) {
    let (channels, one) = (pool.image.channels, pool.output.one());
    dx.fill(0.0);
    if channels == 0 || one == 0 {
        return;
    }
    for (dy, dx) in dy.chunks_exact(one).zip(dx.chunks_exact_mut(pool.image.one())) {
        for (at, dy) in dy.chunks_exact(channels).enumerate() {
            let (line, column) = (at / pool.output.width, at % pool.output.width);
            let over = 1.0 / pool.covered(line, column);
            for (_, pixel) in pool.pixels(line, column) {
                dx[pixel..][..channels].iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy * over);
            }
        }
    }
}

/// Writes the mean of each channel over each image.
///
/// ```
/// use phalanx_matmul::{Image, Level, global_mean};
/// let mut y = [0.0; 2];
/// let image = Image { batch: 1, height: 1, width: 2, channels: 2 };
/// global_mean(Level::detect(), image, &[1.0, 2.0, 3.0, 6.0], &mut y);
/// assert_eq!(y, [2.0, 4.0]);
/// ```
///
/// # Panics
/// If the slices do not have these shapes.
pub fn global_mean(level: Level, image: Image, x: &[f32], y: &mut [f32]) {
    assert_eq!(Some(x.len()), image.count(), "the images are {image:?}");
    check("the means", y, image.batch, image.channels);
    let (one, channels) = (image.one(), image.channels);
    by_rows(image.batch, (GRAIN / one.max(1)).max(1), (In(x, one), Out(y, channels)), &|(x, y)| {
        mean_images(level, image, x.0, y.0);
    });
}

/// Writes the gradient of the inputs of [`global_mean`].
///
/// ```
/// use phalanx_matmul::{Image, Level, global_mean_gradient};
/// let mut dx = [0.0; 4];
/// let image = Image { batch: 1, height: 1, width: 2, channels: 2 };
/// global_mean_gradient(Level::detect(), image, &[2.0, 4.0], &mut dx);
/// assert_eq!(dx, [1.0, 2.0, 1.0, 2.0]);
/// ```
///
/// # Panics
/// If the slices do not have these shapes.
pub fn global_mean_gradient(level: Level, image: Image, dy: &[f32], dx: &mut [f32]) {
    assert_eq!(Some(dx.len()), image.count(), "the images are {image:?}");
    check("the gradient", dy, image.batch, image.channels);
    let (one, channels) = (image.one(), image.channels);
    by_rows(image.batch, (GRAIN / one.max(1)).max(1), (In(dy, channels), Out(dx, one)), &|(dy, dx)| {
        spread_images(level, image, dy.0, dx.0);
    });
}

leveled! {
    fn mean_images(image: Image, x: &[f32], y: &mut [f32]) => mean_images_body;
    fn spread_images(image: Image, dy: &[f32], dx: &mut [f32]) => spread_images_body;
}

#[inline(always)]
fn mean_images_body<const F: bool>(image: Image, x: &[f32], y: &mut [f32]) {
    let over = 1.0 / (image.height * image.width).max(1) as f32;
    y.fill(0.0);
    if image.one() == 0 {
        return;
    }
    for (x, y) in x.chunks_exact(image.one()).zip(y.chunks_exact_mut(image.channels)) {
        for x in x.chunks_exact(image.channels) {
            y.iter_mut().zip(x).for_each(|(y, &x)| *y += x);
        }
        y.iter_mut().for_each(|y| *y *= over);
    }
}

#[inline(always)]
fn spread_images_body<const F: bool>(image: Image, dy: &[f32], dx: &mut [f32]) {
    let over = 1.0 / (image.height * image.width).max(1) as f32;
    if image.one() == 0 {
        return;
    }
    for (dx, dy) in dx.chunks_exact_mut(image.one()).zip(dy.chunks_exact(image.channels)) {
        for dx in dx.chunks_exact_mut(image.channels) {
            dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = dy * over);
        }
    }
}
