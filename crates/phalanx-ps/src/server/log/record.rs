//! The records of a log: an update is the header of its message and the gradients as they came; anything else is a request
//! as it came.

use crate::proto::{Exchange, Request, request};
use crate::server::TaskIncarnation;
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_wal::Wal;
use phalanx_wire::{task_from_wire, task_to_wire};
use prost::Message;

const EXCHANGE: u32 = 1;
const OPERATION: u32 = 2;

/// The bytes before the header of an update: role, index and incarnation of its task, and the length of the header.
const PREFIX: usize = 20;

/// A record that was read.
pub(super) enum Logged {
    Exchange(TaskIncarnation, Box<Exchange>, Bytes),
    Operation(Option<TaskIncarnation>, Box<request::Op>, Bytes),
}

/// Appends an update, of which the first `pushed` bytes of `body` are the gradients.
///
/// Hot path: one copy, no allocation.
pub(super) fn append_exchange(
    wal: &Wal,
    (task, incarnation): TaskIncarnation,
    ask: &Exchange,
    body: &[Bytes],
    pushed: usize,
) -> Result<u64> {
    let header = ask.encoded_len();
    let mut record = wal.reserve(EXCHANGE, PREFIX + header + pushed)?;
    let task = task_to_wire(task, incarnation);
    record.fill(PREFIX, |prefix| {
        prefix[..4].copy_from_slice(&task.role.to_le_bytes());
        prefix[4..8].copy_from_slice(&task.index.to_le_bytes());
        prefix[8..16].copy_from_slice(&task.incarnation.to_le_bytes());
        prefix[16..].copy_from_slice(&(header as u32).to_le_bytes());
    });
    record.fill(header, |mut out| {
        // It has exactly the length that it needs.
        let _ = ask.encode(&mut out);
    });
    let mut left = pushed;
    for part in body {
        let piece = &part[..left.min(part.len())];
        record.push(piece);
        left -= piece.len();
    }
    Ok(record.commit())
}

/// Appends any other operation.
pub(super) fn append_operation(
    wal: &Wal,
    from: Option<TaskIncarnation>,
    op: request::Op,
    body: &[Bytes],
) -> Result<u64> {
    let client = from.map(|(task, incarnation)| task_to_wire(task, incarnation));
    let header = Request { client, op: Some(op), ..Request::default() }.encode_length_delimited_to_vec();
    let parts: Vec<&[u8]> = std::iter::once(&header[..]).chain(body.iter().map(|part| &part[..])).collect();
    wal.append(OPERATION, &parts)
}

/// Reads a record.
pub(super) fn read(kind: u32, body: &[u8]) -> Result<Logged> {
    match kind {
        EXCHANGE => read_exchange(body),
        OPERATION => read_operation(body),
        _ => Err(wrong().because(format!("its kind is {kind}"))),
    }
}

fn read_exchange(body: &[u8]) -> Result<Logged> {
    let (prefix, rest) = body.split_first_chunk::<PREFIX>().ok_or_else(wrong)?;
    let word = |at: usize| u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]);
    let incarnation = u64::from(word(8)) | u64::from(word(12)) << 32;
    let task = phalanx_wire::proto::common::TaskIncarnation { role: word(0), index: word(4), incarnation };
    let (header, gradients) = rest.split_at_checked(word(16) as usize).ok_or_else(wrong)?;
    let ask = Exchange::decode(header).context(Code::LogDamaged, "an update of the log cannot be read")?;
    Ok(Logged::Exchange(task_from_wire(Some(&task))?, Box::new(ask), Bytes::copy_from_slice(gradients)))
}

fn read_operation(mut body: &[u8]) -> Result<Logged> {
    let request = Request::decode_length_delimited(&mut body);
    let request = request.context(Code::LogDamaged, "a record of the log cannot be read")?;
    let from = request.client.as_ref().map(|client| task_from_wire(Some(client))).transpose()?;
    let op = request.op.ok_or_else(wrong)?;
    Ok(Logged::Operation(from, Box::new(op), Bytes::copy_from_slice(body)))
}

fn wrong() -> Error {
    Error::new(Code::LogDamaged, "a record of the write-ahead log is none of a server's")
}
