//! Frames: a small header and a long body of raw numbers.
//!
//! On the wire: the header's length as a little-endian u32, the header, the body. Sending copies each part once, into the
//! buffer that is written to the socket; receiving passes the body on without another copy.

use crate::buffer_pool::BufferPool;
use crate::limits;
use crate::reply::ReplyBuffer;
use crate::same_host::BorrowedHalf;
use bytes::{Buf, BufMut, Bytes};
use phalanx_base::{Code, Error, Result};
use prost::Message;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A frame to be sent.
#[derive(Debug, Default)]
pub struct OutFrame {
    header: Vec<u8>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Parts(Vec<Bytes>),
    Reply(ReplyBuffer),
}

impl Default for Body {
    fn default() -> Self {
        Self::Parts(Vec::new())
    }
}

impl Clone for OutFrame {
    /// Shares the parts of the body. A reply buffer is copied.
    fn clone(&self) -> Self {
        let body = match &self.body {
            Body::Parts(parts) => parts.clone(),
            Body::Reply(buffer) => vec![Bytes::copy_from_slice(buffer)],
        };
        Self { header: self.header.clone(), body: Body::Parts(body) }
    }
}

impl OutFrame {
    /// Creates a frame with this header and an empty body.
    #[must_use]
    pub fn new(header: &impl Message) -> Self {
        Self { header: header.encode_to_vec(), body: Body::default() }
    }

    /// Creates a reply with this header and `buffer` as its body. Nothing is copied if it answers the request that the buffer
    /// came from.
    #[must_use]
    pub fn reply(header: &impl Message, buffer: ReplyBuffer) -> Self {
        Self { header: header.encode_to_vec(), body: Body::Reply(buffer) }
    }

    pub(crate) fn from_parts(header: Vec<u8>, body: Bytes) -> Self {
        Self { header, body: Body::Parts(vec![body]) }
    }

    /// Appends to the body. A reply buffer is copied first.
    pub fn push(&mut self, part: Bytes) {
        let mut parts = std::mem::take(&mut self.body).into_parts();
        parts.push(part);
        self.body = Body::Parts(parts);
    }

    /// Returns the size of the frame in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        4 + self.header.len() + self.slices().map(<[u8]>::len).sum::<usize>()
    }

    /// Returns whether header and body are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.header.is_empty() && self.slices().all(<[u8]>::is_empty)
    }

    /// Returns the frame as a receiver sees it. For tests.
    ///
    /// # Errors
    /// When the frame is over a limit.
    pub fn to_in_frame(&self) -> Result<InFrame> {
        let mut bytes = Vec::with_capacity(self.len());
        self.write(&mut bytes);
        InFrame::read(Bytes::from(bytes))
    }

    fn write(&self, out: &mut impl BufMut) {
        out.put_u32_le(self.header.len() as u32);
        out.put_slice(&self.header);
        for part in self.slices() {
            out.put_slice(part);
        }
    }

    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the parts of the body.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (parts, reply) = match &self.body {
            Body::Parts(parts) => (&parts[..], None),
            Body::Reply(buffer) => (&[][..], Some(&buffer[..])),
        };
        parts.iter().map(|part| &part[..]).chain(reply)
    }

    /// Returns the header and the slot that the body was written into, else the frame.
    pub(crate) fn into_reply(self) -> Result<(Vec<u8>, BorrowedHalf), Self> {
        match self.body {
            Body::Reply(buffer) => match buffer.into_slot() {
                Ok(half) => Ok((self.header, half)),
                Err(bytes) => Err(Self::from_parts(self.header, bytes)),
            },
            body => Err(Self { body, ..self }),
        }
    }

    /// Writes the frame's length and everything before the body.
    pub(crate) fn put_prefix(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.len() as u32);
        out.put_u32_le(self.header.len() as u32);
        out.put_slice(&self.header);
    }

    /// Converts the frame for a receiver in this process, without a copy.
    pub(crate) fn hand_over(self, pool: &Arc<BufferPool>) -> InFrame {
        let (body, pool) = (self.body.into_parts(), Some(Arc::clone(pool)));
        InFrame { header: self.header.into(), body, answer: None, pool, is_in_process: true }
    }

    /// Returns the body, to be written without a copy.
    pub(crate) fn into_body(self) -> Parts {
        Parts(self.body.into_parts().into())
    }
}

impl Body {
    fn into_parts(self) -> Vec<Bytes> {
        match self {
            Self::Parts(parts) => parts,
            Self::Reply(buffer) => vec![buffer.into_bytes()],
        }
    }
}

/// A frame's body, part by part.
pub(crate) struct Parts(VecDeque<Bytes>);

impl Buf for Parts {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.iter().find(|part| !part.is_empty()).map_or(&[], |part| part)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [io::IoSlice<'a>]) -> usize {
        let parts = self.0.iter().filter(|part| !part.is_empty());
        parts.zip(into).map(|(part, slice)| *slice = io::IoSlice::new(part)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(part) = self.0.front_mut() {
            if count < part.len() {
                return part.advance(count);
            }
            count -= part.len();
            self.0.pop_front();
        }
    }
}

/// A frame that arrived; its header is not yet decoded.
#[derive(Debug)]
pub struct InFrame {
    header: Bytes,
    /// A single part if it came over a network.
    body: Vec<Bytes>,
    /// The shared memory for the reply.
    answer: Option<BorrowedHalf>,
    /// The pool for the reply.
    pool: Option<Arc<BufferPool>>,
    is_in_process: bool,
}

impl InFrame {
    pub(crate) fn from_parts(header: Bytes, body: Bytes) -> Self {
        Self { header, body: vec![body], answer: None, pool: None, is_in_process: false }
    }

    /// A frame that arrived over a byte stream, whose reply takes its memory from `pool`.
    pub(crate) fn from_network(header: Bytes, body: Bytes, pool: &Arc<BufferPool>) -> Self {
        Self { pool: Some(Arc::clone(pool)), ..Self::from_parts(header, body) }
    }

    /// Copies the body into memory of its own.
    pub(crate) fn with_own_body(self) -> Self {
        let copy = |part: &Bytes| Bytes::copy_from_slice(part);
        Self { body: self.body.iter().map(copy).collect(), ..self }
    }

    pub(crate) fn with_answer(self, half: BorrowedHalf) -> Self {
        Self { answer: Some(half), ..self }
    }

    /// Returns memory for the body of the reply, to be filled and passed to [`OutFrame::reply`]. Its initial contents are
    /// unspecified.
    #[must_use]
    pub fn reply(&mut self, len: usize) -> ReplyBuffer {
        match (self.answer.take(), &self.pool) {
            (Some(half), _) => ReplyBuffer::shared(half, len),
            (None, Some(pool)) => ReplyBuffer::pooled(pool, len),
            (None, None) => ReplyBuffer::own(len),
        }
    }

    /// Parses a frame: the header's length in four bytes, the header, the body.
    ///
    /// # Errors
    /// When the frame is too short or too long, or its header does not fit.
    pub fn read(mut bytes: impl Buf) -> Result<Self> {
        let broken = |why: String| Error::new(Code::BadMessage, "a frame is malformed").because(why);
        let length = bytes.remaining();
        if length > limits::FRAME_BYTES {
            return Err(broken(format!("{length} bytes, at most {} are accepted", limits::FRAME_BYTES)));
        }
        if length < 4 {
            return Err(broken(format!("{length} bytes are too few for a header length")));
        }
        let header = bytes.get_u32_le() as usize;
        if header > bytes.remaining().min(limits::HEADER_BYTES) {
            return Err(broken(format!("its header should have {header} bytes, {} follow", bytes.remaining())));
        }
        let header = bytes.copy_to_bytes(header);
        let body = bytes.copy_to_bytes(bytes.remaining());
        Ok(Self::from_parts(header, body))
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// When the bytes are not such a message.
    pub fn header<M: Message + Default>(&self) -> Result<M> {
        M::decode(&*self.header)
            .map_err(|error| Error::new(Code::BadMessage, "a frame's header is malformed").because(error))
    }

    /// Returns the body as one piece. It is copied if it has several parts.
    #[must_use]
    pub fn body(&self) -> Bytes {
        match &self.body[..] {
            [part] => part.clone(),
            parts => parts.concat().into(),
        }
    }

    /// Returns the parts of the body as the sender made them. No value is split over two parts.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.body
    }

    /// Returns whether the sender is in this process and waits for the reply.
    #[must_use]
    pub fn is_in_process(&self) -> bool {
        self.is_in_process
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::control::Identity;

    fn header() -> Identity {
        Identity { task: "ps/0".into(), protocol: 300, ..Identity::default() }
    }

    #[test]
    fn frames_come_back_as_they_were_sent() {
        let mut frame = OutFrame::new(&header());
        frame.push(Bytes::from_static(b"abc"));
        frame.push(Bytes::from_static(b"defg"));
        let back = frame.to_in_frame().unwrap();
        assert_eq!(back.header::<Identity>().unwrap(), header());
        assert_eq!(&back.body()[..], b"abcdefg");
        let inside = frame.hand_over(&Arc::default());
        assert_eq!((&inside.body()[..], inside.parts().len(), inside.is_in_process()), (&b"abcdefg"[..], 2, true));
    }

    #[test]
    fn parts_are_written_without_a_copy() {
        let mut frame = OutFrame::new(&header());
        for part in [&b"ab"[..], b"", b"cdef", b"g"] {
            frame.push(Bytes::from_static(part));
        }
        let mut start = Vec::new();
        frame.put_prefix(&mut start);
        let mut body = frame.into_body();
        assert_eq!((body.remaining(), body.chunks_vectored(&mut [io::IoSlice::new(&[]); 8])), (7, 3));
        body.advance(3);
        assert_eq!(body.chunk(), b"def");
        assert_eq!(&body.copy_to_bytes(4)[..], b"defg");
        assert!(!body.has_remaining());
    }

    #[test]
    fn broken_frames_are_errors() {
        let cases: [&[u8]; 4] = [b"", b"abc", &[255, 255, 255, 255, 0], &[9, 0, 0, 0, 1, 2]];
        for bytes in cases {
            assert_eq!(InFrame::read(bytes).unwrap_err().code(), Code::BadMessage, "{bytes:?}");
        }
        let garbage = InFrame::read(&[2_u8, 0, 0, 0, 0x0a, 0xff][..]).unwrap();
        assert_eq!(garbage.header::<Identity>().unwrap_err().code(), Code::BadMessage);
    }
}
