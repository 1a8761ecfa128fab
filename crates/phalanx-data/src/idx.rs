//! IDX files, the format of MNIST: images and labels in files of their own, read side by side.

use crate::files::{Files, InputFile};
use crate::strided::{Conversion, Element, Layout, StridedFiles};
use crate::{PartPosition, Reader, Source};
use phalanx_base::{Code, Error, Result};
use std::path::Path;

/// Reads IDX files as one column; [`Idx::column`] adds further ones. Plain or gzip.
///
/// Bytes become uint8, other whole numbers int64, floats float32 (also doubles, rounded).
///
/// ```
/// use phalanx_data::{PartPosition, Source, idx};
/// let folder = tempfile::tempdir().unwrap();
/// let (images, labels) = (folder.path().join("images"), folder.path().join("labels"));
/// std::fs::write(&images, [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[0, 51, 102, 255]].concat()).unwrap();
/// std::fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 2, 7, 9]).unwrap();
///
/// let digits = idx("image", &images).scaled("image").column("label", &labels).label("label");
/// let batch = digits.open(0, PartPosition::START)?.read(10)?.unwrap();
/// assert_eq!(batch.column("image")?.row_shape(), [1, 2]);
/// assert_eq!(batch.f32("image")?, [0.0, 0.2, 0.4, 1.0]);
/// assert_eq!(batch.i64("label")?, [7, 9]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn idx(name: impl Into<String>, files: impl Into<Files>) -> Idx {
    Idx(StridedFiles::default().column(name.into(), files.into()))
}

/// The 60,000 training digits in a folder that has MNIST's four files (or Fashion-MNIST's), gzip or not: `image` is
/// uint8 of shape 28 × 28 ([`Idx::scaled`] makes it float32 between 0 and 1), `label` int64.
pub fn mnist_train(folder: impl AsRef<Path>) -> Idx {
    mnist(folder.as_ref(), "train")
}

/// The 10,000 test digits; see [`mnist_train`].
pub fn mnist_test(folder: impl AsRef<Path>) -> Idx {
    mnist(folder.as_ref(), "t10k")
}

fn mnist(folder: &Path, part: &str) -> Idx {
    let file = |what: &str| {
        let plain = folder.join(format!("{part}-{what}-ubyte"));
        let gzip = folder.join(format!("{part}-{what}-ubyte.gz"));
        if plain.exists() { plain } else { gzip }
    };
    idx("image", file("images-idx3")).column("label", file("labels-idx1")).label("label")
}

/// IDX files, a column each; made by [`idx`], [`mnist_train`] and [`mnist_test`].
#[derive(Clone, Debug)]
pub struct Idx(StridedFiles);

impl Idx {
    /// Adds a column from other files: as many files, in the same order, with as many rows.
    #[must_use]
    pub fn column(self, name: impl Into<String>, files: impl Into<Files>) -> Self {
        Self(self.0.column(name.into(), files.into()))
    }

    /// Makes a column float32; bytes are divided by 255.
    #[must_use]
    pub fn scaled(self, name: &str) -> Self {
        Self(self.0.converted(name, Conversion::Scaled))
    }

    /// Marks a column as the label; bytes in it become int64.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        Self(self.0.label(name.into()))
    }
}

impl Source for Idx {
    fn parts(&self) -> Result<usize> {
        self.0.parts()
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        self.0.open(part, from, layout)
    }

    fn kind(&self) -> &str {
        "idx"
    }

    fn part_name(&self, part: usize) -> String {
        self.0.part_name(part)
    }
}

/// Reads a header: two zeros, the type, the number of dimensions, the dimensions.
fn layout(path: &str) -> Result<Layout> {
    let wrong = |why: String| Err(Error::new(Code::DataFormat, format!("{path:?} is not an IDX file")).because(why));
    let mut input = InputFile::open(path, 0)?;
    let mut magic = [0; 4];
    let count = input.fill(&mut magic)?;
    if count < 4 {
        return wrong(if count == 0 { "it is empty".to_owned() } else { format!("it has only {count} bytes") });
    }
    let element = match magic[2] {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        other => return wrong(format!("its third byte is {other:#04x}, which is no type of IDX")),
    };
    if magic[..2] != [0, 0] {
        return wrong("it does not begin with two zeros".to_owned());
    }
    let dims = usize::from(magic[3]);
    let mut sizes = vec![0; 4 * dims];
    if input.fill(&mut sizes)? < sizes.len() || dims == 0 {
        return wrong(format!("it ends before its {dims} dimensions"));
    }
    let sizes: Vec<u32> = sizes.as_chunks::<4>().0.iter().map(|&size| u32::from_be_bytes(size)).collect();
    let row_shape: Vec<usize> = sizes[1..].iter().map(|&size| size as usize).collect();
    let layout = Layout { element, big_endian: true, row_shape, rows: sizes[0].into(), start: 4 + 4 * dims as u64 };
    if layout.stride().is_none_or(|stride| stride > 1 << 30) {
        return wrong(format!("its rows have the shape {:?}", layout.row_shape));
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::first_error;

    fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn numbers_of_every_type() {
        let folder = tempfile::tempdir().unwrap();
        let read = |kind: u8, bytes: &[u8]| {
            let head = [0, 0, kind, 1, 0, 0, 0, 2];
            let path = write(folder.path(), "a", &[&head[..], bytes].concat());
            let mut reader = idx("x", path).open(0, PartPosition::START).unwrap();
            let batch = reader.read(10).unwrap().unwrap();
            assert!(reader.read(10).unwrap().is_none());
            batch.columns()[0].clone()
        };
        assert_eq!(read(0x08, &[1, 255]).as_u8().unwrap(), [1, 255]);
        assert_eq!(read(0x09, &[1, 255]).as_i64().unwrap(), [1, -1]);
        assert_eq!(read(0x0b, &[1, 0, 255, 254]).as_i64().unwrap(), [256, -2]);
        assert_eq!(read(0x0c, &[0, 0, 1, 0, 255, 255, 255, 255]).as_i64().unwrap(), [256, -1]);
        let floats: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!(read(0x0d, &floats).as_f32().unwrap(), [1.5, -2.0]);
        let doubles: Vec<u8> = [1.5_f64, -2.0].iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!(read(0x0e, &doubles).as_f32().unwrap(), [1.5, -2.0]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for (bytes, said) in [
            (&[][..], "it is empty"),
            (&[0, 0, 8], "only 3 bytes"),
            (&[0, 0, 7, 1, 0, 0, 0, 1, 0], "no type of IDX"),
            (&[1, 0, 8, 1, 0, 0, 0, 1, 0], "two zeros"),
            (&[0, 0, 8, 3, 0, 0, 0, 1], "before its 3 dimensions"),
            (&[0, 0, 8, 3, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255], "shape"),
            (&[0, 0, 8, 1, 0, 0, 0, 3, 1, 2], "promises 3 rows, it ends inside row 2"),
        ] {
            let error = first_error(&idx("x", write(folder.path(), "a", bytes)));
            assert_eq!(error.code(), Code::DataFormat);
            assert!(error.to_string().contains(said), "{error}");
        }
        let (a, b) = (
            write(folder.path(), "a", &[0, 0, 8, 1, 0, 0, 0, 1, 7]),
            write(folder.path(), "b", &[0, 0, 8, 1, 0, 0, 0, 0]),
        );
        assert!(first_error(&idx("x", &a).column("y", &b)).to_string().contains("different numbers of rows"));
        let missing = idx("x", folder.path().join("c")).parts().unwrap_err();
        assert_eq!(missing.code(), Code::DataMissing);
    }

    #[test]
    fn a_position_continues_with_the_next_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a", &[0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6]);
        let source = idx("x", path);
        let mut reader = source.open(0, PartPosition::START).unwrap();
        reader.read(2).unwrap();
        let mut again = source.open(0, reader.position()).unwrap();
        assert_eq!(again.read(10).unwrap().unwrap().u8("x").unwrap(), [5, 6]);
        assert!(source.open(0, PartPosition { row: 4, ..PartPosition::START }).is_err());
    }

    #[test]
    fn the_digits_of_mnist() {
        let Ok(folder) = std::env::var("PHALANX_DATA_DIR") else {
            eprintln!("skipped: needs data (PHALANX_DATA_DIR)");
            return;
        };
        let train = mnist_train(Path::new(&folder).join("mnist")).scaled("image");
        let mut reader = train.open(0, PartPosition::START).unwrap();
        let (mut rows, mut first, mut classes) = (0, Vec::new(), [0; 10]);
        while let Some(batch) = reader.read(1000).unwrap() {
            if rows == 0 {
                first = batch.i64("label").unwrap()[..5].to_vec();
                assert_eq!(batch.column("image").unwrap().row_shape(), [28, 28]);
                assert!(batch.f32("image").unwrap().iter().all(|pixel| (0.0..=1.0).contains(pixel)));
            }
            rows += batch.rows();
            batch.i64("label").unwrap().iter().for_each(|&label| classes[label as usize] += 1);
        }
        assert_eq!((rows, first), (60_000, vec![5, 0, 4, 1, 9]));
        assert!(classes.iter().all(|&count| count > 5_000), "{classes:?}");
    }
}
