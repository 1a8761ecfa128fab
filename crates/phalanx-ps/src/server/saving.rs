//! Writing a snapshot on a background thread: to a file, or block by block for a client that fetches it.

use super::StoreSnapshot;
use super::background::Background;
use super::write_snapshot::write_snapshot;
use crate::checkpoint::verify_part;
use crate::proto;
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_storage::Dir;
use phalanx_wire::limits::PART_BYTES;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A written part of a checkpoint.
#[derive(Clone)]
pub(crate) struct Written {
    pub(crate) staged: String,
    pub(crate) bytes: u64,
    pub(crate) index: Bytes,
}

/// A part that is being written to a file.
pub(crate) struct IntoFile {
    location: String,
    writing: Arc<Background<Written>>,
}

impl IntoFile {
    /// Starts writing.
    pub(crate) fn start(snapshot: Arc<StoreSnapshot>, ask: proto::Save) -> Result<Arc<Self>> {
        let location = ask.location.clone();
        let writing = Background::start("save", move || write_file(&snapshot, &ask))?;
        Ok(Arc::new(Self { location, writing }))
    }

    /// Removes the file if it was not published because another server could not write its part.
    pub(crate) fn clean_up(&self) {
        if let Some(Ok(written)) = self.writing.outcome()
            && let Ok(dir) = Dir::open(&self.location)
        {
            // If that fails, the next task that opens the directory removes it.
            let _ = dir.remove(&written.staged);
        }
    }

    /// Waits for the outcome, at most for `wait`.
    pub(crate) async fn wait(&self, wait: Duration) -> Option<Result<Written>> {
        self.writing.wait(wait).await
    }
}

fn write_file(snapshot: &StoreSnapshot, ask: &proto::Save) -> Result<Written> {
    let dir = Dir::open(&ask.location)?;
    let part = ask.part.clone().unwrap_or_default();
    let (file, index) = write_snapshot(snapshot, &part, dir.stage(&ask.file)?)?;
    let staged = file.finish()?;
    // Verified before it is reported as written.
    if let Err(error) = verify_part(&dir, &staged.name, &index) {
        let _ = dir.remove(&staged.name);
        return Err(error);
    }
    Ok(Written { staged: staged.name, bytes: staged.size, index: index.to_bytes()?.into() })
}

/// What the writing thread sends.
enum Block {
    Bytes(Bytes),
    End(Result<Written>),
}

struct Fetched {
    blocks: mpsc::Receiver<Block>,
    /// The number of the newest block, and the reply: it may be fetched again.
    newest: u64,
    answer: Option<(bool, Bytes, u64)>,
}

/// A part that a client fetches block by block.
pub(crate) struct ToFetch(tokio::sync::Mutex<Fetched>);

impl ToFetch {
    /// Starts writing; at most three blocks are in memory.
    pub(crate) fn start(snapshot: Arc<StoreSnapshot>, part: proto::Part) -> Result<Arc<Self>> {
        let (send, blocks) = mpsc::channel(1);
        let write = move || {
            let out = Blocks { send: send.clone(), gathered: Vec::with_capacity(PART_BYTES), bytes: 0 };
            let written = write_snapshot(&snapshot, &part, out).and_then(|(out, index)| {
                Ok(Written { staged: String::new(), bytes: out.bytes, index: index.to_bytes()?.into() })
            });
            let _ = send.blocking_send(Block::End(written));
        };
        let thread = std::thread::Builder::new().name("save".into()).spawn(write);
        thread.context(Code::Internal, "no thread can be started to save")?;
        Ok(Arc::new(Self(tokio::sync::Mutex::new(Fetched { blocks, newest: 0, answer: None }))))
    }

    /// Returns block `number`: whether it is the end, its bytes (or the index), and the total size.
    pub(crate) async fn block(&self, number: u64) -> Result<(bool, Bytes, u64)> {
        let mut fetched = self.0.lock().await;
        if number == fetched.newest + 1 {
            let block = fetched.blocks.recv().await.ok_or_else(|| Error::new(Code::Internal, "no block is left"))?;
            fetched.answer = Some(match block {
                Block::Bytes(bytes) => (false, bytes, 0),
                Block::End(written) => {
                    let written = written?;
                    (true, written.index, written.bytes)
                }
            });
            fetched.newest = number;
        }
        let asked = fetched.answer.clone().filter(|_| number == fetched.newest);
        asked.ok_or_else(|| Error::new(Code::BadMessage, format!("block {number} is no longer available")))
    }
}

/// Splits what is written into blocks.
struct Blocks {
    send: mpsc::Sender<Block>,
    gathered: Vec<u8>,
    bytes: u64,
}

impl Blocks {
    fn send_block(&mut self) -> std::io::Result<()> {
        let block = std::mem::replace(&mut self.gathered, Vec::with_capacity(PART_BYTES));
        let gone = |_| std::io::Error::other("the blocks are no longer fetched");
        self.send.blocking_send(Block::Bytes(block.into())).map_err(gone)
    }
}

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = bytes.len().min(PART_BYTES - self.gathered.len());
        self.gathered.extend_from_slice(&bytes[..n]);
        self.bytes += n as u64;
        if self.gathered.len() == PART_BYTES {
            self.send_block()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.gathered.is_empty() { Ok(()) } else { self.send_block() }
    }
}
