//! The client's end.

use super::{FRAME, PREFIX};
use crate::connect::Stream;
use crate::frame::{InFrame, OutFrame};
use crate::{fault, limits};
use bytes::{Buf, Bytes, BytesMut};
use phalanx_base::{Code, Error, Result};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The capacity for the first read of a reply: one call is enough for a small one.
const FIRST_READ: usize = 16 << 10;

pub(crate) struct Connection {
    stream: Stream,
    buffer: BytesMut,
    /// The length of the last reply: the next one is probably as long.
    expected: usize,
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, buffer: BytesMut::new(), expected: FIRST_READ }
    }

    /// Sends a request and waits for the reply.
    pub(crate) async fn exchange(&mut self, frame: OutFrame) -> io::Result<Result<InFrame>> {
        if frame.len() > limits::FRAME_BYTES {
            return Ok(Err(Error::new(Code::BadMessage, "a frame is too large to be sent").because(format!(
                "{} bytes, at most {} are accepted",
                frame.len(),
                limits::FRAME_BYTES
            ))));
        }
        let mut prefix = Vec::with_capacity(256);
        frame.put_prefix(&mut prefix);
        self.stream.write_all_buf(&mut Buf::chain(&prefix[..], frame.into_body())).await?;
        // An encrypted stream may still hold the end.
        self.stream.flush().await?;
        let (kind, frame) = self.read().await?;
        match kind {
            FRAME => Ok(InFrame::read(frame)),
            _ => Ok(Err(fault::decode(frame)?)),
        }
    }

    /// Reads a reply: its kind, and the frame without its length.
    async fn read(&mut self) -> io::Result<(u8, Bytes)> {
        self.buffer.clear();
        // Reuses the old memory once the last frame has been dropped.
        self.buffer.reserve(self.expected.max(FIRST_READ));
        self.fill(PREFIX - 3).await?;
        let kind = self.buffer.get_u8();
        let length = self.buffer.get_u32_le() as usize;
        if length > limits::FRAME_BYTES {
            let why = format!("a frame of {length} bytes, at most {} are accepted", limits::FRAME_BYTES);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.expected = length + PREFIX;
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        let rest = tokio::time::timeout(limits::BODY, self.fill(length)).await;
        rest.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the rest of a frame did not arrive"))??;
        if self.buffer.len() > length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes that nobody requested"));
        }
        Ok((kind, self.buffer.split().freeze()))
    }

    /// Reads until the buffer has `length` bytes.
    async fn fill(&mut self, length: usize) -> io::Result<()> {
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}
