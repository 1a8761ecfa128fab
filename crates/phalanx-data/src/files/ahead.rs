//! Reads ahead on a thread of its own, so that decompressing overlaps with parsing.

use std::io::{Error, ErrorKind, Read, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// How large a block is, and how many may wait: memory stays below a megabyte and a half.
const BLOCK: usize = 256 << 10;
const WAITING: usize = 4;

/// A stream whose next blocks are already being read. Dropping it ends the thread.
pub(super) struct ReadAhead {
    /// `None` once the stream is being dropped.
    blocks: Option<Receiver<Result<Vec<u8>>>>,
    /// Blocks that were used up go back to the thread.
    used: SyncSender<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    pub(super) fn new(mut read: impl Read + Send + 'static) -> Result<Self> {
        let (send, blocks) = sync_channel(WAITING);
        let (used, back) = sync_channel::<Vec<u8>>(WAITING + 2);
        let work = move || {
            loop {
                let mut block = back.try_recv().unwrap_or_default();
                block.clear();
                let result = read.by_ref().take(BLOCK as u64).read_to_end(&mut block);
                let last = !matches!(result, Ok(count) if count > 0);
                if send.send(result.map(|_| block)).is_err() || last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-read-ahead".to_owned()).spawn(work)?;
        Ok(Self { blocks: Some(blocks), used, block: Vec::new(), at: 0, thread: Some(thread) })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.at == self.block.len() {
            let gone = || Error::new(ErrorKind::UnexpectedEof, "the reading thread is gone");
            let next = match self.blocks.as_ref().ok_or_else(gone)?.recv() {
                Ok(next) => next?,
                // The thread ends after the empty block that means the end.
                Err(_) => return Ok(0),
            };
            let used = std::mem::replace(&mut self.block, next);
            self.at = 0;
            // A full channel only means that the thread makes a new block.
            let _ = self.used.try_send(used);
        }
        let count = buffer.len().min(self.block.len() - self.at);
        buffer[..count].copy_from_slice(&self.block[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.blocks = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been seen as the end of the stream; nothing more to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_and_the_same_error() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut read = Vec::new();
        ReadAhead::new(std::io::Cursor::new(bytes.clone())).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == bytes);

        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> Result<usize> {
                Err(ErrorKind::InvalidData.into())
            }
        }
        let mut failing = ReadAhead::new(std::io::Cursor::new(bytes).chain(Fails)).unwrap();
        assert_eq!(failing.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(failing.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn dropping_it_early_ends_its_thread() {
        let mut endless = ReadAhead::new(std::io::repeat(7)).unwrap();
        assert_eq!(endless.read(&mut [0; 10]).unwrap(), 10);
        drop(endless);
    }
}
