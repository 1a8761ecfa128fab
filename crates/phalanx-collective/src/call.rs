//! One call of a collective operation, described in the header of each of its messages.

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    AllReduce,
    AllReduceMany,
    Broadcast,
    BroadcastBytes,
    AllGather,
    Barrier,
}

impl Op {
    const ALL: [Self; 6] =
        [Self::AllReduce, Self::AllReduceMany, Self::Broadcast, Self::BroadcastBytes, Self::AllGather, Self::Barrier];

    fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllReduceMany => "all_reduce_many",
            Self::Broadcast => "broadcast",
            Self::BroadcastBytes => "broadcast_bytes",
            Self::AllGather => "all_gather",
            Self::Barrier => "barrier",
        }
    }
}

/// The description of a call, on which all members must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Counts the calls of a group, from 1.
    pub(crate) number: u64,
    pub(crate) op: Op,
    /// The kind of reduction, or the root of a broadcast.
    pub(crate) detail: u32,
    /// The number of values, where all members have the same.
    pub(crate) count: u64,
    /// A digest of the lengths, if there are several.
    pub(crate) lengths: u64,
}

/// The size of a header: the call and the length of the payload.
pub(crate) const HEADER: usize = 40;

impl Call {
    /// Returns the header of a message of this call.
    pub(crate) fn header(&self, payload: usize) -> [u8; HEADER] {
        let op = Op::ALL.iter().position(|&op| op == self.op).unwrap_or(0) as u32;
        let words =
            [self.number, u64::from(op) << 32 | u64::from(self.detail), self.count, self.lengths, payload as u64];
        let mut bytes = [0; HEADER];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// Parses a header; `None` if it is malformed.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, u64)> {
        let words: &[u8; HEADER] = bytes.try_into().ok()?;
        let word = |i: usize| u64::from_le_bytes(words.as_chunks::<8>().0[i]);
        let op = *Op::ALL.get((word(1) >> 32) as usize)?;
        let call = Self { number: word(0), op, detail: word(1) as u32, count: word(2), lengths: word(3) };
        Some((call, word(4)))
    }
}

impl std::fmt::Display for Call {
    /// For example `all_reduce(sum) of 12 numbers as call 3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op.name())?;
        let (detail, count) = (self.detail, self.count);
        let how = if detail == crate::Reduce::Mean.code() { "mean" } else { "sum" };
        match self.op {
            Op::AllReduce => write!(f, "({how}) of {count} numbers")?,
            Op::AllReduceMany => write!(f, "({how}) of {count} numbers in parts [{:016x}]", self.lengths)?,
            Op::Broadcast => write!(f, " of {count} numbers from rank {detail}")?,
            Op::BroadcastBytes => write!(f, " from rank {detail}")?,
            Op::AllGather | Op::Barrier => {}
        }
        write!(f, " as call {}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for op in Op::ALL {
            let call = Call { number: 7, op, detail: 2, count: 12, lengths: u64::MAX };
            assert_eq!(Call::read(&call.header(99)), Some((call, 99)));
        }
        assert_eq!(Call::read(&[0xff; HEADER]), None);
        assert_eq!(Call::read(&[0; 3]), None);
    }

    #[test]
    fn a_call_says_what_it_is() {
        let call = Call { number: 3, op: Op::AllReduce, detail: 1, count: 12, lengths: 0 };
        assert_eq!(call.to_string(), "all_reduce(sum) of 12 numbers as call 3");
    }
}
