//! Checkpoints as seeds.

use crate::mutate::{join, varint};
use crate::proto::{Field, FieldValue, encode};
use crate::table::{Entries, from_entries};
use phalanx_base::{Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleWriter, Dtype, TensorSlice, slice_key};

/// The header of an index of `shards` data files.
fn header(shards: u8) -> (Vec<u8>, Vec<u8>) {
    (Vec::new(), vec![8, shards, 26, 2, 8, 1])
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let data = vec![0; 4096];
    let mut all = written().expect("a vector takes every tensor");
    all.extend(hostile().iter().map(|index| join(index, &data)));
    all
}

pub(crate) fn indices() -> Vec<Vec<u8>> {
    hostile()
}

pub(crate) fn keys() -> Vec<Vec<u8>> {
    let slices = ["", "-", "0,1", "2,1:-", "9223372036854775807,1:0,4294967296:-", "-:-:-:-:-:-:-:-"];
    let names = ["", "n", "a/b", "\0", "ÿ\0ÿ", "a name that is longer than others"];
    let parsed: Vec<TensorSlice> = slices.iter().map(|text| text.parse().expect("a slice")).collect();
    names.iter().flat_map(|name| parsed.iter().map(|slice| slice_key(name, slice))).collect()
}

/// Checkpoints from our writer: many types, and slices in every direction.
fn written() -> Result<Vec<Vec<u8>>> {
    let mut writer = BundleWriter::new(Vec::new());
    writer.add_i64s("global_step", &Shape::new([])?, &[1200])?;
    writer.add_f32s("dense/kernel", &Shape::new([4, 6])?, &[0.5; 24])?;
    writer.add_f32s("dense/kernel/Adam", &Shape::new([4, 6])?, &[0.25; 24])?;
    writer.add_bytes("flags", Dtype::Bool, &Shape::new([3])?, &[1, 0, 1])?;
    writer.add_f32s("empty", &Shape::new([0, 4])?, &[])?;
    writer.add_strings("words", &Shape::new([2, 2])?, ["a", "", "long", "longer"])?;
    let (file, index) = writer.finish()?;
    let mut all = vec![join(&index.to_bytes()?, &file)];
    // All data files have the same bytes here, so all parts must have the same bytes for their slices.
    for slices in [&["0,2:-", "2,2:-"][..], &["-:0,3", "-:3,3"], &["0,2:0,3", "0,2:3,3", "2,2:0,3", "2,2:3,3"]] {
        let (mut parts, mut file) = (Vec::new(), Vec::new());
        for slice in slices {
            let slice: TensorSlice = slice.parse()?;
            let mut writer = BundleWriter::new(Vec::new());
            let mut tensor = writer.begin_slice("w", Dtype::F32, &Shape::new([4, 6])?, &slice)?;
            tensor.write_f32s(&vec![1.0; 24 / slices.len()])?;
            tensor.finish()?;
            let (written, index) = writer.finish()?;
            file = written;
            parts.push(index);
        }
        all.push(join(&BundleIndex::merge(parts)?.to_bytes()?, &file));
    }
    Ok(all)
}

fn entry(dtype: u64, dims: &[u64], offset: u64, size: u64) -> Vec<Field> {
    let dims = dims.iter().map(|&size| Field::message(2, vec![Field::varint(1, size)]));
    let shape = Field::message(2, dims.collect());
    vec![
        Field::varint(1, dtype),
        shape,
        Field::varint(4, offset),
        Field::varint(5, size),
        Field { number: 6, value: FieldValue::Fixed32([0; 4]) },
    ]
}

/// Small indexes that promise much, all with correct checksums.
fn hostile() -> Vec<Vec<u8>> {
    let one = |entry: Vec<Field>| from_entries(vec![header(1), (b"a".to_vec(), encode(&entry))]);
    let mut all = vec![
        from_entries(vec![header(1)]),
        one(entry(1, &[1 << 38], 0, 1 << 40)),
        one(entry(1, &[u64::MAX], 0, 8)),
        one(entry(7, &[1 << 40], 0, 4096)),
        one(entry(7, &[4000], 0, 4096)),
        one(entry(21, &[1 << 30], 0, 4096)),
        one(entry(1, &[2; 8], 0, 1024)),
    ];
    // Names with a long common prefix: few bytes for many long keys.
    let shared: Entries =
        (0..200_u32).map(|i| ([&[b'n'; 2000][..], &i.to_be_bytes()].concat(), encode(&entry(1, &[0], 0, 0)))).collect();
    all.push(from_entries([vec![header(1)], shared].concat()));
    // Many tiny entries.
    let many: Entries = (0..2000_u32).map(|i| ([&[b'm'][..], &i.to_be_bytes()].concat(), vec![8, 1])).collect();
    all.push(from_entries([vec![header(1)], many].concat()));
    // Many slices without entries.
    let slices: Vec<u8> = (0..500).flat_map(|i| [vec![0x3a], slice(i)].concat()).collect();
    all.push(from_entries(vec![header(4), (b"s".to_vec(), [encode(&entry(1, &[500], 0, 0)), slices].concat())]));
    all
}

/// A slice of one row, preceded by its length.
fn slice(start: u64) -> Vec<u8> {
    let extent = encode(&[Field::varint(1, start), Field::varint(2, 1)]);
    let slice = [vec![0x0a], varint(extent.len() as u64), extent].concat();
    [varint(slice.len() as u64), slice].concat()
}
