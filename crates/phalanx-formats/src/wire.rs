//! The protobuf wire format: just enough to walk over messages without making anything.
//!
//! Hot: nothing here may allocate; faults are static texts, which the caller dresses.

/// Why bytes are no protobuf message.
pub(crate) type Fault = &'static str;

/// What is left of a message.
#[derive(Clone, Copy)]
pub(crate) struct Wire<'a>(pub(crate) &'a [u8]);

/// The contents of one field.
#[derive(Clone, Copy)]
pub(crate) enum Field<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32([u8; 4]),
    /// Wire types 1, 3 and 4: nothing we know has them.
    Other,
}

const CUT: Fault = "it ends inside a field";
/// As deep as protobuf itself goes by default.
const MAX_GROUPS: u32 = 100;

impl<'a> Wire<'a> {
    /// The next field's number and contents; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, Fault> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let field = match wire_type {
            0 => Field::Varint(self.varint()?),
            2 => Field::Bytes(self.sized()?),
            5 => Field::Fixed32(*self.chunk()?),
            other => {
                self.skip_rare(number, other)?;
                Field::Other
            }
        };
        Ok(Some((number, field)))
    }

    /// The contents of the next field if it has this tag, of wire type 2, and is short; `None` says nothing.
    #[inline]
    pub(crate) fn short(&mut self, tag: u8) -> Option<&'a [u8]> {
        let [first, length, rest @ ..] = self.0 else { return None };
        let (bytes, rest) = rest.split_at_checked(usize::from(*length)).filter(|_| *first == tag && *length < 0x80)?;
        self.0 = rest;
        Some(bytes)
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u8), Fault> {
        let tag = u32::try_from(self.varint()?).map_err(|_| "a field's number is too large")?;
        if tag >> 3 == 0 {
            return Err("a field has the number 0");
        }
        Ok((tag >> 3, (tag & 7) as u8))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        if let [first, rest @ ..] = self.0
            && *first < 0x80
        {
            self.0 = rest;
            return Ok(u64::from(*first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (i, &byte) in self.0.iter().take(10).enumerate() {
            // The tenth byte has room for one bit; protobuf drops the others.
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.0.len() < 10 { CUT } else { "a number has more than ten bytes" })
    }

    #[inline]
    fn sized(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.varint()?;
        if length > self.0.len() as u64 {
            return Err(CUT);
        }
        let (bytes, rest) = self.0.split_at(length as usize);
        self.0 = rest;
        Ok(bytes)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Fault> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(chunk)
    }

    /// Skips eight bytes, or a group with all it contains.
    #[cold]
    fn skip_rare(&mut self, number: u32, wire_type: u8) -> Result<(), Fault> {
        match wire_type {
            1 => self.chunk::<8>().map(drop),
            3 => self.skip_group(number, 1),
            4 => Err("a group ends that did not begin"),
            _ => Err("a field has a type that protobuf does not know"),
        }
    }

    fn skip_group(&mut self, group: u32, depth: u32) -> Result<(), Fault> {
        if depth > MAX_GROUPS {
            return Err("groups are nested too deep");
        }
        loop {
            if self.0.is_empty() {
                return Err(CUT);
            }
            match self.tag()? {
                (_, 0) => drop(self.varint()?),
                (_, 1) => drop(self.chunk::<8>()?),
                (_, 2) => drop(self.sized()?),
                (_, 5) => drop(self.chunk::<4>()?),
                (number, 3) => self.skip_group(number, depth + 1)?,
                (number, 4) if number == group => return Ok(()),
                (_, 4) => return Err("a group ends that did not begin"),
                _ => return Err("a field has a type that protobuf does not know"),
            }
        }
    }
}

/// The tag and the contents of a message that is one field of wire type 2 and nothing else, which nearly every message
/// of an Example is; `None` for any other and for long ones.
#[inline]
pub(crate) fn only_field(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [tag, length, rest @ ..] = bytes else { return None };
    (*tag < 0x80 && *tag & 7 == 2 && *length < 0x80 && usize::from(*length) == rest.len()).then_some((*tag, rest))
}

/// The key and the value of a map's entry in the usual form; `None` for any other.
#[inline]
pub(crate) fn usual_entry(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x0a, length, rest @ ..] = entry else { return None };
    let (key, value) = rest.split_at_checked(usize::from(*length)).filter(|_| *length < 0x80)?;
    match value {
        [0x12, length, value @ ..] if *length < 0x80 && usize::from(*length) == value.len() => Some((key, value)),
        _ => None,
    }
}

/// Appends a varint.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of wire type 2.
pub(crate) fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(u64::from(number << 3 | 2), out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
