//! The encoding of a position: small numbers take few bytes.

use phalanx_base::{Code, Error, Result};

/// Encodes the positions of stages.
#[derive(Debug, Default)]
pub(crate) struct Saver(Vec<u8>);

impl Saver {
    pub(crate) fn u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Appends bytes that another `Saver` encoded.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes what a [`Saver`] encoded.
#[derive(Debug)]
pub(crate) struct Loader<'a>(&'a [u8]);

impl<'a> Loader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number is too long"))
    }

    pub(crate) fn usize(&mut self) -> Result<usize> {
        usize::try_from(self.u64()?).map_err(|_| damaged("a number is too large for this machine"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        let (&first, rest) = self.0.split_first().ok_or_else(|| damaged("it ends too early"))?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a yes or no is neither")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.usize()?;
        if len > self.0.len() {
            return Err(damaged("it ends too early"));
        }
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn damaged(why: &str) -> Error {
    Error::new(Code::CheckpointDamaged, "the saved input position cannot be read")
        .because(why.to_string())
        .help("restore an older checkpoint, or start the input from its beginning")
}
