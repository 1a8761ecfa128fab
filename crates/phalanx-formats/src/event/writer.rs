//! Writes an event file.

use super::proto::summary::Value as WireValue;
use super::proto::summary::value::Value as WireKind;
use super::proto::summary_metadata::PluginData;
use super::proto::{Event, Image, SessionLog, Summary, SummaryMetadata, event};
use super::{Bucket, EventTime, SessionStatus, buckets, tensor};
use crate::png;
use crate::record::RecordWriter;
use phalanx_base::{Code, Error, Result};
use prost::Message;
use std::collections::HashMap;
use std::io::Write;

/// Writes events as TensorFlow 2 does. It reads no clock: the caller gives the time of every event.
///
/// Events are buffered; [`EventWriter::flush`] makes them visible to a running TensorBoard.
#[derive(Debug)]
pub struct EventWriter<W: Write> {
    records: RecordWriter<W>,
    /// What each tag is. Its first value says so in the file, and no later one may be anything else.
    tags: HashMap<String, Plugin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plugin {
    Scalars,
    Histograms,
    Text,
    Images,
}

impl Plugin {
    fn name(self) -> &'static str {
        match self {
            Self::Scalars => "scalars",
            Self::Histograms => "histograms",
            Self::Text => "text",
            Self::Images => "images",
        }
    }

    fn metadata(self) -> SummaryMetadata {
        let data_class = match self {
            Self::Scalars => 1,
            Self::Histograms | Self::Text => 2,
            Self::Images => 3,
        };
        let plugin_data = PluginData { plugin_name: self.name().to_owned(), content: Vec::new() };
        SummaryMetadata { plugin_data: Some(plugin_data), data_class, ..SummaryMetadata::default() }
    }
}

impl<W: Write> EventWriter<W> {
    /// Begins a file at `wall_time`, in seconds since 1970.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(write: W, wall_time: f64) -> Result<Self> {
        let mut writer = Self { records: RecordWriter::new(write), tags: HashMap::new() };
        let version = event::What::FileVersion("brain.Event:2".to_owned());
        writer.event(EventTime { wall_time, step: 0 }, version)?;
        Ok(writer)
    }

    /// Continues a file that already has its first record.
    pub fn headless(write: W) -> Self {
        Self { records: RecordWriter::new(write), tags: HashMap::new() }
    }

    /// A point of a curve.
    ///
    /// # Errors
    /// When it cannot be written, or the tag was something else before.
    pub fn scalar(&mut self, stamp: EventTime, tag: &str, value: f32) -> Result<()> {
        self.value(stamp, tag, Plugin::Scalars, WireKind::Tensor(tensor::scalar(value)))
    }

    /// The distribution of values, in 30 buckets; see [`buckets`].
    ///
    /// # Errors
    /// When it cannot be written, or the tag was something else before.
    pub fn histogram(&mut self, stamp: EventTime, tag: &str, values: &[f32]) -> Result<()> {
        self.bucketed(stamp, tag, &buckets(values))
    }

    /// A distribution that is counted already.
    ///
    /// # Errors
    /// When it cannot be written, or the tag was something else before.
    pub fn bucketed(&mut self, stamp: EventTime, tag: &str, buckets: &[Bucket]) -> Result<()> {
        let rows: Vec<[f64; 3]> = buckets.iter().map(|b| [b.left, b.right, b.count]).collect();
        self.value(stamp, tag, Plugin::Histograms, WireKind::Tensor(tensor::matrix(&rows)))
    }

    /// A text, which TensorBoard shows as Markdown.
    ///
    /// # Errors
    /// When it cannot be written, or the tag was something else before.
    pub fn text(&mut self, stamp: EventTime, tag: &str, text: &str) -> Result<()> {
        self.value(stamp, tag, Plugin::Text, WireKind::Tensor(tensor::text(text)))
    }

    /// An image of that many pixels, encoded as PNG: TensorFlow's `Summary.Image`, which readers of every version know.
    ///
    /// # Errors
    /// When it cannot be written, or the tag was something else before.
    pub fn image(&mut self, stamp: EventTime, tag: &str, png: &[u8], width: u32, height: u32) -> Result<()> {
        let pixels = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let image = Image {
            height: pixels(height),
            width: pixels(width),
            colorspace: png::size(png).map_or(0, |(_, _, channels)| channels.into()),
            encoded_image_string: png.to_vec(),
        };
        self.value(stamp, tag, Plugin::Images, WireKind::Image(image))
    }

    /// That the session starts, stops or has saved.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn session_log(&mut self, stamp: EventTime, status: &SessionStatus) -> Result<()> {
        let (status, checkpoint_path) = match status {
            SessionStatus::Start => (1, ""),
            SessionStatus::Stop => (2, ""),
            SessionStatus::Checkpoint(path) => (3, path.as_str()),
            SessionStatus::Other(status) => (*status, ""),
        };
        let log = SessionLog { status, checkpoint_path: checkpoint_path.to_owned(), msg: String::new() };
        self.event(stamp, event::What::SessionLog(log))
    }

    /// Hands everything so far to the underlying writer.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.records.flush()
    }

    /// Ends the file and gives back the underlying writer.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<W> {
        self.records.finish()
    }

    fn value(&mut self, stamp: EventTime, tag: &str, plugin: Plugin, value: WireKind) -> Result<()> {
        let metadata = match self.tags.get(tag) {
            None => {
                self.tags.insert(tag.to_owned(), plugin);
                Some(plugin.metadata())
            }
            Some(&before) if before == plugin => None,
            Some(before) => {
                let what = format!("summary {tag:?} cannot go to {}", plugin.name());
                let error = Error::new(Code::BadSetting, what).because(format!("it goes to {}", before.name()));
                return Err(error.help("give the two different tags"));
            }
        };
        let value = WireValue { tag: tag.to_owned(), metadata, value: Some(value) };
        self.event(stamp, event::What::Summary(Summary { value: vec![value] }))
    }

    fn event(&mut self, stamp: EventTime, what: event::What) -> Result<()> {
        let event = Event { wall_time: stamp.wall_time, step: stamp.step, what: Some(what) };
        self.records.write_record(&event.encode_to_vec())
    }
}
