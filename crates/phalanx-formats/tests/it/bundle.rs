//! Bundles written and read back: shards, slices, types, and what is refused.

use phalanx_base::{Code, Shape};
use phalanx_formats::bundle::{
    BundleIndex, BundleReader, BundleWriter, Dtype, TableReader, TableWriter, Tensor, TensorLocation, TensorSlice,
    slice_key,
};
use proptest::prelude::*;

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

fn add_slice(writer: &mut BundleWriter<Vec<u8>>, name: &str, full: &Shape, slice: &str, numbers: &[f32]) {
    let mut tensor = writer.begin_slice(name, Dtype::F32, full, &slice.parse().unwrap()).unwrap();
    for piece in numbers.chunks(3) {
        tensor.write_f32s(piece).unwrap();
    }
    tensor.finish().unwrap();
}

/// What TensorFlow 2.15.1 writes for: `tf.raw_ops.SaveV2(prefix=p, tensor_names=["step", "w", "w"], shape_and_slices=
/// ["", "3 2 0,2:-", "3 2 2,1:-"], tensors=[tf.constant(7, tf.int64), [[1., 2.], [3., 4.]], [[5., 6.]]])`
const GOLDEN: &str = "\
    00000608011a020801000a150077000101028082807f08011208120208021202080220082810354c2898740604158281807f\
    08011208120208011202080220182808352cb9ff5200040b7374657008091200280835bbd79f1100011e7708011208120208\
    03120208023a060a0210020a003a080a04080210010a000000000001000000000b506ab7000000000100000000c0f2a1b000\
    010378008301000000000100000000eee1c4a888010895010f00000000000000000000000000000000000000000000000000\
    00000000000000000057fb808b247547db";

#[test]
fn the_index_is_tensorflows_byte_for_byte() {
    let mut writer = BundleWriter::new(Vec::new());
    writer.add_i64s("step", &shape(&[]), &[7]).unwrap();
    add_slice(&mut writer, "w", &shape(&[3, 2]), "0,2:-", &[1.0, 2.0, 3.0, 4.0]);
    add_slice(&mut writer, "w", &shape(&[3, 2]), "2,1:-", &[5.0, 6.0]);
    let (file, index) = writer.finish().unwrap();
    assert_eq!(file[..12], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f]);
    let bytes = index.to_bytes().unwrap();
    assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), GOLDEN);
    assert_eq!(BundleIndex::parse(&bytes).unwrap(), index);
}

#[test]
fn every_type_comes_back() {
    let mut writer = BundleWriter::new(Vec::new());
    for &dtype in Dtype::ALL {
        if let Some(width) = dtype.width() {
            let bytes: Vec<u8> = (0..6 * width as u8).collect();
            writer.add_bytes(dtype.as_str(), dtype, &shape(&[2, 3]), &bytes).unwrap();
        }
    }
    writer.add_strings("strings", &shape(&[2, 2]), ["", "b", "\u{ff}\0", &"long".repeat(100)]).unwrap();
    writer.add_strings("no strings", &shape(&[0]), [""; 0]).unwrap();
    writer.add_f32s("nothing", &shape(&[0, 4]), &[]).unwrap();
    let (file, index) = writer.finish().unwrap();
    let reader = BundleReader::open(&index.to_bytes().unwrap(), vec![file.clone()]).unwrap();
    assert_eq!(reader.verify().unwrap(), file.len() as u64);
    assert_eq!(reader.read("uint8").unwrap().u8s().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(reader.read("bool").unwrap().bools().unwrap(), [false, true, true, true, true, true]);
    assert_eq!(reader.read("int32").unwrap().i32s().unwrap()[0], 0x0302_0100);
    assert_eq!(reader.read("int64").unwrap().i64s().unwrap().len(), 6);
    assert_eq!(reader.read("float64").unwrap().f64s().unwrap().len(), 6);
    assert!(reader.read("float64").unwrap().f32s().is_err());
    let strings = reader.read("strings").unwrap();
    assert_eq!(strings.strings().unwrap().iter().map(<[u8]>::len).collect::<Vec<_>>(), [0, 1, 3, 400]);
    let row = reader.read_rows("strings", 1, 1).unwrap();
    assert_eq!(row.strings().unwrap().iter().map(<[u8]>::len).collect::<Vec<_>>(), [3, 400]);
    assert!(reader.read("no strings").unwrap().strings().unwrap().is_empty());
    assert!(reader.read("nothing").unwrap().f32s().unwrap().is_empty());
    assert!(reader.read_rows("nothing", 0, 0).unwrap().f32s().unwrap().is_empty());
    assert_eq!(reader.read("flaot64").unwrap_err().next(), Some("did you mean \"float64\"?"));
}

#[test]
fn slices_of_four_shards_become_one_tensor_and_any_rows_of_it() {
    let full = shape(&[10, 3]);
    let numbers: Vec<f32> = (0..30_u8).map(f32::from).collect();
    let (mut files, mut parts) = (Vec::new(), Vec::new());
    for (start, end) in [(0, 3), (3, 6), (6, 8), (8, 10)] {
        let mut writer = BundleWriter::new(Vec::new());
        add_slice(&mut writer, "w", &full, &format!("{start},{}:0,3", end - start), &numbers[start * 3..end * 3]);
        writer.add_f32s(&format!("only/{start}"), &shape(&[1]), &[start as f32]).unwrap();
        let (file, index) = writer.finish().unwrap();
        files.push(file);
        // As it would travel.
        parts.push(BundleIndex::parse(&index.to_bytes().unwrap()).unwrap());
    }
    let index = BundleIndex::merge(parts.clone()).unwrap();
    assert_eq!((index.shards(), index.tensors().len()), (4, 5));
    let reader = BundleReader::open(&index.to_bytes().unwrap(), &files).unwrap();
    assert_eq!(reader.index(), &index);
    assert_eq!(reader.read("w").unwrap().f32s().unwrap(), numbers);
    assert_eq!(reader.read("only/8").unwrap().f32s().unwrap(), [8.0]);
    for start in 0..10 {
        for count in 0..=10 - start {
            let rows = reader.read_rows("w", start as u64, count as u64).unwrap();
            assert_eq!(rows.f32s().unwrap(), numbers[start * 3..(start + count) * 3]);
        }
    }
    let column = reader.read_slice("w", &"-:1,1".parse().unwrap()).unwrap();
    assert_eq!(column.f32s().unwrap(), numbers.iter().skip(1).step_by(3).copied().collect::<Vec<_>>());

    // Without one shard's part nothing else is lost.
    let first = BundleReader::open(&parts[0].to_bytes().unwrap(), &files).unwrap();
    assert!(first.read("w").unwrap_err().to_string().contains("insufficient slices: 9 of 30"));
    assert_eq!(first.read_rows("w", 1, 2).unwrap().f32s().unwrap(), numbers[3..9]);
    assert!(first.verify().is_err());
}

#[test]
fn slices_larger_than_what_is_read_at_a_time_come_back() {
    let (rows, columns) = (400_000, 7);
    let full = shape(&[rows, columns]);
    let numbers: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let mut writer = BundleWriter::new(Vec::new());
    for (start, end) in [(0, 390_001), (390_001, rows)] {
        let slice = TensorSlice::rows(start as u64, (end - start) as u64, 2);
        let mut tensor = writer.begin_slice("w", Dtype::F32, &full, &slice).unwrap();
        tensor.write_f32s(&numbers[start * columns..end * columns]).unwrap();
        tensor.finish().unwrap();
    }
    let (file, index) = writer.finish().unwrap();
    let reader = BundleReader::new(index, vec![file]).unwrap();
    assert!(reader.read("w").unwrap().f32s().unwrap() == numbers);
    for (start, count) in [(149_796, 3), (0, 1), (390_000, 2), (100_000, 299_999)] {
        let found = reader.read_rows("w", start as u64, count as u64).unwrap().f32s().unwrap();
        assert!(found == numbers[start * columns..(start + count) * columns], "{start}");
    }
    let found = reader.read_slice("w", &"-:2,3".parse().unwrap()).unwrap().f32s().unwrap();
    assert!(found.iter().eq(numbers.chunks(columns).flat_map(|row| &row[2..5])));
}

#[test]
fn a_slice_that_is_everything_is_a_plain_tensor() {
    let mut writer = BundleWriter::new(Vec::new());
    add_slice(&mut writer, "w", &shape(&[2, 2]), "0,2:-", &[1.0; 4]);
    let (_, sliced) = writer.finish().unwrap();
    let mut writer = BundleWriter::new(Vec::new());
    writer.add_f32s("w", &shape(&[2, 2]), &[1.0; 4]).unwrap();
    assert_eq!(writer.finish().unwrap().1, sliced);
}

#[test]
fn merging_refuses_what_cannot_be_one_checkpoint() {
    let part = |name: &str, dims: &[usize], slice: Option<&str>| {
        let mut writer = BundleWriter::new(Vec::new());
        match slice {
            None => writer.add_f32s(name, &shape(dims), &vec![0.0; dims.iter().product()]).unwrap(),
            Some(slice) => add_slice(&mut writer, name, &shape(dims), slice, &[0.0; 2]),
        }
        writer.finish().unwrap().1
    };
    let sliced = |slice| part("a", &[4], Some(slice));
    assert!(BundleIndex::merge([sliced("0,2"), sliced("2,2")]).is_ok());
    for (a, b) in [
        (part("a", &[2], None), part("a", &[2], None)),
        (part("a", &[4], None), sliced("0,2")),
        (sliced("0,2"), part("a", &[5], Some("2,2"))),
        (sliced("0,2"), sliced("1,2")),
        (sliced("0,2"), sliced("0,2")),
    ] {
        assert_eq!(BundleIndex::merge([a, b]).unwrap_err().code(), Code::DataFormat);
    }
    assert!(BundleIndex::merge([]).is_err());
}

#[test]
fn the_writer_refuses_tensors_that_are_not_what_they_say() {
    let mut writer = BundleWriter::new(Vec::new());
    let two = shape(&[2]);
    assert!(writer.begin("", Dtype::F32, &two).is_err());
    assert!(writer.begin("\0a", Dtype::F32, &two).is_err());
    assert!(writer.begin("s", Dtype::String, &two).is_err());
    assert!(writer.add_strings("s", &two, ["one"]).is_err());
    assert!(writer.begin_slice("a", Dtype::F32, &two, &TensorSlice::rows(1, 2, 1)).is_err());
    assert!(writer.begin_slice("a", Dtype::F32, &two, &TensorSlice::rows(1, 0, 1)).is_err());
    writer.add_f32s("a", &two, &[1.0, 2.0]).unwrap();
    assert!(writer.add_f32s("b", &two, &[1.0]).is_err());
    assert!(writer.add_f32s("c", &two, &[1.0, 2.0]).is_err(), "b was not finished");
    assert!(writer.finish().is_err());
}

#[test]
fn keys_must_ascend_across_blocks_and_large_tables_come_back() {
    let mut table = TableWriter::new();
    let value = vec![9; 1000];
    let keys: Vec<String> = (0..2000).map(|i| format!("layer/{i:06}/kernel")).collect();
    for key in &keys {
        table.add(key.as_bytes(), &value).unwrap();
        assert!(table.add(key.as_bytes(), &value).is_err());
    }
    let bytes = table.finish();
    assert!(bytes.len() > 4 * 262_144);
    let mut found = Vec::new();
    let read = TableReader::open(&bytes).unwrap().for_each(|key, v| {
        assert_eq!(v, value);
        found.push(String::from_utf8(key.to_vec()).unwrap());
        Ok(())
    });
    read.unwrap();
    assert_eq!(found, keys);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A variable cut at any rows and columns into any number of shards is the same variable.
    #[test]
    fn any_grid_of_slices_comes_back(rows in 1..9_usize, columns in 1..6_usize, depth in 1..3_usize,
        row_cuts in proptest::collection::btree_set(1..9_usize, 0..4),
        column_cuts in proptest::collection::btree_set(1..6_usize, 0..3), shards in 1..4_usize,
        wanted in (0..9_usize, 0..6_usize, 0..9_usize, 0..6_usize))
    {
        let full = shape(&[rows, columns, depth]);
        let number = |r: usize, c: usize, d: usize| ((r * columns + c) * depth + d) as f32;
        let bounds = |cuts: std::collections::BTreeSet<usize>, size| {
            let inner: Vec<usize> = cuts.into_iter().filter(|&cut| cut < size).collect();
            [vec![0], inner, vec![size]].concat()
        };
        let (row_bounds, column_bounds) = (bounds(row_cuts, rows), bounds(column_cuts, columns));
        let mut writers: Vec<_> = (0..shards).map(|_| BundleWriter::new(Vec::new())).collect();
        let mut turn = 0;
        for r in row_bounds.windows(2) {
            for c in column_bounds.windows(2) {
                let numbers: Vec<f32> = (r[0]..r[1]).flat_map(|row| (c[0]..c[1]).flat_map(move |column| {
                    (0..depth).map(move |d| number(row, column, d))
                })).collect();
                let slice = format!("{},{}:{},{}:-", r[0], r[1] - r[0], c[0], c[1] - c[0]);
                add_slice(&mut writers[turn % shards], "w", &full, &slice, &numbers);
                turn += 1;
            }
        }
        let (files, parts): (Vec<_>, Vec<_>) = writers.into_iter().map(|writer| writer.finish().unwrap()).unzip();
        let index = BundleIndex::merge(parts).unwrap().to_bytes().unwrap();
        let reader = BundleReader::open(&index, files).unwrap();
        let all: Vec<f32> = (0..rows * columns * depth).map(|i| i as f32).collect();
        prop_assert_eq!(reader.read("w").unwrap().f32s().unwrap(), all);
        let (r, c) = (wanted.0.min(rows), wanted.1.min(columns));
        let (rs, cs) = (wanted.2.min(rows - r), wanted.3.min(columns - c));
        let part = reader.read_slice("w", &format!("{r},{rs}:{c},{cs}:-").parse().unwrap()).unwrap();
        let expected: Vec<f32> = (r..r + rs).flat_map(|row| (c..c + cs).flat_map(move |column| {
            (0..depth).map(move |d| number(row, column, d))
        })).collect();
        prop_assert_eq!(part.f32s().unwrap(), expected);
    }

    #[test]
    fn any_names_come_back_sorted(names in proptest::collection::btree_set("[a-c/\u{e9}\u{7f}]{1,12}", 0..60)) {
        let mut writer = BundleWriter::new(Vec::new());
        for (i, name) in names.iter().rev().enumerate() {
            writer.add_i64s(name, &shape(&[]), &[i as i64]).unwrap();
        }
        let (_, index) = writer.finish().unwrap();
        let parsed = BundleIndex::parse(&index.to_bytes().unwrap()).unwrap();
        prop_assert_eq!(&parsed, &index);
        prop_assert!(parsed.tensors().keys().eq(names.iter()));
    }
}

#[test]
fn slice_keys_sort_before_names_and_after_the_header() {
    let key = slice_key("zebra", &TensorSlice::rows(0, 1, 1));
    assert!(key.as_slice() > b"".as_slice() && key.as_slice() < b"\x01".as_slice());
}

#[test]
fn strings_in_slices_come_together() {
    let shape = Shape::new([4, 2]).unwrap();
    let words = ["a", "", "long", "longer", "é", "\0", "x", "y"];
    let (mut files, mut parts) = (Vec::new(), Vec::new());
    for (slice, range) in [("0,1:-", 0..2), ("1,3:-", 2..8)] {
        let mut writer = BundleWriter::new(Vec::new());
        let slice: TensorSlice = slice.parse().unwrap();
        writer.add_string_slice("words", &shape, &slice, &words[range.clone()]).unwrap();
        let few = writer.add_string_slice("others", &shape, &slice, &words[..1]).unwrap_err();
        assert_eq!(few.code(), Code::ShapeMismatch);
        let (file, index) = writer.finish().unwrap();
        files.push(file);
        parts.push(index);
    }
    let index = BundleIndex::merge(parts).unwrap().to_bytes().unwrap();
    let reader = BundleReader::open(&index, files).unwrap();
    let read = |tensor: Tensor| -> Vec<String> {
        tensor.strings().unwrap().iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
    };
    assert_eq!(read(reader.read("words").unwrap()), words);
    assert_eq!(read(reader.read_rows("words", 1, 2).unwrap()), words[2..6]);
    reader.verify().unwrap();
}

#[test]
fn a_whole_slice_of_strings_is_a_tensor() {
    let mut writer = BundleWriter::new(Vec::new());
    writer.add_string_slice("w", &Shape::new([2]).unwrap(), &"0,2".parse().unwrap(), ["a", "b"]).unwrap();
    let (_, index) = writer.finish().unwrap();
    assert!(matches!(index.tensors()["w"].location, TensorLocation::Whole(_)));
}
