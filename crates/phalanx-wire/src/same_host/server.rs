//! The server's end of a connection with shared memory.

use super::invalid;
use super::shared::{MEMORY, Notice};
use super::shared_slot::{self, SharedSlot, Unfit};
use crate::bulk::Handler;
use crate::connections::Activity;
use crate::frame::OutFrame;
use crate::framed::{FAULT, FRAME};
use crate::serving_thread::{self, Calls};
use crate::{PeerStream, fault, limits, memory};
use bytes::Bytes;
use phalanx_base::{Code, Error};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Receives the memory that the peer offers, and serves until the peer closes the connection.
pub(crate) async fn serve(stream: UnixStream, handler: Arc<dyn Handler>, activity: Activity) -> io::Result<()> {
    let receive = stream.async_io(Interest::READABLE, || memory::receive(stream.as_fd()));
    let received = tokio::time::timeout(limits::HANDSHAKE, receive).await;
    let (byte, file) = received.map_err(|_| invalid("no memory arrived".into()))??;
    let slots = match file {
        Some(file) if byte == MEMORY => shared_slot::slots(&file)?,
        _ => return Err(invalid("no memory arrived".into())),
    };
    let stream = PeerStream::from_tokio(stream.into())?;
    serving_thread::run(stream, handler, activity, move |stream, calls| serve_requests(stream, &slots, calls)).await
}

fn serve_requests(stream: &PeerStream, slots: &[SharedSlot], calls: &mut Calls) -> io::Result<()> {
    while let Some(notice) = read(stream)? {
        calls.heard();
        let Some(answer) = answer(slots, notice, calls)? else { return Ok(()) };
        (&mut &*stream).write_all(&answer.to_bytes())?;
        calls.heard();
    }
    Ok(())
}

/// Waits for the next request; `None` at the end. Once its first byte has arrived, the rest must follow in time.
fn read(mut stream: &PeerStream) -> io::Result<Option<Notice>> {
    let mut bytes = [0; 16];
    let read = stream.read(&mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    if read < bytes.len() {
        stream.set_read_timeout(Some(limits::BODY))?;
        stream.read_exact(&mut bytes[read..])?;
        stream.set_read_timeout(None)?;
    }
    Ok(Some(Notice::from_bytes(bytes)))
}

/// Answers a request; `None` if serving has stopped.
fn answer(slots: &[SharedSlot], notice: Notice, calls: &mut Calls) -> io::Result<Option<Notice>> {
    let number = usize::from(notice.slot);
    let Some(slot) = slots.get(number) else {
        return Err(invalid(format!("there is no slot {number}")));
    };
    let answer = match slot.take_request(notice.lengths) {
        Ok(frame) => match calls.answer(frame) {
            Some(answer) => answer,
            None => return Ok(None),
        },
        Err(error) => Err(error),
    };
    let kept = || invalid("a frame was kept beyond its reply".into());
    let too_large = || Error::new(Code::BadMessage, "a reply is too large for one frame");
    let (kind, lengths) = match answer.map(|frame| slot.put_answer(frame)) {
        Ok(Ok(lengths)) => (FRAME, Ok(lengths)),
        Ok(Err(Unfit::InUse)) => return Err(kept()),
        Ok(Err(Unfit::TooLarge)) => (FAULT, slot.put_answer(error_frame(&too_large()))),
        Err(error) => (FAULT, slot.put_answer(error_frame(&error))),
    };
    if !slot.is_free() {
        // The peer may write here from now on, so nothing here may hold it.
        return Err(kept());
    }
    let lengths = lengths.map_err(|_| invalid("an error does not fit into a frame".into()))?;
    Ok(Some(Notice { kind, slot: notice.slot, lengths }))
}

/// Returns a frame whose body is an error.
fn error_frame(error: &Error) -> OutFrame {
    let mut frame = OutFrame::default();
    frame.push(Bytes::from(fault::error_to_bytes(error)));
    frame
}
