//! A file as a stream of plain bytes, whatever its compression, from any place on.

use super::ahead::ReadAhead;
use super::open::{OpenFile, open};
use flate2::read::MultiGzDecoder;
use phalanx_base::{Code, Context, Error, Result};
use std::io::{ErrorKind, Read, SeekFrom};

/// The decompressed bytes of a file. Gzip is known by its first two bytes, not by the name.
pub(crate) struct InputFile {
    path: String,
    stream: Stream,
}

enum Stream {
    Plain(Box<dyn OpenFile>),
    /// Of an object store: the next block is asked for while this one is parsed.
    Remote(ReadAhead),
    Gzip(ReadAhead),
}

impl InputFile {
    /// Opens a file at a byte of its decompressed contents.
    pub(crate) fn open(path: &str, from: u64) -> Result<Self> {
        let mut file = open(path)?;
        let unreadable = || format!("cannot read {path:?}");
        let mut magic = Vec::with_capacity(2);
        file.by_ref().take(2).read_to_end(&mut magic).context(Code::DataMissing, unreadable())?;
        let gzip = magic == [0x1f, 0x8b];
        let start = if gzip { 0 } else { from };
        file.seek(SeekFrom::Start(start)).context(Code::DataMissing, unreadable())?;
        if !gzip {
            let size = file.size().context(Code::DataMissing, unreadable())?;
            if from > size {
                return Err(too_short(path, from, size));
            }
            let stream = if file.is_remote() {
                Stream::Remote(ReadAhead::new(file).context(Code::DataMissing, unreadable())?)
            } else {
                Stream::Plain(file)
            };
            return Ok(Self { path: path.to_owned(), stream });
        }
        let ahead = ReadAhead::new(MultiGzDecoder::new(file)).context(Code::DataMissing, unreadable())?;
        let mut input = Self { path: path.to_owned(), stream: Stream::Gzip(ahead) };
        input.skip(from)?;
        Ok(input)
    }

    /// Reads until the buffer is full or the file ends; how many bytes that were.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = match &mut self.stream {
                Stream::Plain(file) => file.read(&mut buffer[filled..]),
                Stream::Remote(ahead) | Stream::Gzip(ahead) => ahead.read(&mut buffer[filled..]),
            };
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        Ok(filled)
    }

    fn skip(&mut self, mut count: u64) -> Result<()> {
        let mut scratch = vec![0; (1 << 16).min(count) as usize];
        let wanted = count;
        while count > 0 {
            let room = scratch.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            match self.fill(&mut scratch[..room])? {
                0 => return Err(too_short(&self.path, wanted, wanted - count)),
                read => count -= read as u64,
            }
        }
        Ok(())
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        let path = &self.path;
        match (&self.stream, error.kind()) {
            (Stream::Gzip(_), ErrorKind::UnexpectedEof) => {
                Error::new(Code::DataFormat, format!("{path:?} is cut short"))
                    .because("its gzip stream has no end")
                    .help("its writer may have been killed, or the copy of it was not finished")
            }
            (Stream::Gzip(_), ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
                Error::new(Code::DataFormat, format!("{path:?} does not decompress")).because(error)
            }
            _ => Error::new(Code::DataMissing, format!("cannot read {path:?}")).because(error),
        }
    }
}

/// For readers that take any stream; errors then lack the file's name.
impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(file) => file.read(buffer),
            Stream::Remote(ahead) | Stream::Gzip(ahead) => ahead.read(buffer),
        }
    }
}

fn too_short(path: &str, from: u64, size: u64) -> Error {
    Error::new(Code::DataFormat, format!("{path:?} is shorter than it was"))
        .because(format!("reading was to resume at byte {from}, and it has {size}"))
        .help("the files must not change between a checkpoint and its restoration")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn files() -> (tempfile::TempDir, [String; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.txt", "b.gz"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
        std::fs::write(&paths[0], "hello, world").unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"hello, world").unwrap();
        std::fs::write(&paths[1], gzip.finish().unwrap()).unwrap();
        (folder, paths)
    }

    fn read_all(path: &str, from: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; 100];
        let count = InputFile::open(path, from)?.fill(&mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    #[test]
    fn plain_and_gzip_from_any_place() {
        let (_folder, paths) = files();
        for path in &paths {
            assert_eq!(read_all(path, 0).unwrap(), b"hello, world");
            assert_eq!(read_all(path, 7).unwrap(), b"world");
            assert_eq!(read_all(path, 12).unwrap(), b"");
            assert!(read_all(path, 13).is_err_and(|error| error.to_string().contains("shorter than it was")));
        }
    }

    #[test]
    fn gzip_that_is_cut_short_or_damaged() {
        let (_folder, [_, path]) = files();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 6]).unwrap();
        let error = read_all(&path, 0).unwrap_err();
        assert_eq!(error.code(), Code::DataFormat);
        assert!(error.to_string().contains("cut short"), "{error}");
        let mut damaged = whole.clone();
        damaged[12] ^= 0xff;
        std::fs::write(&path, &damaged).unwrap();
        let error = read_all(&path, 0).unwrap_err();
        assert_eq!(error.code(), Code::DataFormat, "{error}");
    }
}
