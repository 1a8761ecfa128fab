//! Reading a frame's body section by section, never past its end.

use bytes::Bytes;
use phalanx_base::{Code, Error, Result};

/// The unread rest of a body. A section lies in one part of it.
pub(crate) struct Body<'a> {
    rest: &'a [u8],
    parts: &'a [Bytes],
}

impl<'a> Body<'a> {
    pub(crate) fn new(parts: &'a [Bytes]) -> Self {
        Self { rest: &[], parts }
    }

    /// Reads the next `count` numbers, as bytes.
    pub(crate) fn numbers(&mut self, count: usize) -> Result<&'a [u8]> {
        self.take(count, 4)
    }

    /// Reads the next `count` ids.
    pub(crate) fn ids(&mut self, count: usize) -> Result<Vec<i64>> {
        Ok(self.take(count, 8)?.as_chunks::<8>().0.iter().map(|eight| i64::from_le_bytes(*eight)).collect())
    }

    /// Returns the number of bytes that were not read yet.
    pub(crate) fn left(&self) -> usize {
        self.rest.len() + self.parts.iter().map(Bytes::len).sum::<usize>()
    }

    /// Refuses a body that is longer than its header requires.
    pub(crate) fn end(self) -> Result<()> {
        let left = self.left();
        if left == 0 { Ok(()) } else { Err(broken(format!("{left} bytes are left over"))) }
    }

    fn take(&mut self, count: usize, size: usize) -> Result<&'a [u8]> {
        while self.rest.is_empty() && count > 0 {
            let Some((next, later)) = self.parts.split_first() else { break };
            (self.rest, self.parts) = (next, later);
        }
        let wanted = count.checked_mul(size).filter(|&wanted| wanted <= self.rest.len());
        let wanted = wanted
            .ok_or_else(|| broken(format!("{count} items of {size} bytes wanted, {} bytes left", self.rest.len())))?;
        let (head, tail) = self.rest.split_at(wanted);
        self.rest = tail;
        Ok(head)
    }
}

fn broken(why: String) -> Error {
    Error::new(Code::BadMessage, "a frame's body does not fit its header").because(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_never_reach_past_the_end() {
        let whole = [Bytes::from_static(&[0; 20])];
        let mut body = Body::new(&whole);
        assert_eq!(body.numbers(2).unwrap().len(), 8);
        assert_eq!(body.ids(2).unwrap_err().code(), Code::BadMessage);
        assert_eq!(body.numbers(usize::MAX / 2).unwrap_err().code(), Code::BadMessage);
        assert_eq!(body.ids(1).unwrap(), [0]);
        assert!(body.numbers(1).is_ok() && body.end().is_ok());
        assert!(Body::new(&whole).end().is_err());
    }

    #[test]
    fn sections_may_lie_in_separate_parts() {
        let parts = [Bytes::from_static(&[0; 8]), Bytes::new(), Bytes::from_static(&[0; 16])];
        let mut body = Body::new(&parts);
        assert!(body.numbers(0).is_ok() && body.numbers(2).is_ok() && body.ids(0).is_ok());
        assert_eq!(body.ids(2).unwrap(), [0, 0]);
        assert_eq!(body.numbers(1).unwrap_err().code(), Code::BadMessage);
        assert!(body.end().is_ok());
        let mut across = Body::new(&parts);
        assert_eq!(across.numbers(3).unwrap_err().code(), Code::BadMessage, "a section that two parts would make");
    }
}
