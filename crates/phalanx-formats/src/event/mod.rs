//! Event files: what TensorBoard shows. An event file is a record file of `Event` messages whose name contains
//! `tfevents`; see [`event_file_name`].
//!
//! ```
//! use phalanx_formats::event::{EventReader, EventWriter, EventTime, SummaryData, EventPayload};
//! let mut writer = EventWriter::new(Vec::new(), 1_700_000_000.0)?;
//! writer.scalar(EventTime { wall_time: 1_700_000_001.5, step: 10 }, "loss", 0.25)?;
//! let file = writer.finish()?;
//!
//! let mut reader = EventReader::new(file.as_slice());
//! while let Some(event) = reader.next_event()? {
//!     if let EventPayload::Summary(values) = event.what {
//!         assert_eq!(values[0].value, SummaryData::Scalar(0.25));
//!     }
//! }
//! # Ok::<(), phalanx_base::Error>(())
//! ```

mod buckets;
mod name;
mod reader;
mod tensor;
mod value;
mod writer;

#[cfg(test)]
mod tests;

/// The messages as prost sees them.
#[allow(missing_docs, unreachable_pub, clippy::enum_variant_names)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.event.rs"));
}

pub use buckets::{BUCKETS, Bucket, buckets};
pub use name::event_file_name;
pub use reader::EventReader;
pub use value::{Event, EventPayload, EventTime, SessionStatus, SummaryData, SummaryValue};
pub use writer::EventWriter;
