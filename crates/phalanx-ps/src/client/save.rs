//! Having the servers write a snapshot.

use super::calls::{Client, unexpected};
use crate::proto::{self, Reply, reply, request};
use bytes::Bytes;
use futures_util::future::try_join_all;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::BundleIndex;
use std::io::Write;
use std::time::{Duration, Instant};

/// How long a server may wait for its file before it replies "not yet".
const WAIT_MS: u32 = 2000;

/// What a server reports of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// How long no update could be applied.
    pub pause: Duration,
    /// The number of rows of each table on the server.
    pub table_rows: Vec<u64>,
    /// The size of all numbers in bytes.
    pub bytes: u64,
    /// The number of committed steps, where that server counts them.
    pub global_step: u64,
    /// How many messages had changed values on the server, rounds apart: two snapshots of one server with the same global step
    /// and the same number have the same values.
    pub changes: u64,
}

/// A server's part of a checkpoint, written and not yet published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPart {
    /// The temporary name of the data file; empty if its bytes were fetched.
    pub staged: String,
    /// The size of the data file.
    pub bytes: u64,
    /// The index of its tensors.
    pub index: BundleIndex,
}

impl Client {
    /// Whether a server sees `file` of `location` with this content.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn probe(&self, server: usize, location: &str, file: &str, content: &str) -> Result<bool> {
        let (location, file, content) = (location.to_owned(), file.to_owned(), content.to_owned());
        match self.ask(server, request::Op::Probe(proto::Probe { location, file, content }))?.result {
            Some(reply::Result::Probed(probed)) => Ok(probed.sees),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes a snapshot with this id on every server. With `rounds`, all snapshots are of the same round, which is kept from
    /// closing until every server has taken its own.
    ///
    /// # Errors
    /// When a server does not answer or has no model.
    pub fn take_snapshot(&self, id: u64, rounds: bool) -> Result<Vec<SnapshotInfo>> {
        /// The hold ends by itself if this task dies meanwhile.
        const LONGEST: Duration = Duration::from_secs(5);
        if !rounds {
            return self.snapshot(proto::TakeSnapshot { id, closed: 0, first: false });
        }
        let closed = self.hold_round(LONGEST)?;
        let taken = self.snapshot(proto::TakeSnapshot { id, closed, first: false });
        self.hold_round(Duration::ZERO)?;
        taken
    }

    /// Takes a snapshot of a model that was just created, before it is declared ready.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn take_first_snapshot(&self, id: u64) -> Result<Vec<SnapshotInfo>> {
        self.snapshot(proto::TakeSnapshot { id, closed: 0, first: true })
    }

    fn snapshot(&self, take: proto::TakeSnapshot) -> Result<Vec<SnapshotInfo>> {
        let replies = self.call_all(|_| self.frame(None, request::Op::TakeSnapshot(take)))?;
        let info = |(reply, _): (Reply, Bytes)| match reply.result {
            Some(reply::Result::SnapshotTaken(taken)) => Ok(SnapshotInfo {
                pause: Duration::from_micros(taken.pause_micros),
                table_rows: taken.table_rows,
                bytes: taken.bytes,
                global_step: taken.global_step,
                changes: taken.changes,
            }),
            other => Err(unexpected(&other)),
        };
        replies.into_iter().map(info).collect()
    }

    /// Has every server write its part of the snapshot into `location`, each into the file that `file` names for it, all
    /// at once, and waits for them until `deadline`.
    ///
    /// # Errors
    /// When a server cannot write its part, released the snapshot, or does not answer.
    pub fn save(
        &self,
        id: u64,
        snapshots: &[SnapshotInfo],
        location: &str,
        file: impl Fn(usize) -> String,
        deadline: Instant,
    ) -> Result<Vec<StagedPart>> {
        let read = |reply: Reply, body: Bytes| match reply.result {
            Some(reply::Result::Saved(saved)) if saved.done => {
                let index = BundleIndex::parse(&body)?;
                Ok(Some(StagedPart { staged: saved.staged, bytes: saved.bytes, index }))
            }
            Some(reply::Result::Saved(_)) => Ok(None),
            other => Err(unexpected(&other)),
        };
        let save = |(server, part): (usize, proto::Part)| {
            let (location, file, part) = (location.to_owned(), file(server), Some(part));
            let op = request::Op::Save(proto::Save { snapshot: id, location, file, part, wait_ms: WAIT_MS });
            self.poll((server, None), op, deadline, "has not written its part in time", read)
        };
        self.block(try_join_all(parts(snapshots).into_iter().enumerate().map(save)))
    }

    /// Fetches a server's part of the snapshot into `out`.
    ///
    /// # Errors
    /// When the server released the snapshot or does not answer, or `out` cannot be written.
    pub fn fetch(
        &self,
        id: u64,
        snapshots: &[SnapshotInfo],
        server: usize,
        out: &mut impl Write,
    ) -> Result<StagedPart> {
        let part = parts(snapshots).swap_remove(server);
        for block in 1.. {
            let fetch = proto::Fetch { snapshot: id, block, part: Some(part.clone()) };
            let (reply, body) = self.block(self.call(server, self.frame(None, request::Op::Fetch(fetch))))?;
            match reply.result {
                Some(reply::Result::Saved(saved)) if saved.done => {
                    let (bytes, index) = (saved.bytes, BundleIndex::parse(&body)?);
                    return Ok(StagedPart { staged: String::new(), bytes, index });
                }
                Some(reply::Result::Saved(_)) => out.write_all(&body).map_err(|error| {
                    Error::new(Code::StorageWrite, "a server's part of the checkpoint cannot be written").because(error)
                })?,
                other => return Err(unexpected(&other)),
            }
        }
        Err(Error::new(Code::Internal, "a server's part has no end"))
    }

    /// Releases the snapshot on every server. A server that does not receive this releases it when it takes the next one.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn release(&self, id: u64) -> Result<()> {
        let release = proto::ReleaseSnapshot { snapshot: id };
        self.call_all(|_| self.frame(None, request::Op::ReleaseSnapshot(release))).map(drop)
    }
}

/// Returns the position of each server's rows among all rows of a table.
fn parts(snapshots: &[SnapshotInfo]) -> Vec<proto::Part> {
    let tables = snapshots.iter().map(|info| info.table_rows.len()).max().unwrap_or(0);
    let rows = |info: &SnapshotInfo, table: usize| info.table_rows.get(table).copied().unwrap_or(0);
    let totals: Vec<u64> = (0..tables).map(|table| snapshots.iter().map(|info| rows(info, table)).sum()).collect();
    let mut before = vec![0; tables];
    let mut parts = Vec::with_capacity(snapshots.len());
    for (server, info) in (0..).zip(snapshots) {
        let span = |table: usize| proto::Span { first: before[table], total: totals[table] };
        parts.push(proto::Part { server, servers: snapshots.len() as u32, tables: (0..tables).map(span).collect() });
        (0..tables).for_each(|table| before[table] += rows(info, table));
    }
    parts
}
