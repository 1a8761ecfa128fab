//! `prefetch`: a thread that works ahead of the consumer.

use super::node::{CHUNK, Context, ElementKind, Node, Op, Stage, open_input};
use super::options::AUTOTUNE;
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::{Code, Context as _, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

struct PrefetchOp {
    buffer: usize,
}

impl Op for PrefetchOp {
    fn describe(&self) -> String {
        "prefetch".to_string()
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let stage = match from {
            None => open_input(inputs, cx, None)?,
            Some(from) => {
                let used = from.u64()?;
                let mut stage = open_input(inputs, cx, Some(from))?;
                stage.skip(used, kind)?;
                stage
            }
        };
        let buffer = match self.buffer {
            0 | AUTOTUNE if kind == ElementKind::Rows => 2 * CHUNK,
            0 | AUTOTUNE => 2,
            wanted => wanted,
        };
        Ok(Box::new(PrefetchStage::start(stage, kind, buffer)?))
    }
}

/// What the thread sends: elements and the input's place after them, or an error. It hangs up at the end.
type Message = Result<(Batch, Vec<u8>)>;

/// The consumer's end of a thread that reads ahead.
///
/// Its saved form is the number of elements used of the chunk in hand, then the input's place before that chunk.
pub(crate) struct PrefetchStage {
    /// `None` once the end came, or the stage is being dropped: the thread then cannot send and ends.
    receiver: Option<Receiver<Message>>,
    thread: Option<JoinHandle<()>>,
    base: Vec<u8>,
    /// The chunk in hand, the elements used of it, and the input's place after it.
    chunk: Option<(Batch, usize, Vec<u8>)>,
    kind: ElementKind,
}

impl PrefetchStage {
    /// Starts a thread that holds up to `buffer` elements.
    pub(crate) fn start(stage: Box<dyn Stage>, kind: ElementKind, buffer: usize) -> Result<Self> {
        let mut base = Saver::default();
        stage.save(&mut base);
        // One chunk waits in the thread's hands, the others in the channel: together they are the buffer.
        let chunk = if kind == ElementKind::Rows { (buffer / 2).clamp(1, CHUNK) } else { 1 };
        let (sender, receiver) = sync_channel((buffer / chunk).saturating_sub(1).min(1 << 16));
        let thread = std::thread::Builder::new()
            .name("px-prefetch".to_string())
            .spawn(move || work_ahead(stage, &sender, chunk))
            .context(Code::Internal, "a thread for prefetch cannot be started")?;
        Ok(Self { receiver: Some(receiver), thread: Some(thread), base: base.into_vec(), chunk: None, kind })
    }

    fn stop(&mut self) {
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches panics of user code and passes them on as errors.
            let _ = thread.join();
        }
    }
}

fn work_ahead(mut stage: Box<dyn Stage>, sender: &SyncSender<Message>, chunk: usize) {
    let work = AssertUnwindSafe(|| {
        loop {
            let message = match stage.next(chunk) {
                Ok(Some(batch)) => {
                    let mut after = Saver::default();
                    stage.save(&mut after);
                    Ok((batch, after.into_vec()))
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let last = message.is_err();
            if sender.send(message).is_err() || last {
                return;
            }
        }
    });
    if let Err(panic) = catch_unwind(work) {
        // Nobody listens any more when this fails.
        let _ = sender.send(Err(panicked(&*panic)));
    }
}

/// A panic of the user's code as an error.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string).or(panic.downcast_ref::<String>().cloned());
    Error::new(Code::DataRow, "a function of the input pipeline panicked")
        .because(text.unwrap_or_else(|| "no message".to_string()))
        .help("return an error instead of panicking")
}

impl Stage for PrefetchStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.chunk.is_none() {
            let Some(receiver) = &self.receiver else { return Ok(None) };
            match receiver.recv() {
                Ok(Ok((batch, after))) => self.chunk = Some((batch, 0, after)),
                Ok(Err(error)) => {
                    self.stop();
                    return Err(error);
                }
                Err(_) => {
                    self.stop();
                    return Ok(None);
                }
            }
        }
        let Some((batch, used, _)) = &mut self.chunk else { return Ok(None) };
        let (out, end) = match self.kind {
            ElementKind::Rows => {
                let end = batch.rows().min(used.saturating_add(max));
                (batch.slice(*used..end), end)
            }
            ElementKind::Batches => (batch.clone(), 1),
        };
        *used = end;
        if end >= self.kind.elements(batch)
            && let Some((.., after)) = self.chunk.take()
        {
            self.base = after;
        }
        Ok(Some(out))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.chunk.as_ref().map_or(0, |&(_, used, _)| used as u64));
        out.raw(&self.base);
    }
}

impl Drop for PrefetchStage {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Dataset {
    /// Lets a thread make up to `buffer` elements ahead of the consumer; [`AUTOTUNE`](crate::AUTOTUNE) chooses.
    ///
    /// The thread has ended when the iterator is dropped.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 100, 1).batch(10).prefetch(2);
    /// assert_eq!(data.iter()?.count(), 10);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn prefetch(self, buffer: usize) -> Self {
        self.then(PrefetchOp { buffer })
    }
}
