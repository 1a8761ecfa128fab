//! The content of an event file, in one form for TensorFlow 1 and TensorFlow 2.

use super::Bucket;

/// The time of an event: wall clock and global step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventTime {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The global step.
    pub step: i64,
}

/// One record of an event file.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it happened.
    pub stamp: EventTime,
    /// Its content.
    pub what: EventPayload,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventPayload {
    /// The first event of a file: `brain.Event:2`.
    FileVersion(String),
    /// Values to show.
    Summary(Vec<SummaryValue>),
    /// A training session begins, ends or saves.
    Session(SessionStatus),
    /// A serialized `GraphDef`.
    Graph(Vec<u8>),
    /// A serialized `MetaGraphDef`.
    MetaGraph(Vec<u8>),
    /// Something else.
    Other,
}

/// What happens to a training session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// It starts at this step. At every start except the first of a run, TensorBoard discards this and later steps, which
    /// a killed session left behind.
    Start,
    /// It ends.
    Stop,
    /// It has written a checkpoint with this path.
    Checkpoint(String),
    /// A status that we do not know.
    Other(i32),
}

/// One value of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryValue {
    /// The name of the curve, histogram, text or image.
    pub tag: String,
    /// The name of TensorBoard's plugin that shows it, from the tag's first value; empty where none is named.
    pub plugin: String,
    /// The value itself.
    pub value: SummaryData,
}

/// A value that TensorBoard shows.
#[derive(Clone, Debug, PartialEq)]
pub enum SummaryData {
    /// A point of a curve.
    Scalar(f64),
    /// How values are distributed.
    Histogram(Vec<Bucket>),
    /// Markdown, row by row.
    Text(Vec<String>),
    /// Images of one size.
    Images {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// Encoded, usually as PNG.
        encoded: Vec<Vec<u8>>,
    },
    /// Something else.
    Other,
}
