//! Damaged bundles: never a panic, and never other values than were written.

use phalanx_base::{Code, Result, Shape};
use phalanx_formats::bundle::{BundleReader, BundleWriter, Dtype, TensorSlice};
use proptest::prelude::*;

/// A small checkpoint of one shard with everything in it: numbers, strings, slices.
fn small() -> (Vec<u8>, Vec<u8>) {
    let mut writer = BundleWriter::new(Vec::new());
    let full = Shape::new([3, 2]).unwrap();
    writer.add_f32s("bias", &Shape::new([2]).unwrap(), &[1.5, -2.5]).unwrap();
    writer.add_strings("words", &Shape::new([3]).unwrap(), ["a", "", "cde"]).unwrap();
    for (start, count) in [(0, 2), (2, 1)] {
        let slice = TensorSlice::rows(start, count, 2);
        let mut tensor = writer.begin_slice("w", Dtype::F32, &full, &slice).unwrap();
        tensor.write_f32s(&vec![start as f32; 2 * count as usize]).unwrap();
        tensor.finish().unwrap();
    }
    let (file, index) = writer.finish().unwrap();
    (index.to_bytes().unwrap(), file)
}

/// Everything that a reader gives, or the error.
fn content(index: &[u8], file: &[u8]) -> Result<Vec<String>> {
    let reader = BundleReader::open(index, vec![file.to_vec()])?;
    reader.verify()?;
    reader.index().tensors().keys().map(|name| Ok(format!("{name} {:?}", reader.read(name)?))).collect()
}

#[test]
fn every_single_bit_flip_is_detected_or_harmless() {
    let (index, file) = small();
    let original = content(&index, &file).unwrap();
    let mut harmless = 0;
    for bit in 0..index.len() * 8 {
        let mut flipped = index.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(found) = content(&flipped, &file) {
            assert_eq!(found, original, "bit {bit} of the index");
            harmless += 1;
            assert!(bit / 8 >= index.len() - 48, "only the footer's padding may be changed, not bit {bit}");
        }
    }
    assert!(harmless < 40 * 8, "{harmless}");
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(content(&index, &flipped).unwrap_err().code(), Code::DataFormat, "bit {bit} of the data");
    }
}

#[test]
fn every_truncation_is_detected() {
    let (index, file) = small();
    for length in 0..index.len() {
        assert!(content(&index[..length], &file).is_err(), "index of {length} bytes");
    }
    for length in 0..file.len() {
        assert!(content(&index, &file[..length]).is_err(), "data of {length} bytes");
    }
    assert_eq!(content(&index, &[&file[..], b"more"].concat()).unwrap(), content(&index, &file).unwrap());
}

#[test]
fn a_missing_data_file_is_an_error_at_once() {
    let (index, _) = small();
    let error = BundleReader::open(&index, Vec::<Vec<u8>>::new()).err().unwrap();
    assert_eq!(error.code(), Code::DataMissing);
}

proptest! {
    #[test]
    fn changed_bytes_are_detected_or_harmless(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..5)) {
        let (index, file) = small();
        let original = content(&index, &file).unwrap();
        let mut both = [index.clone(), file].concat();
        for (at, byte) in changes {
            let at = usize::from(at) % both.len();
            both[at] = byte;
        }
        if let Ok(found) = content(&both[..index.len()], &both[index.len()..]) {
            prop_assert_eq!(found, original);
        }
    }
}
