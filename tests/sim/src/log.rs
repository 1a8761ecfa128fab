//! A server's write-ahead log: the real one, in memory that its process does not take along, and snapshots that are published some
//! time after they were taken.

use crate::net::{Part, StepKey};
use crate::server::Held;
use phalanx_base::{Code, Incarnation, Role, TaskId, UpdateId};
use phalanx_cluster::schedule::{StepId, TaskIncarnation};
use phalanx_wal::{Found, Heap, Wal, WalOptions};

/// Small, so that segments are used again and again, and the log is sometimes full.
const SEGMENT: usize = 1024;
const SEGMENTS: usize = 3;
const SNAPSHOT_AFTER: u64 = 1000;

const PUSH: u32 = 1;
const FENCE: u32 = 2;

/// What a server records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogRecord {
    Push(Part),
    Fence(TaskIncarnation),
}

/// Where in an append a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    Reserved,
    /// This number of eighths of the body is there.
    Copied(u64),
    Complete,
}

/// A snapshot, and where the log continues it.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) held: Held,
    pub(crate) restored: bool,
    position: u64,
}

/// The log of one server. What `memory` and `published` hold survives the process.
pub(crate) struct ServerLog {
    memory: Heap,
    published: Option<Base>,
    wal: Option<Wal>,
    writing: Option<Base>,
}

/// What a replay found.
pub(crate) struct Replay {
    pub(crate) base: Base,
    pub(crate) records: Vec<LogRecord>,
    pub(crate) torn: Vec<LogRecord>,
}

const fn options() -> WalOptions {
    WalOptions { log: 5, most_segments: SEGMENTS }
}

impl ServerLog {
    /// Starts the log of a server that holds this.
    pub(crate) fn start(held: Held) -> Self {
        let memory = Heap::new(SEGMENT);
        let wal = Wal::create(Box::new(memory.clone()), options()).ok();
        let position = wal.as_ref().map_or(0, Wal::end);
        Self { memory, published: Some(Base { held, restored: false, position }), wal, writing: None }
    }

    /// The process dies, in the middle of an append or not.
    pub(crate) fn die(&mut self, record: Option<(&LogRecord, Death)>) {
        if let Some((record, death)) = record {
            let (kind, body) = encode(record);
            let reserved = self.wal.as_ref().and_then(|wal| wal.reserve(kind, body.len()).ok());
            if let Some(mut reserved) = reserved {
                match death {
                    Death::Reserved => {}
                    Death::Copied(eighths) => reserved.push(&body[..body.len() * eighths as usize / 8]),
                    Death::Complete => {
                        reserved.push(&body);
                        reserved.commit();
                    }
                }
            }
        }
        (self.wal, self.writing) = (None, None);
    }

    pub(crate) fn append(&self, record: &LogRecord) -> Result<(), Code> {
        let (kind, body) = encode(record);
        let appended = self.wal.as_ref().map(|wal| wal.append(kind, &[&body]));
        appended.map_or(Ok(()), |appended| appended.map(drop).map_err(|error| error.code()))
    }

    /// Whether a snapshot should be taken, and none is being written.
    pub(crate) fn is_due(&self) -> bool {
        self.writing.is_none() && self.wal.as_ref().is_some_and(|wal| wal.held() > SNAPSHOT_AFTER)
    }

    /// Takes a snapshot of what the server holds. With `cuts`, a planted bug, the log is cut off before it is published.
    pub(crate) fn take_snapshot(&mut self, held: Held, restored: bool, cuts: bool) {
        let Some(wal) = &self.wal else { return };
        let position = wal.end();
        self.writing = Some(Base { held, restored, position });
        if cuts {
            wal.truncate(position);
        }
    }

    /// Publishes the snapshot that was being written, and cuts the log off. With `late`, a planted bug, the log is taken to
    /// continue it here; without `remembers`, another one, the snapshot has no applied updates.
    pub(crate) fn publish(&mut self, late: bool, remembers: bool) -> bool {
        let (Some(wal), Some(mut base)) = (&self.wal, self.writing.take()) else { return false };
        if late {
            base.position = wal.end();
        }
        if !remembers {
            base.held.progress.clear();
        }
        let position = base.position;
        self.published = Some(base);
        wal.truncate(position);
        true
    }

    /// Continues with the log of the former process.
    pub(crate) fn recover(&mut self) -> Result<Replay, String> {
        let base = self.published.clone().ok_or("no snapshot was published")?;
        let (mut records, mut torn) = (Vec::new(), Vec::new());
        let wal = Wal::recover(Box::new(self.memory.clone()), options(), base.position, |found| {
            match found {
                Found::Record { kind, body, .. } => records.extend(decode(kind, body)),
                Found::Torn { kind, body, .. } => torn.extend(decode(kind, body)),
            }
            Ok(())
        });
        self.wal = Some(wal.map_err(|error| error.to_string())?);
        Ok(Replay { base, records, torn })
    }
}

fn encode(record: &LogRecord) -> (u32, Vec<u8>) {
    let life = |task: TaskId, incarnation: Incarnation| {
        let role = Role::ALL.iter().position(|&role| role == task.role).unwrap_or(0);
        [role as u64, task.index.into(), incarnation.0]
    };
    let (kind, words) = match record {
        LogRecord::Push(Part { update, step, part, parts, by_another }) => {
            let rest =
                [update.sequence, step.epoch, step.step.0, (*part).into(), (*parts).into(), u64::from(*by_another)];
            (PUSH, [&life(update.task, update.incarnation)[..], &rest].concat())
        }
        LogRecord::Fence(lost) => (FENCE, life(lost.task, lost.incarnation).to_vec()),
    };
    (kind, words.into_iter().flat_map(u64::to_le_bytes).collect())
}

fn decode(kind: u32, body: &[u8]) -> Option<LogRecord> {
    let words: Vec<u64> = body.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (&[role, index, incarnation], rest) = words.split_first_chunk::<3>()?;
    let task = TaskId::new(*Role::ALL.get(role as usize)?, index as u32);
    let incarnation = Incarnation(incarnation);
    if kind == FENCE {
        return Some(LogRecord::Fence(TaskIncarnation::new(task, incarnation)));
    }
    let &[sequence, epoch, step, part, parts, by_another] = rest.first_chunk::<6>()?;
    let update = UpdateId { task, incarnation, sequence };
    let step = StepKey { epoch, step: StepId(step) };
    Some(LogRecord::Push(Part { update, step, part: part as u32, parts: parts as u32, by_another: by_another != 0 }))
}
