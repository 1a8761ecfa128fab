//! A frame: a small header and a long body of raw numbers.
//!
//! Bytes: header length as little-endian u32, header, body. Sending copies each part once, into the buffer that the
//! socket is written from; receiving hands the body on without another copy.

use crate::limits;
use crate::neighbour::AnswerHalf;
use crate::reply::ReplyBuffer;
use crate::spares::Spares;
use bytes::{Buf, BufMut, Bytes};
use phalanx_base::{Code, Error, Result};
use prost::Message;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

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
    /// Shares the parts of the body; copies one that was written as a reply.
    fn clone(&self) -> Self {
        let body = match &self.body {
            Body::Parts(parts) => parts.clone(),
            Body::Reply(buffer) => vec![Bytes::copy_from_slice(buffer)],
        };
        Self { header: self.header.clone(), body: Body::Parts(body) }
    }
}

impl OutFrame {
    /// A frame with this header and no body yet.
    #[must_use]
    pub fn new(header: &impl Message) -> Self {
        Self { header: header.encode_to_vec(), body: Body::default() }
    }

    /// An answer with this header, whose body is what was written into `buffer`. Nothing is copied if it answers the
    /// request that the buffer came from.
    #[must_use]
    pub fn reply(header: &impl Message, buffer: ReplyBuffer) -> Self {
        Self { header: header.encode_to_vec(), body: Body::Reply(buffer) }
    }

    pub(crate) fn from_parts(header: Vec<u8>, body: Bytes) -> Self {
        Self { header, body: Body::Parts(vec![body]) }
    }

    /// Appends to the body. What was written into a reply buffer is copied then.
    pub fn push(&mut self, part: Bytes) {
        let mut parts = std::mem::take(&mut self.body).into_parts();
        parts.push(part);
        self.body = Body::Parts(parts);
    }

    /// How many bytes the frame takes.
    #[must_use]
    pub fn len(&self) -> usize {
        4 + self.header.len() + self.slices().map(<[u8]>::len).sum::<usize>()
    }

    /// Whether the frame carries nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.header.is_empty() && self.slices().all(<[u8]>::is_empty)
    }

    /// The frame as a receiver sees it; what tests put between two ends.
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

    /// The body, part by part.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (parts, reply) = match &self.body {
            Body::Parts(parts) => (&parts[..], None),
            Body::Reply(buffer) => (&[][..], Some(&buffer[..])),
        };
        parts.iter().map(|part| &part[..]).chain(reply)
    }

    /// The header, and the slot that the body was written into; the frame where it was not.
    pub(crate) fn into_reply(self) -> Result<(Vec<u8>, AnswerHalf), Self> {
        match self.body {
            Body::Reply(buffer) => match buffer.into_slot() {
                Ok(half) => Ok((self.header, half)),
                Err(bytes) => Err(Self::from_parts(self.header, bytes)),
            },
            body => Err(Self { body, ..self }),
        }
    }

    /// Everything before the body, with the frame's length in front.
    pub(crate) fn put_prefix(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.len() as u32);
        out.put_u32_le(self.header.len() as u32);
        out.put_slice(&self.header);
    }

    /// The frame as who is in this process takes it: nothing is copied.
    pub(crate) fn hand_over(self, spares: &Arc<Spares>) -> InFrame {
        let (body, inside) = (self.body.into_parts(), Some(Arc::clone(spares)));
        InFrame { header: self.header.into(), body, answer: None, inside }
    }

    /// The body, to be written from where it lies.
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
    /// One part where it came over a network.
    body: Vec<Bytes>,
    /// Where the answer can be written at once.
    answer: Option<AnswerHalf>,
    /// Where the answer's memory comes from, for who is in this process.
    inside: Option<Arc<Spares>>,
}

impl InFrame {
    pub(crate) fn from_parts(header: Bytes, body: Bytes) -> Self {
        Self { header, body: vec![body], answer: None, inside: None }
    }

    /// The frame with its body in memory of its own.
    pub(crate) fn with_own_body(self) -> Self {
        let copy = |part: &Bytes| Bytes::copy_from_slice(part);
        Self { body: self.body.iter().map(copy).collect(), ..self }
    }

    pub(crate) fn with_answer(self, half: AnswerHalf) -> Self {
        Self { answer: Some(half), ..self }
    }

    /// Returns memory for the body of the answer, to be filled and handed to [`OutFrame::reply`]. Its contents are
    /// unspecified at first.
    #[must_use]
    pub fn reply(&mut self, len: usize) -> ReplyBuffer {
        match (self.answer.take(), &self.inside) {
            (Some(half), _) => ReplyBuffer::shared(half, len),
            (None, Some(spares)) => ReplyBuffer::pooled(spares, len),
            (None, None) => ReplyBuffer::own(len),
        }
    }

    /// Reads a frame as it comes off the network: the header's length in four bytes, the header, the body.
    ///
    /// # Errors
    /// When it is too short or too long, or its header does not fit.
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
            return Err(broken(format!("its header is said to have {header} bytes, {} follow", bytes.remaining())));
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

    /// The body as one; copied where it has several parts.
    #[must_use]
    pub fn body(&self) -> Bytes {
        match &self.body[..] {
            [whole] => whole.clone(),
            parts => parts.concat().into(),
        }
    }

    /// The body, in parts as its sender made them: nothing that belongs together is in two.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.body
    }

    /// Whether its sender is in this process, and waits.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.inside.is_some()
    }
}

/// Puts frames onto gRPC without protobuf around the numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameCodec;

impl Codec for FrameCodec {
    type Encode = OutFrame;
    type Decode = InFrame;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for FrameCodec {
    type Item = OutFrame;
    type Error = Status;

    fn encode(&mut self, frame: OutFrame, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(frame.len());
        frame.write(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        // One buffer a message: yielding at the default of 32 KiB changes nothing for a single message, and starting
        // small leaves the exact size to `reserve`.
        BufferSettings::new(0, limits::FRAME_BYTES)
    }
}

impl Decoder for FrameCodec {
    type Item = InFrame;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<InFrame>, Status> {
        InFrame::read(buffer).map(Some).map_err(|error| crate::to_status(&error))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(0, limits::FRAME_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::params::{Client, Handles};

    #[test]
    fn frames_come_back_as_they_were_sent() {
        let mut frame = OutFrame::new(&Handles { handles: vec![1, 2, 300] });
        frame.push(Bytes::from_static(b"abc"));
        frame.push(Bytes::from_static(b"defg"));
        let back = frame.to_in_frame().unwrap();
        assert_eq!(back.header::<Handles>().unwrap().handles, [1, 2, 300]);
        assert_eq!(&back.body()[..], b"abcdefg");
        let inside = frame.hand_over(&Arc::default());
        assert_eq!((&inside.body()[..], inside.parts().len(), inside.is_inside()), (&b"abcdefg"[..], 2, true));
    }

    #[test]
    fn parts_are_written_from_where_they_lie() {
        let mut frame = OutFrame::new(&Handles { handles: vec![7] });
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
        assert_eq!(garbage.header::<Client>().unwrap_err().code(), Code::BadMessage);
    }
}
