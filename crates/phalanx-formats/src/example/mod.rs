//! `tf.train.Example` and `SequenceExample`: named lists of numbers or bytes.
//!
//! [`ExampleParser`] reads only the wanted columns, straight from the protobuf bytes into columns of a batch.
//! [`ExampleWriter`] writes one, its keys sorted. [`read_any_example`] reads all features, for tools that do not know
//! them in advance.
//!
//! ```
//! use phalanx_formats::example::{ExampleParser, ExampleWriter, FeatureSpec, FeatureKind};
//! let mut example = ExampleWriter::new();
//! example.f32s("price", &[1.5]).bytes("words", &["red", "car"]);
//!
//! let specs = vec![FeatureSpec::fixed("price", FeatureKind::F32, 1), FeatureSpec::variable("words", FeatureKind::Bytes)];
//! let mut parser = ExampleParser::new(specs)?;
//! parser.push(&example.encode())?;
//! let batch = parser.finish();
//! assert_eq!(batch.column("price").unwrap().values.as_f32().unwrap(), [1.5]);
//! assert_eq!(batch.column("words").unwrap().row_splits.as_deref(), Some(&[0, 2][..]));
//! # Ok::<(), phalanx_base::Error>(())
//! ```

mod any_example;
mod builder;
mod column;
mod columns;
mod feature;
mod lookup;
mod parser;
mod sequence;
mod sequence_writer;
mod spec;

mod writer;

#[cfg(test)]
mod tests;

/// The messages as prost sees them.
#[allow(missing_docs, unreachable_pub, clippy::enum_variant_names)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.example.rs"));
}

pub use any_example::{AnyExample, Feature, read_any_example};
pub use column::{ExampleBatch, ExampleColumn, FeatureValues};
pub use parser::ExampleParser;
pub use sequence::{SequenceBatch, SequenceParser};
pub use sequence_writer::SequenceWriter;
pub use spec::{FeatureKind, FeatureLayout, FeatureSpec};
pub use writer::ExampleWriter;
