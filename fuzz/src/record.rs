//! Record files: plain, gzip and zlib.

use crate::mutate::bytes;
use crate::{MAX_INPUT, Rng};
use phalanx_base::Result;
use phalanx_formats::checksum::masked;
use phalanx_formats::record::{Compression, ReadOptions, RecordReader, RecordWriter};

fn read(input: &[u8], compression: Option<Compression>) -> Result<()> {
    let options = ReadOptions { compression, ..ReadOptions::default() };
    let mut reader = RecordReader::with_options(input, &options)?;
    while reader.next_record()?.is_some() {}
    Ok(())
}

pub(crate) fn plain(input: &[u8]) -> Result<()> {
    // As a plain file, and with the compression that its first bytes suggest.
    read(input, Some(Compression::None)).and(read(input, None))
}

pub(crate) fn gzip(input: &[u8]) -> Result<()> {
    read(input, Some(Compression::Gzip))
}

pub(crate) fn zlib(input: &[u8]) -> Result<()> {
    read(input, Some(Compression::Zlib))
}

/// Writes a file of these records.
pub(crate) fn file(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression);
    for record in records {
        writer.write_record(record).expect("a vector takes every record");
    }
    writer.finish().expect("a vector takes every record")
}

fn seeds(compression: Compression) -> Vec<Vec<u8>> {
    let lists: [&[Vec<u8>]; 6] = [
        &[],
        &[Vec::new()],
        &[b"one".to_vec(), b"two".to_vec()],
        &[vec![0; 3000]],
        &[(0..=255).collect(), Vec::new(), vec![7; 100]],
        // As dense as deflate gets.
        &[vec![0; 200_000]],
    ];
    lists.iter().map(|records| file(records, compression)).collect()
}

pub(crate) fn plain_seeds() -> Vec<Vec<u8>> {
    let mut all = seeds(Compression::None);
    for length in [1 << 20, 1 << 30, 1 << 40, u64::MAX, u64::MAX - 3] {
        // A header that promises too much, with a correct checksum.
        all.push([&length.to_le_bytes()[..], &masked(&length.to_le_bytes()).to_le_bytes(), b"payload"].concat());
    }
    all
}

pub(crate) fn gzip_seeds() -> Vec<Vec<u8>> {
    let mut all = seeds(Compression::Gzip);
    all.push(all.concat());
    all
}

pub(crate) fn zlib_seeds() -> Vec<Vec<u8>> {
    seeds(Compression::Zlib)
}

/// Returns the payloads of a plain file, as far as they can be told apart.
pub(crate) fn records(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = input.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX).min(rest.len());
        let payload = rest.get(4..length.saturating_add(4).min(rest.len())).unwrap_or_default();
        records.push(payload.to_vec());
        input = rest.get(length.saturating_add(8)..).unwrap_or_default();
    }
    records
}

/// Mutates the payloads and the framing; most of the time all checksums are corrected.
pub(crate) fn mutate_plain(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(4) {
        return bytes(rng, input, other);
    }
    let mut all = records(input);
    if let Some(record) = all.last_mut() {
        bytes(rng, record, other);
    }
    *input = file(&all, Compression::None);
    if rng.one_in(2) && input.len() >= 12 {
        // A wrong length with a correct checksum.
        let length = rng.edge().to_le_bytes();
        input[..8].copy_from_slice(&length);
        input[8..12].copy_from_slice(&masked(&length).to_le_bytes());
    }
}

pub(crate) fn mutate_gzip(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    mutate_compressed(rng, input, other, Compression::Gzip);
}

pub(crate) fn mutate_zlib(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    mutate_compressed(rng, input, other, Compression::Zlib);
}

fn mutate_compressed(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8], compression: Compression) {
    if !rng.one_in(3) {
        return bytes(rng, input, other);
    }
    // New content, correctly compressed: sometimes not records, sometimes many times the same byte.
    let mut content = plain_seeds().swap_remove(rng.below(6));
    if rng.one_in(50) {
        content = file(&[vec![rng.next() as u8; rng.below(4 * MAX_INPUT)]], Compression::None);
    }
    mutate_plain(rng, &mut content, other);
    *input = compress(&content, compression);
    if rng.one_in(3) {
        bytes(rng, input, other);
    }
}

/// Compresses any content.
fn compress(content: &[u8], compression: Compression) -> Vec<u8> {
    use std::io::Write;
    let mut output = Vec::new();
    let written = match compression {
        Compression::None => return content.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(&mut output, flate2::Compression::fast());
            encoder.write_all(content).and_then(|()| encoder.finish().map(drop))
        }
        Compression::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(&mut output, flate2::Compression::fast());
            encoder.write_all(content).and_then(|()| encoder.finish().map(drop))
        }
    };
    written.expect("a vector takes every byte");
    output
}
