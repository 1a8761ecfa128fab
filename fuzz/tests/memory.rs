//! The memory that large hostile files take. A binary of its own with one test, because it counts every allocation of
//! the process.

use phalanx_formats::bundle::{BundleIndex, TableWriter, TensorSlice, slice_key};
use phalanx_formats::checksum::masked;
use phalanx_formats::event::EventReader;
use phalanx_formats::record::RecordWriter;
use phalanx_fuzz::{Counting, varint};

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// An index with a header and these entries.
fn index(entries: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let mut table = TableWriter::new();
    table.add(b"", &[8, 1, 26, 2, 8, 1]).unwrap();
    for (key, value) in entries {
        table.add(&key, &value).unwrap();
    }
    table.finish()
}

/// An index of one block in which every key after the first shares 60,000 bytes with the previous one.
fn shared_names(count: u32) -> Vec<u8> {
    let mut entries = vec![0, 0, 6, 8, 1, 26, 2, 8, 1];
    entries.extend([&[0, 0xe0, 0xd4, 3, 6][..], &[b'n'; 60_000], &[8, 3, 18, 2, 18, 0]].concat());
    for i in 0..count {
        entries.extend([0xe0, 0xd4, 3, 6, 6]);
        entries.extend(format!("{i:06x}").into_bytes());
        entries.extend([8, 3, 18, 2, 18, 0]);
    }
    let mut file = Vec::new();
    let data = block(&mut file, &entries);
    let index = block(&mut file, &[&[0, 1, data.len() as u8, b'z'][..], &data].concat());
    let mut footer = [block(&mut file, &[]), index].concat();
    footer.resize(40, 0);
    file.extend(footer);
    file.extend([0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
    file
}

/// Appends a block with one restart; returns its handle.
fn block(file: &mut Vec<u8>, entries: &[u8]) -> Vec<u8> {
    let offset = file.len();
    file.extend_from_slice(entries);
    file.extend([0, 0, 0, 0, 1, 0, 0, 0, 0]);
    file.extend(masked(&file[offset..]).to_le_bytes());
    [varint(offset as u64), varint(entries.len() as u64 + 8)].concat()
}

/// An event file of one event with these bytes as its values.
fn values(value: &[u8], count: usize) -> Vec<u8> {
    let values = value.repeat(count);
    let mut event = [vec![0x2a], varint(values.len() as u64)].concat();
    event.extend(values);
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(&event).unwrap();
    writer.finish().unwrap()
}

fn events(file: &[u8]) -> usize {
    let ((), peak) = MEMORY.peak_of(|| {
        let mut reader = EventReader::new(file);
        while let Ok(Some(_)) = reader.next_event() {}
    });
    peak
}

#[test]
fn hostile_files_take_a_small_multiple_of_their_bytes() {
    // A float32 tensor of no elements with a crc, as small as an honest entry can be.
    let empty = [8, 1, 18, 2, 18, 0, 53, 1, 2, 3, 4];
    let counted = |name: &'static str| move |i: u32| (format!("{name}{i:06x}").into_bytes(), empty.to_vec());
    let long: &'static str = "n".repeat(100).leak();
    let full = [58, 2, 10, 0].repeat(500_000);
    let listed: Vec<u8> = (0..60_000_u32)
        .flat_map(|i| [58, 8, 10, 6, 8, i as u8 | 128, (i >> 7) as u8 | 128, (i >> 14) as u8, 16, 1])
        .collect();
    let slice = |i: u32| (slice_key("s", &TensorSlice::rows(i.into(), 1, 1)), vec![8, 1, 18, 4, 18, 2, 8, 1, 40, 4]);
    let named = |i: u32| (slice_key(&format!("{long}{i:06x}"), &TensorSlice::rows(0, 1, 1)), slice(0).1);
    let indices = [
        ("slices of long names", index((0..200_000).map(named))),
        ("half a million entries", index((0..500_000).map(counted("n")))),
        (
            "entries of six bytes",
            index((0..1_000_000_u32).map(|i| (format!("n{i:06x}").into_bytes(), vec![8, 3, 18, 2, 18, 0]))),
        ),
        ("long names that share all", index((0..200_000).map(counted(long)))),
        ("names of 60 KiB in few bytes", shared_names(20_000)),
        ("slices of nothing", index((0..300_000).map(slice))),
        (
            "slices of four bytes",
            index(std::iter::once((b"s".to_vec(), [&[8, 1, 18, 4, 18, 2, 8, 5][..], &full].concat()))),
        ),
        (
            "listed slices",
            index(std::iter::once((b"s".to_vec(), [&[8, 1, 18, 6, 18, 4, 8, 128, 137, 122][..], &listed].concat()))),
        ),
    ];
    for (name, index) in &indices {
        let (result, peak) = MEMORY.peak_of(|| BundleIndex::parse(index).map(drop));
        let outcome = result.map_or_else(|error| error.why().unwrap_or_default().to_owned(), |()| "ok".to_owned());
        let factor = peak as f64 / index.len() as f64;
        assert!(peak <= 32 * index.len() + (1 << 20), "{name}: {peak} bytes, {factor:.1} times; {outcome}");
        eprintln!("{name}: {} bytes, {factor:.1} times; {outcome}", index.len());
    }
    let tag = [10, 3, 10, 1, b'a'];
    let name = [&[10, 134, 1, 10, 1, b'a', 74, 128, 1, 10, 126, 10, 124][..], &[b'p'; 124]].concat();
    // 2^40 times one text.
    let spread = [
        10, 33, 10, 1, b'a', 74, 8, 10, 6, 10, 4, b't', b'e', b'x', b't', 66, 18, 8, 7, 18, 10, 18, 8, 8, 128, 128,
        128, 128, 128, 128, 1, 66, 2, b'x', b'y',
    ];
    for (what, file) in [
        ("empty values", values(&[10, 0], 1_000_000)),
        ("values of a tag", values(&tag, 400_000)),
        ("a long plugin's name", values(&[name, tag.repeat(100)].concat(), 2000)),
        ("a text that stands for many", values(&spread, 10_000)),
    ] {
        let peak = events(&file);
        let factor = peak as f64 / file.len() as f64;
        assert!(peak <= 64 * file.len() + (1 << 20), "{what}: {peak} bytes, {factor:.1} times");
        eprintln!("{what}: {} bytes, {factor:.1} times", file.len());
    }
}
