//! Reads event files of any writer.

use super::proto::{self, packed_event, summary};
use super::tensor::{self, Spread};
use super::{Bucket, Event, EventPayload, EventTime, SessionStatus, SummaryData, SummaryValue};
use crate::record::RecordReader;
use phalanx_base::{Code, Context, Error, Result};
use prost::Message;
use std::collections::HashMap;
use std::io::Read;

/// Reads events one after another. Values of TensorFlow 1 (`simple_value`, `histo`, `image`) and of TensorFlow 2
/// (tensors with a plugin's name) come out the same.
#[derive(Debug)]
pub struct EventReader<R> {
    records: RecordReader<R>,
    /// The plugin of each tag: only the first value of a tag names it.
    plugins: HashMap<String, String>,
}

impl<R: Read> EventReader<R> {
    /// The largest event that is read, 256 MiB: more than any summary, and than nearly every graph. An event may take
    /// some ten times its bytes, and an odd one sixty times, while it is unpacked.
    pub const MAX_EVENT_BYTES: u64 = 256 << 20;
    /// The longest name of a plugin. Every value carries it, so a long one would be in memory very often.
    const MAX_PLUGIN_BYTES: usize = 64;

    /// A reader of a file that is not compressed; event files never are.
    #[must_use]
    pub fn new(read: R) -> Self {
        let records = RecordReader::new(read).with_max_record_bytes(Self::MAX_EVENT_BYTES);
        Self { records, plugins: HashMap::new() }
    }

    /// The byte behind the last event that was read: where [`EventReader::resume`] goes on in a file that grows.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.records.offset()
    }

    /// Goes on with the rest of the same file, from its next event on. Offsets count from there.
    #[must_use]
    pub fn resume<S: Read>(self, read: S) -> EventReader<S> {
        EventReader { plugins: self.plugins, ..EventReader::new(read) }
    }

    /// The next event, or `None` at the end of the file.
    ///
    /// # Errors
    /// When a record is damaged or cut short (as the last one of a killed process may be), is no event, or has a value
    /// that its plugin cannot show.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        let (number, offset) = (self.records.records(), self.records.offset());
        let Some(record) = self.records.next_record()? else { return Ok(None) };
        let place = |error: Error| error.at(format!("record {number}, byte {offset}"));
        let mut room = Spread::of_event(record.len());
        let event =
            proto::PackedEvent::decode(record).context(Code::DataFormat, "a record is no event").map_err(place)?;
        let what = match event.what {
            Some(packed_event::What::FileVersion(version)) => EventPayload::FileVersion(version),
            Some(packed_event::What::GraphDef(graph)) => EventPayload::Graph(graph),
            Some(packed_event::What::MetaGraphDef(graph)) => EventPayload::MetaGraph(graph),
            Some(packed_event::What::SessionLog(log)) => EventPayload::Session(match log.status {
                1 => SessionStatus::Start,
                2 => SessionStatus::Stop,
                3 => SessionStatus::Checkpoint(log.checkpoint_path),
                other => SessionStatus::Other(other),
            }),
            Some(packed_event::What::Summary(mut summary)) => {
                // One without tag and value says nothing.
                summary.value.retain(|packed| !packed.is_empty());
                let mut values = Vec::with_capacity(summary.value.len());
                for packed in summary.value {
                    values.push(self.value(&packed, &mut room).map_err(place)?);
                }
                EventPayload::Summary(values)
            }
            None => EventPayload::Other,
        };
        Ok(Some(Event { stamp: EventTime { wall_time: event.wall_time, step: event.step }, what }))
    }

    fn value(&mut self, packed: &[u8], room: &mut Spread) -> Result<SummaryValue> {
        use summary::value::Value as Wire;
        let value = summary::Value::decode(packed).context(Code::DataFormat, "a value of an event is malformed")?;
        let named = value.metadata.and_then(|metadata| metadata.plugin_data).map(|data| data.plugin_name);
        if let Some(name) = named.as_ref().filter(|name| name.len() > Self::MAX_PLUGIN_BYTES) {
            let what = format!("the name of a plugin has {} bytes", name.len());
            return Err(Error::new(Code::DataFormat, what).because(format!("at most {}", Self::MAX_PLUGIN_BYTES)));
        }
        let known = self.plugins.get(&value.tag);
        let plugin = known.cloned().or(named.clone()).unwrap_or_default();
        if let (None, Some(name)) = (known, named) {
            self.plugins.insert(value.tag.clone(), name);
        }
        let (plugin, value, tag) = match value.value {
            Some(Wire::SimpleValue(number)) => ("scalars".to_owned(), SummaryData::Scalar(number.into()), value.tag),
            Some(Wire::Histo(histogram)) => ("histograms".to_owned(), old_histogram(&histogram), value.tag),
            Some(Wire::Image(image)) => ("images".to_owned(), old_image(image), value.tag),
            Some(Wire::Tensor(tensor)) => {
                let shown = show(&plugin, tensor, room);
                let what = || format!("summary {:?} is nothing that {plugin} can show", value.tag);
                (plugin.clone(), shown.map_err(|error| Error::new(Code::DataFormat, what()).because(error))?, value.tag)
            }
            None => (plugin, SummaryData::Other, value.tag),
        };
        Ok(SummaryValue { tag, plugin, value })
    }
}

/// What a plugin sees in a tensor.
fn show(plugin: &str, tensor: proto::Tensor, room: &mut Spread) -> Result<SummaryData> {
    let wrong = |why: String| Error::new(Code::DataFormat, "a tensor is malformed").because(why);
    Ok(match plugin {
        "scalars" => match tensor::numbers(&tensor, room)?[..] {
            [number] => SummaryData::Scalar(number),
            ref numbers => return Err(wrong(format!("it has {} numbers, not one", numbers.len()))),
        },
        "histograms" => {
            let [_, 3] = tensor::dims(&tensor)[..] else { return Err(wrong("its shape is not [k, 3]".to_owned())) };
            let numbers = tensor::numbers(&tensor, room)?;
            let (rows, _) = numbers.as_chunks::<3>();
            SummaryData::Histogram(rows.iter().map(|&[left, right, count]| Bucket { left, right, count }).collect())
        }
        "text" => {
            let strings = tensor::byte_strings(tensor, room)?;
            let text = |bytes| {
                String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
            };
            SummaryData::Text(strings.into_iter().map(text).collect())
        }
        "images" => {
            let mut strings = tensor::byte_strings(tensor, room)?.into_iter();
            let mut pixels = || {
                let text = String::from_utf8(strings.next()?).ok()?;
                text.parse().ok()
            };
            let (Some(width), Some(height)) = (pixels(), pixels()) else {
                return Err(wrong("it does not begin with a width and a height".to_owned()));
            };
            SummaryData::Images { width, height, encoded: strings.collect() }
        }
        _ => SummaryData::Other,
    })
}

/// As TensorBoard migrates them: without the empty buckets at both ends, and between the least and the largest value.
fn old_histogram(old: &proto::Histogram) -> SummaryData {
    let counts = &old.bucket[..old.bucket.len().min(old.bucket_limit.len())];
    let first = counts.iter().position(|&count| count > 0.0);
    let last = counts.iter().rposition(|&count| count > 0.0);
    let (Some(first), Some(last)) = (first, last) else { return SummaryData::Histogram(Vec::new()) };
    let bucket = |at: usize| Bucket {
        left: if at == first { old.min } else { old.bucket_limit[at - 1] },
        right: if at == last { old.max } else { old.bucket_limit[at] },
        count: counts[at],
    };
    SummaryData::Histogram((first..=last).map(bucket).collect())
}

fn old_image(image: proto::Image) -> SummaryData {
    let pixels = |size: i32| u32::try_from(size).unwrap_or(0);
    SummaryData::Images {
        width: pixels(image.width),
        height: pixels(image.height),
        encoded: vec![image.encoded_image_string],
    }
}
