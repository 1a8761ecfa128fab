//! The windows of convolutions and pooling.

use phalanx_base::{Code, Error, Result};

/// The padding at the borders of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// No padding: the image shrinks.
    #[default]
    Valid,
    /// Padding that preserves the size for a stride of 1. As in TensorFlow, an odd amount is larger at the end.
    Same,
}

/// The windows over height and width: size, stride, dilation, padding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) size: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) padding: Padding,
}

impl Window {
    /// Checks the sizes.
    pub(crate) fn check(&self) -> Result<()> {
        let all = [self.size, self.stride, self.dilation];
        if all.as_flattened().iter().all(|&n| (1..=1 << 16).contains(&n)) {
            return Ok(());
        }
        let what = format!("a window of {:?}, stride {:?}, dilation {:?}", self.size, self.stride, self.dilation);
        Err(Error::new(Code::BadSetting, what).because("each of them must be between 1 and 65536"))
    }

    /// The size of the output for an image.
    pub(crate) fn output(&self, image: [usize; 2]) -> Result<[usize; 2]> {
        let mut output = [0; 2];
        for axis in 0..2 {
            output[axis] = match self.padding {
                Padding::Same => image[axis].div_ceil(self.stride[axis]),
                Padding::Valid => match image[axis].checked_sub(self.reach(axis)) {
                    Some(room) => room / self.stride[axis] + 1,
                    None => {
                        let window = [self.reach(0), self.reach(1)];
                        let what = format!("a window of {window:?} does not fit into an image of {image:?}");
                        return Err(
                            Error::new(Code::ShapeMismatch, what).help("make it smaller, or pad with Padding::Same")
                        );
                    }
                },
            };
        }
        Ok(output)
    }

    /// The padding at the start and the end of each axis.
    pub(crate) fn pads(&self, image: [usize; 2]) -> [(usize, usize); 2] {
        [0, 1].map(|axis| match self.padding {
            Padding::Valid => (0, 0),
            Padding::Same => {
                let steps = image[axis].div_ceil(self.stride[axis]).saturating_sub(1);
                let total = (steps * self.stride[axis] + self.reach(axis)).saturating_sub(image[axis]);
                (total / 2, total - total / 2)
            }
        })
    }

    fn reach(&self, axis: usize) -> usize {
        (self.size[axis] - 1) * self.dilation[axis] + 1
    }
}
