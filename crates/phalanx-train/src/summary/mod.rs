//! Summaries for TensorBoard.

mod event_log;
mod writer;

pub use writer::SummaryWriter;
