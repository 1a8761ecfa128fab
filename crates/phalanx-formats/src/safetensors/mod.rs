//! safetensors files: names, types and shapes as JSON, then raw little-endian numbers.
//!
//! ```text
//! u64 length of the header | header: {"NAME": {"dtype", "shape", "data_offsets"}, "__metadata__": {..}} | numbers
//! ```
//!
//! ```
//! use phalanx_base::Shape;
//! use phalanx_formats::safetensors::{SafeTensors, SafeTensorsWriter};
//! # fn main() -> phalanx_base::Result<()> {
//! let mut writer = SafeTensorsWriter::new();
//! writer.metadata("format", "np");
//! writer.add_f32s("dense/kernel", &Shape::new([2, 2])?, &[1.0, 2.0, 3.0, 4.0])?;
//! let file = writer.write(Vec::new())?;
//!
//! let tensors = SafeTensors::parse(&file)?;
//! assert_eq!(tensors.get("dense/kernel")?.f32s()?, [1.0, 2.0, 3.0, 4.0]);
//! assert_eq!(tensors.header().metadata()["format"], "np");
//! # Ok(())
//! # }
//! ```
//!
//! The reader enforces the format's rules: the numbers of all tensors are stored back to back, without gaps, and end where
//! the file ends; no name occurs twice. So every byte of a file has exactly one meaning.

mod header;
mod json;
mod reader;
mod writer;

use crate::bundle::Dtype;
pub use header::{SafeTensorsHeader, TensorEntry};
use phalanx_base::{Code, Error};
pub use reader::{SafeTensors, TensorView};
pub use writer::SafeTensorsWriter;

/// The key beside the tensors' names that has the metadata.
const METADATA: &str = "__metadata__";
/// The format's own limit for the header.
const MAX_HEADER: u64 = 100_000_000;

/// The types of the format and their names in it. Those narrower than a byte are not among them.
const DTYPES: [(&str, Dtype); 16] = [
    ("BOOL", Dtype::Bool),
    ("U8", Dtype::U8),
    ("I8", Dtype::I8),
    ("F8_E5M2", Dtype::F8E5M2),
    ("F8_E4M3", Dtype::F8E4M3),
    ("I16", Dtype::I16),
    ("U16", Dtype::U16),
    ("F16", Dtype::F16),
    ("BF16", Dtype::Bf16),
    ("I32", Dtype::I32),
    ("U32", Dtype::U32),
    ("F32", Dtype::F32),
    ("C64", Dtype::Complex64),
    ("F64", Dtype::F64),
    ("I64", Dtype::I64),
    ("U64", Dtype::U64),
];

/// An error about bytes that are not such a file.
fn malformed(why: impl std::fmt::Display) -> Error {
    Error::new(Code::DataFormat, "the safetensors file is damaged")
        .because(why)
        .help("its writing was cut short or something changed it; write it again, or take another copy")
}
