//! Frames over the socket itself.
//!
//! Alternately, a request `[u32 length][u32 header length][header][body]` and a reply of the same form after one byte that
//! tells frames from errors.

use super::{FAULT, FRAME, invalid};
use crate::bulk::Handler;
use crate::connections::Activity;
use crate::frame::{InFrame, OutFrame};
use crate::{fault, limits};
use bytes::{Buf, Bytes, BytesMut};
use phalanx_base::{Error, Result};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// One end of a connection, and its read buffer.
pub(super) struct Connection {
    stream: UnixStream,
    buffer: BytesMut,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    async fn write(&mut self, first: &[u8], parts: &mut (impl Buf + ?Sized)) -> io::Result<()> {
        let mut all = Buf::chain(first, parts);
        self.stream.write_all_buf(&mut all).await
    }

    async fn refuse(&mut self, error: &Error) -> io::Result<()> {
        let fault = fault::error_to_bytes(error);
        let mut start = vec![FAULT];
        start.extend((fault.len() as u32).to_le_bytes());
        self.write(&start, &mut &fault[..]).await
    }

    /// Reads `[u32 length]` and that many bytes; the length is checked first.
    async fn read(&mut self) -> io::Result<Bytes> {
        let length = self.stream.read_u32_le().await? as usize;
        if length > limits::FRAME_BYTES {
            return Err(invalid(format!("a frame of {length} bytes, at most {} are accepted", limits::FRAME_BYTES)));
        }
        self.buffer.clear();
        // Reuses the old memory once the last frame has been dropped.
        self.buffer.reserve(length);
        let rest = async {
            let mut stream = (&mut self.stream).take(length as u64);
            while self.buffer.len() < length {
                if stream.read_buf(&mut self.buffer).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
            }
            Ok(())
        };
        tokio::time::timeout(limits::BODY, rest)
            .await
            .map_err(|_| invalid("the rest of a frame did not arrive".into()))??;
        Ok(self.buffer.split().freeze())
    }

    /// Sends a request and waits for the reply.
    pub(super) async fn exchange(&mut self, frame: OutFrame) -> io::Result<Result<InFrame>> {
        let mut start = Vec::with_capacity(256);
        frame.put_prefix(&mut start);
        self.write(&start, &mut frame.into_body()).await?;
        let kind = self.stream.read_u8().await?;
        let bytes = self.read().await?;
        match kind {
            FRAME => Ok(InFrame::read(bytes)),
            _ => Ok(Err(fault::decode(bytes)?)),
        }
    }

    /// Serves requests until the client closes the connection.
    pub(super) async fn serve(&mut self, handler: &Arc<dyn Handler>, activity: &Activity) -> io::Result<()> {
        loop {
            let frame = self.read().await?;
            activity.heard();
            let answer = match InFrame::read(frame) {
                Ok(frame) => Arc::clone(handler).call(frame).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(frame) => {
                    let mut start = vec![FRAME];
                    frame.put_prefix(&mut start);
                    self.write(&start, &mut frame.into_body()).await?;
                }
                Err(error) => self.refuse(&error).await?,
            }
            activity.heard();
        }
    }
}
