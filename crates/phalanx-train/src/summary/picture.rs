//! Pictures for TensorBoard.

use phalanx_base::{Code, Error, Result};
use phalanx_formats::png;

/// A picture, as a PNG file. [`SummaryWriter::image`](crate::SummaryWriter::image) writes it.
///
/// ```
/// use phalanx_train::Picture;
/// let digit: Vec<f32> = (0..28 * 28).map(|i| i as f32 / 784.0).collect();
/// let picture = Picture::from_floats(&digit, (28, 28), 1)?;
/// assert_eq!((picture.width(), picture.height()), (28, 28));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub(super) png: Vec<u8>,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Picture {
    /// A picture of `(width, height)` pixels with 8-bit channels: 1 for grey, 3 for RGB, 4 for RGBA. Rows come one after
    /// another, the topmost first.
    ///
    /// # Errors
    /// When there is no pixel, the channels are none of those, or `pixels` has another length.
    pub fn from_pixels(pixels: &[u8], (width, height): (u32, u32), channels: u8) -> Result<Self> {
        Ok(Self { png: png::encode(pixels, (width, height), channels)?, width, height })
    }

    /// As [`Self::from_pixels`], with numbers from 0 to 1; others are clipped.
    ///
    /// # Errors
    /// As [`Self::from_pixels`].
    pub fn from_floats(numbers: &[f32], size: (u32, u32), channels: u8) -> Result<Self> {
        let pixels: Vec<u8> = numbers.iter().map(|number| (number.clamp(0.0, 1.0) * 255.0).round() as u8).collect();
        Self::from_pixels(&pixels, size, channels)
    }

    /// A picture that is a PNG file already.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_png(png: impl Into<Vec<u8>>) -> Result<Self> {
        let png = png.into();
        let Some((width, height, _)) = png::size(&png) else {
            return Err(Error::new(Code::DataFormat, "a picture is no PNG file")
                .because("it does not begin as one")
                .help("encode it as PNG, or give its pixels to Picture::from_pixels"));
        };
        Ok(Self { png, width, height })
    }

    /// Returns the width in pixels.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the height in pixels.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.height
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_clipped_and_a_file_knows_its_size() {
        let picture = Picture::from_floats(&[-1.0, 0.0, 0.5, 2.0], (4, 1), 1).unwrap();
        assert_eq!(picture, Picture::from_pixels(&[0, 0, 128, 255], (4, 1), 1).unwrap());
        assert_eq!(Picture::from_png(picture.png.clone()).unwrap(), picture);
        assert_eq!(Picture::from_png(b"GIF89a").unwrap_err().code(), Code::DataFormat);
    }
}
