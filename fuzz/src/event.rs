//! Event files: records of `Event` messages.

use crate::proto::{Field, Value, encode};
use crate::record::{file, records};
use crate::{Rng, mutate, proto};
use phalanx_base::Result;
use phalanx_formats::event::{EventReader, EventWriter, SessionStatus, Stamp};
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
    let packed = |numbers: [f64; 3]| Value::Bytes(numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
    histogram.push(Field { number: 6, value: packed([-1.0, 0.0, 1.0]) });
    histogram.push(Field { number: 7, value: packed([0.0, 2.0, 3.0]) });
    let image = vec![varint(1, 2), varint(2, 3), bytes(4, b"png")];
    let values = [
        Field { number: 2, value: Value::Fixed32(1.5_f32.to_le_bytes()) },
        Field { number: 5, value: Value::Message(histogram) },
        Field { number: 4, value: Value::Message(image) },
    ];
    all.push(summaries(values.map(|value| vec![bytes(1, b"tag"), value])));
    // One value that stands for many, as numbers and as texts.
    let shape = |size| Value::Message(vec![Field { number: 2, value: Value::Message(vec![varint(1, size)]) }]);
    for (plugin, dtype, number) in [("scalars", 1, 5), ("histograms", 2, 6), ("text", 7, 8), ("images", 7, 8)] {
        for size in [1, 3, 90, 1 << 20, 1 << 40, u64::MAX] {
            let mut tensor = vec![varint(1, dtype), Field { number: 2, value: shape(size) }];
            tensor.push(if dtype == 7 { bytes(number, b"text") } else { double(number, 1.0) });
            let data = Value::Message(vec![bytes(1, plugin.as_bytes())]);
            let metadata = Value::Message(vec![Field { number: 1, value: data }]);
            let value = Value::Message(tensor);
            all.push(summaries([vec![
                bytes(1, b"t"),
                Field { number: 9, value: metadata },
                Field { number: 8, value },
            ]]));
        }
    }
    all
}

/// A file as our writer makes it.
fn written() -> Result<Vec<u8>> {
    let stamp = Stamp { wall_time: 1.7e9, step: 10 };
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
    let values = values.map(|value| Field { number: 1, value: Value::Message(value) });
    let event = [double(1, 1.7e9), varint(2, 5), Field { number: 5, value: Value::Message(values.to_vec()) }];
    file(&[encode(&event)], Compression::None)
}

fn varint(number: u64, value: u64) -> Field {
    Field { number, value: Value::Varint(value) }
}

fn double(number: u64, value: f64) -> Field {
    Field { number, value: Value::Fixed64(value.to_le_bytes()) }
}

fn bytes(number: u64, value: &[u8]) -> Field {
    Field { number, value: Value::Bytes(value.to_vec()) }
}

/// Changes an event or two, and rarely the records around them.
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
