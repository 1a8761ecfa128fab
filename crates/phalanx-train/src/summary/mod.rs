//! Numbers, texts and pictures that describe a run, for TensorBoard.

mod event_log;
mod writer;

pub use writer::SummaryWriter;
