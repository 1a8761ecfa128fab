//! What the unit tests of several sources share.

use crate::{Batch, PartPosition, Source};
use phalanx_base::Error;

/// Reads part 0 from `from` to its end, `chunk` rows at a time.
pub(crate) fn read_all(source: &dyn Source, from: PartPosition, chunk: usize) -> Vec<Batch> {
    let mut reader = source.open(0, from).unwrap();
    std::iter::from_fn(|| reader.read(chunk).unwrap()).collect()
}

/// Returns the error that opening or reading part 0 ends with.
pub(crate) fn first_error(source: &dyn Source) -> Error {
    let mut reader = match source.open(0, PartPosition::START) {
        Ok(reader) => reader,
        Err(error) => return error,
    };
    loop {
        match reader.read(1000) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(error) => return error,
        }
    }
}
