//! Reads one `Feature` message into a column's values.
//!
//! Hot: no allocation but the growth of the values.

use super::{Kind, Values};
use crate::wire::{Fault, Field, Wire, only_field};

const WRONG_WIRE: Fault = "a list's values have the wrong wire type";

/// Appends the values of a serialized `Feature` to `values`, whose first `start` are not this feature's. `before` is
/// the kind that earlier bytes of the same message had; the result is the kind of the whole, `None` where none is set.
///
/// Of a feature that has two kinds the last one counts, as protobuf has it for a oneof.
#[inline]
pub(super) fn read_feature(
    bytes: &[u8],
    values: &mut Values,
    start: usize,
    before: Option<Kind>,
) -> Result<Option<Kind>, Fault> {
    let wanted = values.kind();
    if let (None, Some((tag @ (0x0a | 0x12 | 0x1a), list))) = (before, only_field(bytes)) {
        let kind = [Kind::Bytes, Kind::F32, Kind::I64][usize::from(tag >> 3) - 1];
        if kind == wanted {
            read_list(list, values)?;
        }
        return Ok(Some(kind));
    }
    read_any_feature(bytes, values, start, before)
}

fn read_any_feature(
    bytes: &[u8],
    values: &mut Values,
    start: usize,
    before: Option<Kind>,
) -> Result<Option<Kind>, Fault> {
    let wanted = values.kind();
    let mut kind = before;
    let mut wire = Wire(bytes);
    while let Some((number, field)) = wire.next()? {
        let found = match number {
            1 => Kind::Bytes,
            2 => Kind::F32,
            3 => Kind::I64,
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
fn read_list(bytes: &[u8], values: &mut Values) -> Result<(), Fault> {
    match (only_field(bytes), values) {
        (Some((0x0a, packed)), Values::F32(values)) => push_f32s(packed, values),
        (Some((0x0a, packed)), Values::I64(values)) => push_i64s(packed, values),
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

fn read_any_list(bytes: &[u8], values: &mut Values) -> Result<(), Fault> {
    let mut wire = Wire(bytes);
    match values {
        Values::F32(values) => {
            while let Some((number, field)) = wire.next()? {
                match (number, field) {
                    (1, Field::Bytes(packed)) => push_f32s(packed, values)?,
                    (1, Field::Fixed32(word)) => values.push(f32::from_le_bytes(word)),
                    (1, _) => return Err(WRONG_WIRE),
                    _ => {}
                }
            }
        }
        Values::I64(values) => {
            while let Some((number, field)) = wire.next()? {
                match (number, field) {
                    (1, Field::Bytes(packed)) => push_i64s(packed, values)?,
                    (1, Field::Varint(value)) => values.push(value as i64),
                    (1, _) => return Err(WRONG_WIRE),
                    _ => {}
                }
            }
        }
        Values::Bytes(values) => {
            while let Some((number, field)) = wire.next()? {
                match (number, field) {
                    (1, Field::Bytes(value)) => values.push(value),
                    (1, _) => return Err(WRONG_WIRE),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}
