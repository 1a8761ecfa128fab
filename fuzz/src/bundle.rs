//! Checkpoints: an index and data. The input is the length of the index in four bytes, the index, and the bytes of every
//! data file.

use crate::mutate::{bytes, halves, join};
use crate::proto::{Field, FieldValue, Message, encode, parse, take_varint};
use crate::table::{change_entry, entries, from_entries};
use crate::{Rng, table};
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{self, BundleReader, DataSource, TensorLocation, TensorSlice};
use phalanx_formats::checksum::{mask, masked};

/// Four data files with the same bytes.
struct Same<'a>(&'a [u8]);

impl DataSource for Same<'_> {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.size(shard)?;
        // A reader that asks for more than there is panics here: a finding.
        Ok(self.0[offset as usize..][..len as usize].to_vec())
    }

    fn size(&self, shard: u32) -> Result<u64> {
        let missing = || Error::new(Code::DataMissing, "there is no such data file");
        (shard < 4).then_some(self.0.len() as u64).ok_or_else(missing)
    }
}

pub(crate) fn bundle(input: &[u8]) -> Result<()> {
    let (index, data) = halves(input);
    let reader = BundleReader::open(index, Same(data))?;
    let mut outcome = Ok(());
    for (name, info) in reader.index().tensors().iter().take(32) {
        let whole = reader.read(name);
        assert!(whole.is_err() || whole.is_ok_and(|tensor| tensor.shape == info.shape));
        outcome = outcome.and(reader.verify_tensor(name).map(drop)).and(reader.read_rows(name, 0, 1).map(drop));
        if let TensorLocation::Sliced(parts) = &info.location {
            for (slice, _) in parts.iter().take(4) {
                outcome = outcome.and(reader.read_slice(name, slice).map(drop));
            }
        }
    }
    // Whatever was read can be written.
    let again = reader.index().to_bytes()?;
    assert!(bundle::BundleIndex::parse(&again).is_ok_and(|index| index.shards() == reader.index().shards()));
    outcome
}

pub(crate) fn slice_key(input: &[u8]) -> Result<()> {
    let (name, slice): (String, TensorSlice) = bundle::parse_slice_key(input)?;
    assert_eq!(bundle::slice_key(&name, &slice), input, "a key has two readings");
    Ok(())
}

/// Mutates the data or the index and corrects the checksums of both.
pub(crate) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let (index, data) = halves(input);
    let (mut index, mut data) = (index.to_vec(), data.to_vec());
    let (other_index, other_data) = halves(other);
    if rng.one_in(3) {
        bytes(rng, &mut data, other_data);
    }
    match entries(&index).filter(|all| !all.is_empty()) {
        Some(mut all) if !rng.one_in(5) => {
            for _ in 0..rng.below(3) {
                if !all.is_empty() {
                    change_entry(rng, &mut all, other_index);
                }
            }
            if !rng.one_in(8) {
                for (_, value) in &mut all {
                    repair(value, &mut data);
                }
            }
            index = from_entries(all);
        }
        _ => table::mutate(rng, &mut index, other_index),
    }
    *input = join(&index, &data);
}

/// Corrects the checksum of an entry.
fn repair(value: &mut Vec<u8>, data: &mut [u8]) {
    let Some(mut message) = parse(value, 0) else { return };
    let number = |wanted| message.iter().rev().find_map(|field| field.as_varint(wanted));
    let (offset, size) = (number(4).unwrap_or(0) as usize, number(5).unwrap_or(0) as usize);
    let strings = number(1) == Some(7);
    let Some(found) = offset.checked_add(size).and_then(|end| data.get_mut(offset..end)) else { return };
    let crc = if strings { repair_strings(found, elements(&message)) } else { masked(found) };
    if message.iter().any(|field| field.number == 7) || found.is_empty() && !strings {
        return;
    }
    message.retain(|field| field.number != 6);
    message.push(Field { number: 6, value: FieldValue::Fixed32(crc.to_le_bytes()) });
    *value = encode(&message);
}

/// Corrects the checksum of the lengths of strings; returns the checksum of all bytes.
fn repair_strings(found: &mut [u8], count: usize) -> u32 {
    let (mut rest, mut crc) = (&*found, 0);
    for _ in 0..count {
        let Some(length) = take_varint(&mut rest) else { return 0 };
        crc = match u32::try_from(length) {
            Ok(short) => crc32c::crc32c_append(crc, &short.to_le_bytes()),
            Err(_) => crc32c::crc32c_append(crc, &length.to_le_bytes()),
        };
    }
    let at = found.len() - rest.len();
    if let Some(place) = found.get_mut(at..at + 4) {
        place.copy_from_slice(&mask(crc).to_le_bytes());
    }
    mask(crc32c::crc32c_append(crc, &found[at..]))
}

/// Returns the number of elements in an entry's shape.
fn elements(message: &Message) -> usize {
    let shape = message.iter().rev().find(|field| field.number == 2).map(|field| &field.value);
    let Some(FieldValue::Message(shape)) = shape else { return 1 };
    let dims = shape.iter().filter_map(|field| match &field.value {
        FieldValue::Message(dim) => Some(dim.iter().find_map(|field| field.as_varint(1)).unwrap_or(0) as usize),
        _ => None,
    });
    dims.fold(1, usize::saturating_mul)
}
