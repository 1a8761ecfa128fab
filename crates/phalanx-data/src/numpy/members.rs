//! The members of an `.npz` file, which is a zip file.

use crate::files::open;
use flate2::read::DeflateDecoder;
use phalanx_base::{Code, Error, Result};
use std::io::{BufReader, Read, SeekFrom};
use zip::{CompressionMethod, ZipArchive};

/// One file inside a zip file.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    deflated: bool,
    /// Where its compressed bytes begin in the zip file, and how many there are.
    start: u64,
    compressed: u64,
}

/// Lists the members in the order of the zip file's directory.
pub(super) fn members(path: &str) -> Result<Vec<Member>> {
    let broken = |why| {
        Error::new(Code::DataFormat, format!("{path:?} is not a complete .npz file"))
            .because(why)
            .help("its writer may have been killed, or the copy of it was not finished")
    };
    let mut archive = ZipArchive::new(open(path)?).map_err(broken)?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        // Fails for members that are encrypted or compressed in another way.
        let file = archive.by_index(index).map_err(broken)?;
        members.push(Member {
            name: file.name().map_err(broken)?.into_owned(),
            deflated: file.compression() == CompressionMethod::Deflated,
            start: file.data_start().unwrap_or_default(),
            compressed: file.compressed_size(),
        });
    }
    Ok(members)
}

impl Member {
    /// Opens the member's decompressed bytes.
    pub(super) fn open(&self, path: &str) -> Result<Box<dyn Read + Send>> {
        let mut file = open(path)?;
        file.seek(SeekFrom::Start(self.start)).map_err(|error| {
            Error::new(Code::DataFormat, format!("{:?} in {path:?} cannot be read", self.name)).because(error)
        })?;
        let stored = BufReader::with_capacity(256 << 10, file).take(self.compressed);
        Ok(if self.deflated { Box::new(DeflateDecoder::new(stored)) } else { Box::new(stored) })
    }
}
