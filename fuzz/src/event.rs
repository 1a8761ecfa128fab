//! Event files: records of `Event` messages.

use crate::proto::{Field, FieldValue, encode};
use crate::record::{file, records};
use crate::{Rng, mutate, proto};
use phalanx_base::Result;
use phalanx_formats::event::{EventReader, EventTime, EventWriter, SessionStatus};
use phalanx_formats::record::Compression;

pub(crate) fn event(input: &[u8]) -> Result<()> {
    let mut reader = EventReader::new(input);
    while reader.next_event()?.is_some() {}
    Ok(())
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![written().expect("a vector takes every event")];
    // TensorFlow 1's values.
    let mut histogram: Vec<Field> = (1..=5).map(|number| double(number, 3.0)).collect();
    let packed = |number, values: [f64; 3]| Field::bytes(number, &values.map(f64::to_le_bytes).concat());
    histogram.extend([packed(6, [-1.0, 0.0, 1.0]), packed(7, [0.0, 2.0, 3.0])]);
    let image = vec![Field::varint(1, 2), Field::varint(2, 3), Field::bytes(4, b"png")];
    let values = [
        Field { number: 2, value: FieldValue::Fixed32(1.5_f32.to_le_bytes()) },
        Field::message(5, histogram),
        Field::message(4, image),
    ];
    all.push(summaries(values.map(|value| vec![Field::bytes(1, b"tag"), value])));
    // One value that is repeated to fill a shape, as numbers and as texts.
    let shape = |size| Field::message(2, vec![Field::message(2, vec![Field::varint(1, size)])]);
    for (plugin, dtype, number) in [("scalars", 1, 5), ("histograms", 2, 6), ("text", 7, 8), ("images", 7, 8)] {
        for size in [1, 3, 90, 1 << 20, 1 << 40, u64::MAX] {
            let mut tensor = vec![Field::varint(1, dtype), shape(size)];
            tensor.push(if dtype == 7 { Field::bytes(number, b"text") } else { double(number, 1.0) });
            let metadata = Field::message(9, vec![Field::message(1, vec![Field::bytes(1, plugin.as_bytes())])]);
            all.push(summaries([vec![Field::bytes(1, b"t"), metadata, Field::message(8, tensor)]]));
        }
    }
    all
}

/// A file from our writer.
fn written() -> Result<Vec<u8>> {
    let stamp = EventTime { wall_time: 1.7e9, step: 10 };
    let mut writer = EventWriter::new(Vec::new(), 1.7e9)?;
    writer.scalar(stamp, "loss", 0.25)?;
    writer.scalar(stamp, "loss", 0.125)?;
    writer.histogram(stamp, "weights", &[1.0, 2.0, 3.0])?;
    writer.text(stamp, "notes", "some *markdown*")?;
    writer.image(stamp, "picture", b"not a PNG", 4, 4)?;
    writer.session_log(stamp, &SessionStatus::Checkpoint("model.ckpt-10".to_owned()))?;
    writer.session_log(stamp, &SessionStatus::Start)?;
    writer.finish()
}

fn summaries<const N: usize>(values: [Vec<Field>; N]) -> Vec<u8> {
    let values = values.map(|value| Field::message(1, value));
    let event = [double(1, 1.7e9), Field::varint(2, 5), Field::message(5, values.to_vec())];
    file(&[encode(&event)], Compression::None)
}

fn double(number: u64, value: f64) -> Field {
    Field { number, value: FieldValue::Fixed64(value.to_le_bytes()) }
}

/// Mutates an event or two, and rarely the records around them.
pub(crate) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(10) {
        return mutate::bytes(rng, input, other);
    }
    let mut all = records(input);
    let donors = records(other);
    let at = rng.below(donors.len());
    let donor = donors.get(at).map_or(other, Vec::as_slice);
    if rng.one_in(4) {
        all.push(donor.to_vec());
    }
    for _ in 0..=rng.below(2) {
        let at = rng.below(all.len());
        if let Some(record) = all.get_mut(at) {
            proto::mutate(rng, record, donor);
        }
    }
    *input = file(&all, Compression::None);
}
