//! Reads a frame's body section by section, never past its end.

use phalanx_base::{Code, Error, Result};

/// What is left of a body.
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl<'a> Body<'a> {
    /// The next `count` numbers, as bytes.
    pub(crate) fn numbers(&mut self, count: usize) -> Result<&'a [u8]> {
        self.take(count, 4)
    }

    /// The next `count` ids.
    pub(crate) fn ids(&mut self, count: usize) -> Result<Vec<i64>> {
        Ok(self.take(count, 8)?.as_chunks::<8>().0.iter().map(|eight| i64::from_le_bytes(*eight)).collect())
    }

    /// Refuses a body that is longer than its header says.
    pub(crate) fn end(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(broken(format!("{} bytes are left over", self.0.len()))) }
    }

    fn take(&mut self, count: usize, size: usize) -> Result<&'a [u8]> {
        let wanted = count.checked_mul(size).filter(|&wanted| wanted <= self.0.len());
        let wanted = wanted
            .ok_or_else(|| broken(format!("{count} items of {size} bytes wanted, {} bytes left", self.0.len())))?;
        let (head, tail) = self.0.split_at(wanted);
        self.0 = tail;
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
        let bytes = [0; 20];
        let mut body = Body(&bytes);
        assert_eq!(body.numbers(2).unwrap().len(), 8);
        assert_eq!(body.ids(2).unwrap_err().code(), Code::BadMessage);
        assert_eq!(body.numbers(usize::MAX / 2).unwrap_err().code(), Code::BadMessage);
        assert_eq!(body.ids(1).unwrap(), [0]);
        assert!(body.numbers(1).is_ok() && body.end().is_ok());
        assert!(Body(&bytes).end().is_err());
    }
}
