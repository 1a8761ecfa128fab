//! Malicious indexes with correct checksums: never a panic, a range outside of a file, or memory for a mere claim.

use super::proto::dims::Dim;
use super::proto::slice::Extent;
use super::proto::{Dims, Entry, Slice};
use super::{BundleIndex, BundleReader, TableReader, TableWriter, slice_key};
use phalanx_base::Code;
use proptest::prelude::*;
use prost::Message;

const HEADER: &[u8] = &[8, 1, 26, 2, 8, 1];

fn entry(dtype: i32, dims: &[i64], offset: i64, size: i64) -> Entry {
    let dim = dims.iter().map(|&size| Dim { size }).collect();
    Entry { dtype, shape: Some(Dims { dim, unknown_rank: false }), offset, size, ..Entry::default() }
}

fn sliced(dims: &[i64], slices: &[(i64, Option<i64>)]) -> Entry {
    let slices = slices.iter().map(|&(start, length)| Slice { extent: vec![Extent { start, length }] });
    Entry { slices: slices.collect(), ..entry(1, dims, 0, 0) }
}

/// A table with right checksums around whatever is in it.
fn table(entries: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut table = TableWriter::new();
    for (key, value) in entries {
        table.add(key, value).unwrap();
    }
    table.finish()
}

/// Keys and what they stand for.
type Entries<'a> = Vec<(&'a [u8], Entry)>;

fn index(entries: &[(&[u8], Entry)]) -> Vec<u8> {
    let mut all: Vec<(&[u8], Vec<u8>)> = vec![(b"", HEADER.to_vec())];
    all.extend(entries.iter().map(|(key, entry)| (*key, entry.encode_to_vec())));
    table(&all)
}

#[test]
fn indices_with_right_checksums_and_wrong_content_are_refused() {
    let good = entry(1, &[2], 0, 8);
    let reader = BundleReader::open(&index(&[(b"a", good.clone())]), vec![vec![0; 8]]).unwrap();
    assert!(reader.verify().is_err(), "its checksum is 0");
    let with = |change: &dyn Fn(&mut Entry)| {
        let mut entry = good.clone();
        change(&mut entry);
        entry
    };
    let bad = [
        ("negative dim", entry(1, &[-2], 0, 8)),
        ("negative dims", entry(1, &[-2, -1], 0, 8)),
        ("absurd dims", entry(1, &[i64::MAX, i64::MAX], 0, 8)),
        ("absurd dim hidden by zero", entry(1, &[0, i64::MAX, i64::MAX], 0, 0)),
        ("too many dims", entry(1, &[1; 300], 0, 4)),
        ("more elements than bytes", entry(1, &[1 << 39], 0, 8)),
        ("fewer elements than bytes", entry(1, &[1], 0, 8)),
        ("no shape", with(&|e| e.shape = None)),
        ("unknown rank", with(&|e| e.shape.as_mut().unwrap().unknown_rank = true)),
        ("dtype 0", entry(0, &[2], 0, 8)),
        ("dtype 99", entry(99, &[2], 0, 8)),
        ("a resource", entry(20, &[2], 0, 8)),
        ("negative dtype", entry(-1, &[2], 0, 8)),
        ("negative offset", entry(1, &[2], -1, 8)),
        ("negative size", entry(1, &[2], 0, -8)),
        ("beyond the file", entry(1, &[2], 1, 8)),
        ("far beyond the file", entry(1, &[2], i64::MAX, 8)),
        ("giant", entry(1, &[1 << 38], 0, 1 << 40)),
        ("giant strings", entry(7, &[1 << 40], 0, 8)),
        ("strings without room", entry(7, &[5], 0, 8)),
        ("shard beyond", with(&|e| e.shard_id = 1)),
        ("negative shard", with(&|e| e.shard_id = -1)),
        ("slices without entries", sliced(&[4], &[(0, Some(2)), (2, Some(2))])),
        ("slice outside", sliced(&[4], &[(3, Some(2))])),
        ("slice at the end of numbers", sliced(&[4], &[(i64::MAX, Some(i64::MAX))])),
        ("negative slice", sliced(&[4], &[(-1, Some(2))])),
        ("negative length", sliced(&[4], &[(1, Some(-1))])),
        ("start without length", sliced(&[4], &[(1, None)])),
        ("slice of another rank", sliced(&[2, 2], &[(0, Some(1))])),
    ];
    for (what, entry) in bad {
        let opened = BundleReader::open(&index(&[(b"a", entry)]), vec![vec![0; 8]]);
        assert_eq!(opened.err().map(|error| error.code()), Some(Code::DataFormat), "{what}");
    }
}

#[test]
fn entries_that_contradict_each_other_are_refused() {
    let first = slice_key("a", &"0,2".parse().unwrap());
    let second = slice_key("a", &"2,2".parse().unwrap());
    let overlapping = slice_key("a", &"1,2".parse().unwrap());
    let (at0, at8) = (entry(1, &[2], 0, 8), entry(1, &[2], 8, 8));
    let two = sliced(&[4], &[(0, Some(2)), (2, Some(2))]);
    let good = index(&[(&first, at0.clone()), (&second, at8.clone()), (b"a", two.clone())]);
    assert!(BundleIndex::parse(&good).is_ok());
    let bad: [(&str, Entries<'_>); 9] = [
        ("overlapping ranges", vec![(b"a", entry(1, &[2], 0, 8)), (b"b", entry(1, &[2], 4, 8))]),
        ("the same range", vec![(b"a", entry(1, &[2], 0, 8)), (b"b", entry(1, &[2], 0, 8))]),
        ("one range for two slices", vec![(&first, at0.clone()), (&second, at0.clone()), (b"a", two.clone())]),
        ("a slice missing", vec![(&first, at0.clone()), (b"a", two.clone())]),
        ("a slice too many", vec![(&first, at0.clone()), (&second, at8.clone()), (b"a", entry(1, &[4], 16, 16))]),
        ("a slice of another type", vec![(&first, entry(3, &[2], 0, 8)), (&second, at8.clone()), (b"a", two.clone())]),
        ("a slice of another shape", vec![(&first, entry(1, &[1, 2], 0, 8)), (&second, at8.clone()), (b"a", two)]),
        (
            "overlapping slices",
            vec![
                (&first, at0.clone()),
                (&overlapping, at8.clone()),
                (b"a", sliced(&[4], &[(0, Some(2)), (1, Some(2))])),
            ],
        ),
        ("a slice twice", vec![(&first, at0), (b"a", sliced(&[4], &[(0, Some(2)), (0, Some(2))]))]),
    ];
    for (what, entries) in bad {
        assert!(BundleIndex::parse(&index(&entries)).is_err(), "{what}");
    }
    assert!(BundleIndex::parse(&index(&[(b"\0junk", at8.clone())])).is_err());
    assert!(BundleIndex::parse(&index(&[(b"\xff\xfe", at8)])).is_err(), "a name that is no text");
}

#[test]
fn headers_that_make_no_sense_are_refused() {
    let with = |header: &[u8]| BundleIndex::parse(&table(&[(b"", header.to_vec())]));
    assert!(with(HEADER).is_ok());
    for header in [
        &[][..],
        &[8, 0],
        &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[8, 0xff, 0xff, 0xff, 0xff, 7],
        &[8, 1, 16, 1],
        &[8, 1, 26, 2, 16, 2],
        &[8, 1, 26, 3, 26, 1, 1],
        &[8],
    ] {
        assert!(with(header).is_err(), "{header:?}");
    }
    assert!(BundleIndex::parse(&table(&[(b"a", HEADER.to_vec())])).is_err());
    assert!(BundleIndex::parse(&table(&[])).is_err());
}

/// A table of one block made by hand, with right checksums.
fn raw_table(block: &[u8], kind: u8) -> Vec<u8> {
    let mut file = Vec::new();
    let mut put = |block: &[u8], kind: u8| {
        let (offset, covered) = (file.len(), [block, &[kind]].concat());
        file.extend(&covered);
        file.extend(crate::checksum::masked(&covered).to_le_bytes());
        let mut handle = Vec::new();
        prost::encoding::encode_varint(offset as u64, &mut handle);
        prost::encoding::encode_varint(block.len() as u64, &mut handle);
        handle
    };
    let data = put(block, kind);
    let mut footer = put(&[0, 0, 0, 0, 1, 0, 0, 0], 0);
    let index = [&[0, 1, data.len() as u8, 0xff][..], &data, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
    footer.extend(put(&index, 0));
    footer.resize(40, 0);
    file.extend(footer);
    file.extend([0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
    file
}

#[test]
fn snappy_blocks_are_read_and_bombs_are_not() {
    let plain = [&[0, 0, 6][..], HEADER, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
    assert!(BundleIndex::parse(&raw_table(&plain, 0)).is_ok());
    let literal = [&[plain.len() as u8, (plain.len() as u8 - 1) << 2][..], &plain].concat();
    assert!(BundleIndex::parse(&raw_table(&literal, 1)).is_ok());
    assert!(BundleIndex::parse(&raw_table(&plain, 2)).is_err());
    assert!(BundleIndex::parse(&raw_table(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], 1)).is_err());
}

#[test]
fn keys_that_share_too_much_do_not_fill_the_memory() {
    // A long key, then many that are it and a little more: four bytes each, 60,000 in memory.
    let mut block = vec![0, 0, 6];
    block.extend(HEADER);
    block.extend([0, 0xe0, 0xd4, 0x03, 0]);
    block.extend(vec![b'k'; 60_000]);
    for shared in 60_000..65_000 {
        prost::encoding::encode_varint(shared, &mut block);
        block.extend([1, 0, b'k']);
    }
    block.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let file = raw_table(&block, 0);
    assert!(BundleIndex::parse(&file).is_err());
    let mut count = 0;
    TableReader::open(&file)
        .unwrap()
        .for_each(|_, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(count, 5002);
}

proptest! {
    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(BundleIndex::parse(&bytes).is_err());
        let mut ended = bytes;
        ended.extend([0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
        prop_assert!(BundleIndex::parse(&ended).is_err());
    }

    #[test]
    fn any_block_with_a_right_checksum_is_handled(
        block in proptest::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..120), kind in 0..2_u8, restarts in 1..3_u8
    ) {
        let block = [&block[..], &[0, 0, 0, 0], &[restarts, 0, 0, 0]].concat();
        let _ = BundleIndex::parse(&raw_table(&block, kind));
    }

    #[test]
    fn any_entry_is_an_error_or_inside_of_the_file(values in proptest::collection::vec(
        proptest::collection::vec(prop_oneof![0..60_u8, any::<u8>()], 0..60), 0..4), header in any::<bool>())
    {
        let mut entries: Vec<(&[u8], Vec<u8>)> = Vec::new();
        if header {
            entries.push((b"", HEADER.to_vec()));
        }
        entries.extend([&b"a"[..], b"b", b"c", b"d"].into_iter().zip(values));
        if let Ok(reader) = BundleReader::open(&table(&entries), vec![vec![0; 64]]) {
            for (name, info) in reader.index().tensors() {
                prop_assert!(info.spans().all(|span| span.offset + span.size <= 64));
                let _ = reader.read(name);
            }
        }
    }
}
