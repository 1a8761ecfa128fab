use super::*;
use proptest::prelude::*;

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

fn file(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression);
    for record in records {
        writer.write_record(record).expect("a Vec takes everything");
    }
    writer.finish().expect("a Vec takes everything")
}

fn read(file: &[u8], options: &ReadOptions) -> phalanx_base::Result<Vec<Vec<u8>>> {
    let mut reader = RecordReader::with_options(file, options)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record.to_vec());
    }
    assert_eq!(reader.records(), records.len() as u64);
    Ok(records)
}

#[test]
fn has_the_bytes_of_tensorflow() {
    // tf.io.TFRecordWriter(path).write(b"abc") of TensorFlow 2.15.1, `xxd -p`.
    let golden = "0300000000000000b099490e6162636e57f121";
    let ours: String = file(&[b"abc".to_vec()], Compression::None).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(ours, golden);
}

#[test]
fn errors_name_the_record_and_its_offset() {
    let mut bytes = file(&[b"abc".to_vec(), b"defg".to_vec()], Compression::None);
    bytes[19 + 12] ^= 1;
    let mut reader = RecordReader::new(bytes.as_slice());
    assert_eq!(reader.next_record().unwrap(), Some(&b"abc"[..]));
    let error = reader.next_record().unwrap_err();
    assert_eq!(error.place(), Some("record 1, byte 19"));
    assert_eq!(error.why(), Some("its payload does not have its checksum"));
    assert_eq!(reader.next_record().unwrap_err().to_string(), error.to_string(), "it stays");
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let length = (1_u64 << 30).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend(crate::checksum::masked(&length).to_le_bytes());
    bytes.extend([0; 100]);
    let mut reader = RecordReader::new(bytes.as_slice());
    assert!(reader.next_record().unwrap_err().to_string().contains("cut short"));
    assert!(format!("{reader:?}").contains("records: 0"));
    let options = ReadOptions { max_record_bytes: 1 << 20, ..ReadOptions::default() };
    assert!(read(&bytes, &options).unwrap_err().to_string().contains("the limit is 1048576"));
}

#[test]
fn large_records_pass_through_a_growing_buffer() {
    let records: Vec<Vec<u8>> = [0, 1, 65_536, 65_532, 300_000, 3_000_000, 7].map(|n| vec![n as u8; n]).to_vec();
    for compression in ALL {
        assert_eq!(read(&file(&records, compression), &ReadOptions::default()).unwrap(), records);
    }
}

#[test]
fn refuses_what_grows_too_much() {
    let zeros = vec![vec![0; 40 << 20]; 4];
    for compression in [Compression::Gzip, Compression::Zlib] {
        let bytes = file(&zeros, compression);
        let error = read(&bytes, &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("at most 256 to one"), "{error}");
        let options = ReadOptions { max_ratio: 2000, ..ReadOptions::default() };
        assert_eq!(read(&bytes, &options).unwrap().len(), 4);
    }
}

#[test]
fn gzip_members_may_follow_each_other() {
    let mut bytes = file(&[b"a".to_vec()], Compression::Gzip);
    bytes.extend(file(&[b"b".to_vec()], Compression::Gzip));
    assert_eq!(read(&bytes, &ReadOptions::default()).unwrap(), [b"a", b"b"]);
}

fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..8)
}

proptest! {
    #[test]
    fn reads_back_what_was_written(records in records(), which in 0..3_usize, say in any::<bool>()) {
        let compression = say.then_some(ALL[which]);
        let bytes = file(&records, ALL[which]);
        prop_assert_eq!(read(&bytes, &ReadOptions { compression, ..ReadOptions::default() }).unwrap(), records);
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), which in 0..4_usize) {
        let _ = read(&bytes, &ReadOptions { compression: ALL.get(which).copied(), ..ReadOptions::default() });
    }

    /// Cut anywhere: an error, or between two records of a plain file the records before.
    #[test]
    fn notices_a_cut(records in records(), which in 0..3_usize, at in any::<prop::sample::Index>()) {
        let mut bytes = file(&records, ALL[which]);
        if bytes.is_empty() {
            return Ok(());
        }
        bytes.truncate(at.index(bytes.len()));
        let compression = Some(ALL[which]);
        match read(&bytes, &ReadOptions { compression, ..ReadOptions::default() }) {
            Ok(found) if ALL[which] == Compression::None => prop_assert_eq!(&records[..found.len()], &found),
            Ok(found) => prop_assert!(bytes.is_empty() && found.is_empty(), "{:?}", found),
            Err(_) => {}
        }
    }

    /// One bit anywhere: an error, or the same records where the bit means nothing to them, as gzip's time and the bits
    /// that fill deflate's last byte.
    #[test]
    fn notices_a_flipped_bit(records in records(), which in 0..3_usize, at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = file(&records, ALL[which]);
        if bytes.is_empty() {
            return Ok(());
        }
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        let compression = Some(ALL[which]);
        if let Ok(found) = read(&bytes, &ReadOptions { compression, ..ReadOptions::default() }) {
            prop_assert!(ALL[which] != Compression::None, "byte {} of {:?}", at, ALL[which]);
            prop_assert_eq!(found, records);
        }
    }
}
