//! Reading bytes from front to back without ever reading past their end.

/// What is left to read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next `count` bytes, if there are as many.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// The next four bytes as a little-endian number.
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (four, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u32::from_le_bytes(*four))
    }

    /// The next varint; `None` also when it does not fit 64 bits.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The next varint as a length or an offset.
    pub(super) fn size(&mut self) -> Option<usize> {
        self.varint().and_then(|number| usize::try_from(number).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_varint;

    #[test]
    fn varints_come_back() {
        for number in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(number, &mut bytes);
            let mut cursor = Cursor(&bytes);
            assert_eq!(cursor.varint(), Some(number));
            assert!(cursor.0.is_empty());
            assert_eq!(Cursor(&bytes[..bytes.len() - 1]).varint(), None);
        }
    }

    #[test]
    fn varints_beyond_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(Cursor(&bytes).varint(), None);
        assert_eq!(Cursor(&[0xff; 11]).varint(), None);
    }
}
