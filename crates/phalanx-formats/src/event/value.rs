//! What an event file says, in one form for TensorFlow 1's and TensorFlow 2's.

use super::Bucket;

/// When something was: on the clock and in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The global step.
    pub step: i64,
}

/// One record of an event file.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it was.
    pub stamp: Stamp,
    /// What it says.
    pub what: What,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
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
    /// It begins at this step. At every start but a run's first, TensorBoard forgets what it has of this step and later
    /// ones: what a killed session left.
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
    pub value: Value,
}

/// A value that TensorBoard shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
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
