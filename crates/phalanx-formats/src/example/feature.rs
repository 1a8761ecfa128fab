//! Reads one `Feature` message into a column's values.
//!
//! Hot: no allocation but the growth of the values.

use super::{FeatureKind, FeatureValues};
use crate::wire::{Fault, Field, Wire, only_field};

/// Appends the values of a serialized `Feature` to `values`, whose first `start` are not this feature's. `before` is
/// the kind that earlier bytes of the same message had; the result is the kind of the whole, `None` where none is set.
///
/// Of a feature that has two kinds the last one counts, as protobuf has it for a oneof.
#[inline]
pub(super) fn read_feature(
    bytes: &[u8],
    values: &mut FeatureValues,
    start: usize,
    before: Option<FeatureKind>,
) -> Result<Option<FeatureKind>, Fault> {
    let wanted = values.kind();
    if let (None, Some((tag @ (0x0a | 0x12 | 0x1a), list))) = (before, only_field(bytes)) {
        let kind = [FeatureKind::Bytes, FeatureKind::F32, FeatureKind::I64][usize::from(tag >> 3) - 1];
        if kind == wanted {
            read_list(list, values)?;
        }
        return Ok(Some(kind));
    }
    read_any_feature(bytes, values, start, before)
}

fn read_any_feature(
    bytes: &[u8],
    values: &mut FeatureValues,
    start: usize,
    before: Option<FeatureKind>,
) -> Result<Option<FeatureKind>, Fault> {
    let wanted = values.kind();
    let mut kind = before;
    let mut wire = Wire(bytes);
    while let Some((number, field)) = wire.next()? {
        let found = match number {
            1 => FeatureKind::Bytes,
            2 => FeatureKind::F32,
            3 => FeatureKind::I64,
            _ => continue,
        };
        let Field::Bytes(list) = field else { return Err("a feature's list has the wrong wire type") };
        if kind != Some(found) {
            values.truncate(start);
        }
        kind = Some(found);
        // Of a kind that is not wanted only the name matters: it is an error anyway.
        if found == wanted {
            read_list(list, values)?;
        }
    }
    Ok(kind)
}

#[inline]
fn read_list(bytes: &[u8], values: &mut FeatureValues) -> Result<(), Fault> {
    match (only_field(bytes), values) {
        (Some((0x0a, packed)), FeatureValues::F32(values)) => push_f32s(packed, values),
        (Some((0x0a, packed)), FeatureValues::I64(values)) => push_i64s(packed, values),
        (_, values) => read_any_list(bytes, values),
    }
}

#[inline]
fn push_f32s(packed: &[u8], values: &mut Vec<f32>) -> Result<(), Fault> {
    let (words, rest) = packed.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("packed floats do not have a multiple of four bytes");
    }
    values.extend(words.iter().map(|&word| f32::from_le_bytes(word)));
    Ok(())
}

#[inline]
fn push_i64s(packed: &[u8], values: &mut Vec<i64>) -> Result<(), Fault> {
    let mut packed = Wire(packed);
    while !packed.0.is_empty() {
        values.push(packed.varint()? as i64);
    }
    Ok(())
}

fn read_any_list(bytes: &[u8], values: &mut FeatureValues) -> Result<(), Fault> {
    let mut wire = Wire(bytes);
    while let Some((number, field)) = wire.next()? {
        if number != 1 {
            continue;
        }
        match (&mut *values, field) {
            (FeatureValues::F32(values), Field::Bytes(packed)) => push_f32s(packed, values)?,
            (FeatureValues::F32(values), Field::Fixed32(word)) => values.push(f32::from_le_bytes(word)),
            (FeatureValues::I64(values), Field::Bytes(packed)) => push_i64s(packed, values)?,
            (FeatureValues::I64(values), Field::Varint(value)) => values.push(value as i64),
            (FeatureValues::Bytes(values), Field::Bytes(value)) => values.push(value),
            _ => return Err("a list's values have the wrong wire type"),
        }
    }
    Ok(())
}
