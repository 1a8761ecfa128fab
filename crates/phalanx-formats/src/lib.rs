//! The files that TensorFlow reads and writes, on `Read` and `Write`; nothing here opens a path or a socket.
//!
//! | what | where |
//! | --- | --- |
//! | masked crc32c, Fingerprint64 | [`checksum`], [`fingerprint`] |
//! | TFRecord files, plain, gzip or zlib | [`record`] |
//! | `tf.train.Example` and `SequenceExample`, for the wanted columns only | [`example`] |
//! | event files: scalars, histograms, text, images | [`event`] |
//! | PNG files of plain pixels | [`png`] |
//! | checkpoints: the tensor bundle and `CheckpointState` | [`bundle`] |
//! | object graphs of TensorFlow 2's checkpoints; weights of Keras models | [`object_graph`] |
//! | SavedModels: a graph, its variables and signatures | [`saved_model`] |
//! | safetensors files | [`safetensors`] |
//!
//! Every parser checks counts, offsets and sizes against what is left to read before it takes memory for them.

pub mod bundle;
pub mod checksum;
pub mod event;
pub mod example;
pub mod fingerprint;
pub mod object_graph;
pub mod png;
pub mod record;
pub mod safetensors;
pub mod saved_model;

mod strings;
mod wire;

pub use strings::{Strings, StringsView};
