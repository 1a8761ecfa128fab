//! The server's end.

use super::{FAULT, FRAME, PREFIX};
use crate::buffer_pool::BufferPool;
use crate::bulk::Handler;
use crate::connect::Stream;
use crate::connections::Activity;
use crate::frame::{InFrame, OutFrame};
use crate::serving_thread::{self, Calls};
use crate::{PeerStream, fault, limits};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use std::io::{self, IoSlice, Read};
use std::sync::Arc;
use std::time::Instant;

/// The bytes of a request that its first read may take.
const FIRST_READ: usize = 16 << 10;

/// Serves one connection after its handshake, until its client closes it. The thread starts with the first request, which
/// must come in time, so a stranger that says nothing costs none.
pub(crate) async fn serve(
    stream: Stream,
    handler: Arc<dyn Handler>,
    pool: Arc<BufferPool>,
    activity: Activity,
) -> io::Result<()> {
    let first = tokio::time::timeout(limits::HANDSHAKE, stream.readable()).await;
    first.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no request arrived"))??;
    let stream = PeerStream::from_tokio(stream)?;
    serving_thread::run(stream, handler, activity, move |stream, calls| serve_requests(stream, calls, &pool)).await
}

fn serve_requests(stream: &PeerStream, calls: &mut Calls, pool: &Arc<BufferPool>) -> io::Result<()> {
    let mut start = vec![0; FIRST_READ];
    while let Some(request) = read(stream, &mut start, pool)? {
        calls.heard();
        let answer = match request {
            Ok(frame) => match calls.answer(frame) {
                Some(answer) => answer,
                None => return Ok(()),
            },
            Err(error) => Err(error),
        };
        match answer {
            Ok(frame) if frame.len() > limits::FRAME_BYTES => {
                write_fault(stream, &Error::new(Code::BadMessage, "a reply is too large for one frame"))?;
            }
            Ok(frame) => write(stream, &frame)?,
            Err(error) => write_fault(stream, &error)?,
        }
        calls.heard();
    }
    Ok(())
}

fn write(stream: &PeerStream, frame: &OutFrame) -> io::Result<()> {
    let mut prefix = vec![FRAME];
    frame.put_prefix(&mut prefix);
    let mut parts: Vec<IoSlice<'_>> = [&prefix[..]].into_iter().chain(frame.slices()).map(IoSlice::new).collect();
    stream.write_all_parts(&mut parts)
}

fn write_fault(stream: &PeerStream, error: &Error) -> io::Result<()> {
    let fault = fault::error_to_bytes(error);
    let prefix = [&[FAULT][..], &(fault.len() as u32).to_le_bytes()].concat();
    stream.write_all_parts(&mut [IoSlice::new(&prefix), IoSlice::new(&fault)])
}

/// Reads a request; `None` at the end of the stream, an inner error if the frame is malformed. Waits for its first byte
/// without a deadline: a client may compute for long. Then the rest must follow in time.
fn read(stream: &PeerStream, start: &mut [u8], pool: &Arc<BufferPool>) -> io::Result<Option<Result<InFrame>>> {
    let mut source = Arriving { stream, until: None };
    let mut count = source.read(start)?;
    if count == 0 {
        return Ok(None);
    }
    while count < 4 {
        count += source.more(&mut start[count..])?;
    }
    let word = |start: &[u8], at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
    let length = word(start, 0) as usize;
    if length > limits::FRAME_BYTES {
        let why = format!("a frame of {length} bytes, at most {} are accepted", limits::FRAME_BYTES);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    while count < PREFIX.min(4 + length) {
        count += source.more(&mut start[count..])?;
    }
    if count > 4 + length {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a second request before the reply to the first"));
    }
    if length < 4 {
        source.arrived()?;
        return Ok(Some(Err(malformed(format!("{length} bytes are too few for a header length")))));
    }
    let (header, rest) = (word(start, 4) as usize, length - 4);
    let fits = header <= rest.min(limits::HEADER_BYTES);
    let header_length = if fits { header } else { 0 };
    let begun = &start[PREFIX..count];
    let (in_header, in_body) = begun.split_at(begun.len().min(header_length));
    let header_bytes = source.complete(Buffer::own(header_length), in_header)?;
    let body = source.complete(Buffer::new(pool, rest - header_length), in_body)?;
    source.arrived()?;
    if !fits {
        return Ok(Some(Err(malformed(format!("its header should have {header} bytes, {rest} follow")))));
    }
    Ok(Some(Ok(InFrame::from_network(header_bytes, body, pool))))
}

fn malformed(why: String) -> Error {
    Error::new(Code::BadMessage, "a frame is malformed").because(why)
}

/// The memory for a part of a request.
enum Buffer {
    Own(Vec<u8>),
    Pooled(crate::buffer_pool::PooledBuffer),
}

impl Buffer {
    fn own(length: usize) -> Self {
        Self::Own(vec![0; length])
    }

    fn new(pool: &Arc<BufferPool>, length: usize) -> Self {
        pool.take(length).map_or_else(|| Self::own(length), Self::Pooled)
    }
}

/// A request whose first byte has arrived, or will.
struct Arriving<'a> {
    stream: &'a PeerStream,
    /// When the rest must be there; `None` before anything had to be waited for.
    until: Option<Instant>,
}

impl Arriving<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.stream).read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Reads more of the request.
    fn more(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the rest of a frame did not arrive");
        match self.until {
            None => {
                self.stream.set_read_timeout(Some(limits::BODY))?;
                self.until = Some(Instant::now() + limits::BODY);
            }
            Some(until) if Instant::now() > until => return Err(late()),
            Some(_) => {}
        }
        match self.read(into) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(late()),
            other => other,
        }
    }

    /// Fills a buffer that begins with these bytes.
    fn complete(&mut self, buffer: Buffer, begun: &[u8]) -> io::Result<Bytes> {
        let mut fill = |into: &mut [u8]| {
            let (first, mut rest) = into.split_at_mut(begun.len());
            first.copy_from_slice(begun);
            while !rest.is_empty() {
                let count = self.more(rest)?;
                rest = &mut rest[count..];
            }
            io::Result::Ok(())
        };
        match buffer {
            Buffer::Own(mut bytes) => fill(&mut bytes).map(|()| bytes.into()),
            Buffer::Pooled(mut bytes) => fill(bytes.as_mut()).map(|()| Bytes::from_owner(bytes)),
        }
    }

    /// Ends the deadline: the next request may take its time.
    fn arrived(&self) -> io::Result<()> {
        if self.until.is_some() { self.stream.set_read_timeout(None) } else { Ok(()) }
    }
}
