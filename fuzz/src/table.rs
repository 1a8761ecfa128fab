//! The sorted table behind a checkpoint's index, and the snappy blocks that it may have.

use crate::mutate::{bytes, varint};
use crate::proto::take_varint;
use crate::{Rng, proto};
use phalanx_base::Result;
use phalanx_formats::bundle::{BundleIndex, TableReader, TableWriter};
use phalanx_formats::checksum::masked;

const MAGIC: [u8; 8] = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
const FOOTER: usize = 48;

/// The keys and values of a table.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

pub(crate) fn table(input: &[u8]) -> Result<()> {
    let entries = TableReader::open(input)?.for_each(|_, _| Ok(()));
    entries.and(BundleIndex::parse(input).map(drop))
}

/// Reads the input as a compressed block.
pub(crate) fn snappy(input: &[u8]) -> Result<()> {
    let mut file = input.to_vec();
    file.push(1);
    file.extend(masked(&file).to_le_bytes());
    let handle = [varint(0), varint(input.len() as u64)].concat();
    let mut footer = handle.repeat(2);
    footer.resize(FOOTER - MAGIC.len(), 0);
    file.extend(footer);
    file.extend(MAGIC);
    TableReader::open(&file)?.for_each(|_, _| Ok(()))
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let many: Entries = (0..40).map(|i| (format!("model/layer_{i:03}/kernel").into_bytes(), vec![i; 5])).collect();
    let long: Entries = (0..30_u8).map(|i| ([vec![b'k'; 3000], vec![i]].concat(), Vec::new())).collect();
    // Several blocks.
    let large: Entries = (0..40_u8).map(|i| (vec![i + 1], vec![i; 9000])).collect();
    let mut all: Vec<Vec<u8>> = [Vec::new(), many, long, large].into_iter().map(from_entries).collect();
    all.extend(crate::bundle_seeds::indices());
    all
}

pub(crate) fn snappy_seeds() -> Vec<Vec<u8>> {
    let block = |length: u64, rest: &[u8]| [&varint(length)[..], rest].concat();
    let literal = [&[60 << 2, 199][..], &[0; 200]].concat();
    vec![
        block(13, &[3 << 2, b'a', b'b', b'c', b'd', 1, 4, 2 << 2 | 2, 1, 0, 4 | 3, 8, 0, 0, 0]),
        block(200, &literal),
        // Copies of one byte, 64 at a time: as dense as Snappy gets.
        block(1 + 64 * 200, &[&[0, 0][..], &[63 << 2 | 2, 1, 0].repeat(200)].concat()),
        block(64 << 20, b"abc"),
        block(u64::MAX, &[0xff; 20]),
        // An empty table block: no entries, one restart.
        block(8, &[7 << 2, 0, 0, 0, 0, 1, 0, 0, 0]),
    ]
}

/// Writes a table of the entries, sorted; of two entries with the same key it keeps the first.
pub(crate) fn from_entries(mut entries: Entries) -> Vec<u8> {
    entries.sort();
    entries.dedup_by(|a, b| a.0 == b.0);
    let mut writer = TableWriter::new();
    for (key, value) in entries {
        // A key that is too long is left out.
        drop(writer.add(&key, &value));
    }
    writer.finish()
}

/// Reads the entries of a table, if it is valid.
pub(crate) fn entries(input: &[u8]) -> Option<Entries> {
    let mut entries = Vec::new();
    let all = TableReader::open(input).and_then(|table| {
        table.for_each(|key, value| {
            entries.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
    });
    all.ok().map(|()| entries)
}

/// Mutates entries, or the bytes of blocks; then corrects the checksums.
pub(crate) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if let Some(mut all) = entries(input).filter(|all| !all.is_empty() && !rng.one_in(3)) {
        change_entry(rng, &mut all, other);
        *input = from_entries(all);
        return;
    }
    // In place, so that the handles still fit.
    for _ in 0..=rng.below(4) {
        let at = rng.below(input.len());
        if let Some(byte) = input.get_mut(at) {
            *byte = if rng.one_in(2) { rng.next() as u8 } else { *byte ^ 1 << rng.below(8) };
        }
    }
    if rng.one_in(10) {
        bytes(rng, input, other);
    }
    repair(input);
}

/// Mutates one entry: its message, its key, or its presence.
pub(crate) fn change_entry(rng: &mut Rng, all: &mut Entries, other: &[u8]) {
    let at = rng.below(all.len());
    match rng.below(8) {
        0 => bytes(rng, &mut all[at].0, other),
        1 => drop(all.remove(at)),
        2 => {
            let mut copy = all[at].clone();
            bytes(rng, &mut copy.0, b"/slot");
            all.push(copy);
        }
        3 => bytes(rng, &mut all[at].1, other),
        _ => proto::mutate(rng, &mut all[at].1, other),
    }
}

pub(crate) fn mutate_snappy(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(2) {
        *input = compressed(rng);
        if rng.one_in(2) {
            return;
        }
    }
    bytes(rng, input, other);
    if rng.one_in(3) {
        // Another length, right or wrong.
        let mut rest = input.as_slice();
        take_varint(&mut rest);
        let length = if rng.one_in(2) { rng.edge() } else { rng.below(2 * rest.len() + 64) as u64 };
        *input = [varint(length), rest.to_vec()].concat();
    }
}

/// Returns a valid block: literals and copies of all kinds, and often the end that every block of a table has.
fn compressed(rng: &mut Rng) -> Vec<u8> {
    let (mut parts, mut length) = (Vec::new(), 0);
    let literal = |parts: &mut Vec<u8>, content: &[u8]| {
        parts.push((content.len() as u8 - 1) << 2);
        parts.extend_from_slice(content);
        content.len()
    };
    for _ in 0..=rng.below(12) {
        if length == 0 || rng.one_in(3) {
            let content: Vec<u8> = (0..=rng.below(50)).map(|_| rng.below(6) as u8).collect();
            length += literal(&mut parts, &content);
            continue;
        }
        let distance = 1 + rng.below(length.min(2000));
        let count = if rng.one_in(2) { 4 + rng.below(8) } else { 1 + rng.below(64) };
        match rng.below(3) {
            0 if (4..12).contains(&count) => {
                parts.extend([1 | (count as u8 - 4) << 2 | (distance >> 8 << 5) as u8, distance as u8])
            }
            1 => parts.extend([&[2 | (count as u8 - 1) << 2][..], &(distance as u16).to_le_bytes()].concat()),
            _ => parts.extend([&[3 | (count as u8 - 1) << 2][..], &(distance as u32).to_le_bytes()].concat()),
        }
        length += count;
    }
    if !rng.one_in(3) {
        length += literal(&mut parts, &[0, 0, 0, 0, 1, 0, 0, 0]);
    }
    [varint(length as u64), parts].concat()
}

/// Corrects the checksums of all blocks that the footer and the table's index point to.
fn repair(file: &mut [u8]) {
    let Some(footer) = file.len().checked_sub(FOOTER) else { return };
    let mut handles = &file[footer..];
    let mut next = || Some((take_varint(&mut handles)? as usize, take_varint(&mut handles)? as usize));
    let (Some(meta), Some(index)) = (next(), next()) else { return };
    for handle in [meta, index] {
        repair_block(file, handle);
    }
    let Some(mut rest) = index.0.checked_add(index.1).and_then(|end| file.get(index.0..end)) else { return };
    let mut found = Vec::new();
    while let (Some(_), Some(unshared), Some(size)) =
        (take_varint(&mut rest), take_varint(&mut rest), take_varint(&mut rest))
    {
        let value = (unshared as usize).checked_add(size as usize).and_then(|end| rest.get(unshared as usize..end));
        let Some(mut value) = value else { break };
        rest = &rest[unshared as usize + size as usize..];
        found.extend(take_varint(&mut value).zip(take_varint(&mut value)));
    }
    for (offset, size) in found {
        repair_block(file, (offset as usize, size as usize));
    }
}

fn repair_block(file: &mut [u8], (offset, size): (usize, usize)) {
    let end = offset.checked_add(size).and_then(|end| end.checked_add(1));
    let Some(content) = end.and_then(|end| file.get(offset..end)) else { return };
    let sum = masked(content).to_le_bytes();
    if let Some(place) = file.get_mut(offset + size + 1..offset + size + 5) {
        place.copy_from_slice(&sum);
    }
}
