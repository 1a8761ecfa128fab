//! The resume state of an iterator: a small value that goes into a checkpoint.

mod codec;

pub(crate) use codec::{Loader, Saver, damaged};
use phalanx_base::{Code, Error, Result};
use phalanx_formats::checksum::masked;

/// The first byte of every stored position; counts up when the bytes change their meaning.
const VERSION: u8 = 1;

/// The position of an iterator after the elements it has returned.
///
/// It contains the file, the offset, the epoch and the state of a shuffle, but not the content of buffers. So it has tens
/// of bytes, up to some hundreds with interleaved files. Elements that were read ahead but not returned do not count:
/// [`Dataset::iter_from`](crate::Dataset::iter_from) continues with exactly the next element.
///
/// The cost of restoring: files are opened at their offset; a shuffle repeats its random draws (some nanoseconds per
/// element of the epoch so far) and reads the elements in its buffer again, from the oldest one; a generator runs from its
/// start; an unfinished cache is filled again.
///
/// ```
/// use phalanx_data::{Dataset, Position};
/// let data = Dataset::range(0, 10, 1).shuffle_seeded(4, 7).batch(3);
/// let mut iter = data.iter()?;
/// iter.next();
/// let bytes = iter.position().to_bytes();
/// let rest: Vec<_> = iter.collect::<Result<_, _>>()?;
/// let again: Vec<_> = data.iter_from(&Position::from_bytes(&bytes)?)?.collect::<Result<_, _>>()?;
/// assert_eq!(rest, again);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which pipeline it belongs to.
    pub(crate) fingerprint: u64,
    /// Which pass over the dataset.
    pub(crate) iteration: u64,
    /// The seed of shuffles without a seed of their own.
    pub(crate) seed: u64,
    /// Elements handed out in this pass.
    pub(crate) elements: u64,
    /// Whether the end was reached.
    pub(crate) ended: bool,
    /// The saved state of the stages.
    pub(crate) stages: Vec<u8>,
}

impl Position {
    /// Returns how many elements the iterator had returned.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The position as bytes, with a version and a checksum.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Saver::default();
        out.raw(&[VERSION]);
        out.raw(&self.fingerprint.to_le_bytes());
        out.u64(self.iteration);
        out.raw(&self.seed.to_le_bytes());
        out.u64(self.elements);
        out.flag(self.ended);
        out.bytes(&self.stages);
        let mut bytes = out.into_vec();
        bytes.extend_from_slice(&masked(&bytes).to_le_bytes());
        bytes
    }

    /// The position that [`Position::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged, or of a version this build does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.first().is_some_and(|&version| version != VERSION) {
            return Err(Error::new(Code::CheckpointMismatch, "the saved input position is of another version")
                .because(format!("version {}, this build reads {VERSION}", bytes[0]))
                .help("start the input from its beginning, or use the build that wrote it"));
        }
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged("it ends too early"))?;
        if masked(body) != u32::from_le_bytes(*sum) {
            return Err(damaged("its checksum does not match"));
        }
        let mut from = Loader::new(body);
        from.u8()?;
        let position = Self {
            fingerprint: fixed(&mut from)?,
            iteration: from.u64()?,
            seed: fixed(&mut from)?,
            elements: from.u64()?,
            ended: from.flag()?,
            stages: from.bytes()?.to_vec(),
        };
        if from.is_empty() { Ok(position) } else { Err(damaged("there is more than was written")) }
    }
}

fn fixed(from: &mut Loader<'_>) -> Result<u64> {
    let mut bytes = [0; 8];
    for byte in &mut bytes {
        *byte = from.u8()?;
    }
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Position {
        Position {
            fingerprint: u64::MAX,
            iteration: 3,
            seed: 1 << 40,
            elements: 300,
            ended: false,
            stages: vec![1, 2, 3],
        }
    }

    #[test]
    fn bytes_come_back_and_damage_is_seen() {
        let bytes = sample().to_bytes();
        assert_eq!(Position::from_bytes(&bytes).unwrap(), sample());
        assert!(bytes.len() < 40);
        for cut in 0..bytes.len() {
            assert!(Position::from_bytes(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Position::from_bytes(&bad).is_err());
        }
    }

    #[test]
    fn numbers_of_any_size_come_back() {
        for value in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            let mut out = Saver::default();
            out.u64(value);
            assert_eq!(Loader::new(out.as_slice()).u64().unwrap(), value);
        }
        assert!(Loader::new(&[0xff; 10]).u64().is_err());
    }
}
