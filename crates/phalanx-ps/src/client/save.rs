//! Has the servers write an instant down.

use super::calls::{Client, unexpected};
use bytes::Bytes;
use futures_util::future::try_join_all;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::BundleIndex;
use phalanx_wire::proto::params::{self, reply, request};
use std::io::Write;
use std::time::{Duration, Instant};

/// How long one question whether a file is written may wait before it is asked again.
const WAIT_MS: u32 = 2000;

/// What a server says of an instant it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutMade {
    /// How long no update could be applied.
    pub pause: Duration,
    /// How many rows each table has there.
    pub table_rows: Vec<u64>,
    /// How many bytes of numbers there are.
    pub bytes: u64,
    /// The committed steps, where that server counts them.
    pub global_step: u64,
}

/// A server's part of a checkpoint, written and not yet published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name under which the data file waits; empty if its bytes were fetched.
    pub staged: String,
    /// How many bytes the data file has.
    pub bytes: u64,
    /// What is in it.
    pub index: BundleIndex,
}

impl Client {
    /// Whether a server sees `file` of `location` with this content.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn probe(&self, server: usize, location: &str, file: &str, content: &str) -> Result<bool> {
        let (location, file, content) = (location.to_owned(), file.to_owned(), content.to_owned());
        let op = request::Op::Probe(params::Probe { location, file, content });
        match self.block(self.call(server, self.frame(op)))?.0.result {
            Some(reply::Result::Probed(probed)) => Ok(probed.sees),
            other => Err(unexpected(&other)),
        }
    }

    /// Has every server keep one instant, called `id`. With `rounds`, the instant is the same on all of them: the open
    /// round is kept from closing until every server has it.
    ///
    /// # Errors
    /// When a server does not answer or has no model.
    pub fn cut(&self, id: u64, rounds: bool) -> Result<Vec<CutMade>> {
        /// The open round closes by itself if this task dies meanwhile.
        const LONGEST: Duration = Duration::from_secs(5);
        if !rounds {
            return self.cut_at(params::Cut { id, closed: 0, first: false });
        }
        let closed = self.hold(LONGEST)?;
        let cuts = self.cut_at(params::Cut { id, closed, first: false });
        self.hold(Duration::ZERO)?;
        cuts
    }

    /// The same of a model that has just been made, before anybody is told that it is ready.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn first_cut(&self, id: u64) -> Result<Vec<CutMade>> {
        self.cut_at(params::Cut { id, closed: 0, first: true })
    }

    fn hold(&self, time: Duration) -> Result<u64> {
        let op = request::Op::Hold(params::Hold { millis: time.as_millis() as u32 });
        let answer = self.block(self.call(0, self.frame(op)))?.0;
        match answer.result {
            Some(reply::Result::Arrived(params::Arrived { round: Some(round) })) => Ok(round),
            other => Err(unexpected(&other)),
        }
    }

    fn cut_at(&self, cut: params::Cut) -> Result<Vec<CutMade>> {
        let answers = self.call_all(|_| self.frame(request::Op::Cut(cut)))?;
        let made = |(answer, _): (params::Reply, Bytes)| match answer.result {
            Some(reply::Result::CutMade(made)) => Ok(CutMade {
                pause: Duration::from_micros(made.pause_micros),
                table_rows: made.table_rows,
                bytes: made.bytes,
                global_step: made.global_step,
            }),
            other => Err(unexpected(&other)),
        };
        answers.into_iter().map(made).collect()
    }

    /// Has every server write its part of the instant into `location`, each into the file that `file` names for it, all
    /// at once, and waits for them until `deadline`.
    ///
    /// # Errors
    /// When a server cannot write its part, gave the instant up, or does not answer.
    pub fn save(
        &self,
        id: u64,
        cuts: &[CutMade],
        location: &str,
        file: impl Fn(usize) -> String,
        deadline: Instant,
    ) -> Result<Vec<Part>> {
        let parts = parts(cuts);
        let save = |(server, part): (usize, params::Part)| {
            let (location, file) = (location.to_owned(), file(server));
            async move {
                let save = params::Save { cut: id, location, file, part: Some(part), wait_ms: WAIT_MS };
                loop {
                    let op = request::Op::Save(save.clone());
                    let (answer, body) = self.call(server, self.frame(op)).await?;
                    match answer.result {
                        Some(reply::Result::Saved(saved)) if saved.done => {
                            let index = BundleIndex::parse(&body)?;
                            return Ok(Part { staged: saved.staged, bytes: saved.bytes, index });
                        }
                        Some(reply::Result::Saved(_)) => {}
                        other => return Err(unexpected(&other)),
                    }
                    if Instant::now() > deadline || (self.options().stop)() {
                        return Err(Error::new(Code::OutcomeUnknown, "a server has not written its part in time"));
                    }
                }
            }
        };
        self.block(try_join_all(parts.into_iter().enumerate().map(save)))
    }

    /// Fetches a server's part of the instant into `out`.
    ///
    /// # Errors
    /// When the server gave the instant up or does not answer, or `out` cannot be written.
    pub fn fetch(&self, id: u64, cuts: &[CutMade], server: usize, out: &mut impl Write) -> Result<Part> {
        let part = parts(cuts).swap_remove(server);
        for block in 1.. {
            let fetch = params::Fetch { cut: id, block, part: Some(part.clone()) };
            let (answer, body) = self.block(self.call(server, self.frame(request::Op::Fetch(fetch))))?;
            match answer.result {
                Some(reply::Result::Saved(saved)) if saved.done => {
                    return Ok(Part { staged: String::new(), bytes: saved.bytes, index: BundleIndex::parse(&body)? });
                }
                Some(reply::Result::Saved(_)) => out.write_all(&body).map_err(|error| {
                    Error::new(Code::StorageWrite, "a server's part of the checkpoint cannot be written").because(error)
                })?,
                other => return Err(unexpected(&other)),
            }
        }
        Err(Error::new(Code::Internal, "a server's part has no end"))
    }

    /// Tells every server that the instant is not needed any more. A server that does not hear it finds out with the
    /// next one.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn release(&self, id: u64) -> Result<()> {
        self.call_all(|_| self.frame(request::Op::Release(params::Release { cut: id }))).map(drop)
    }
}

/// Where each server's rows are among all rows of a table.
fn parts(cuts: &[CutMade]) -> Vec<params::Part> {
    let tables = cuts.iter().map(|cut| cut.table_rows.len()).max().unwrap_or(0);
    let rows = |cut: &CutMade, table: usize| cut.table_rows.get(table).copied().unwrap_or(0);
    let totals: Vec<u64> = (0..tables).map(|table| cuts.iter().map(|cut| rows(cut, table)).sum()).collect();
    let mut before = vec![0; tables];
    let mut parts = Vec::with_capacity(cuts.len());
    for (server, cut) in (0..).zip(cuts) {
        let span = |table: usize| params::Span { first: before[table], total: totals[table] };
        parts.push(params::Part { server, servers: cuts.len() as u32, tables: (0..tables).map(span).collect() });
        (0..tables).for_each(|table| before[table] += rows(cut, table));
    }
    parts
}
