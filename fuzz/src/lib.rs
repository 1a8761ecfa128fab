//! Every parser of outside input as a fuzz target: a function of bytes, with seeds and a mutator.
//!
//! [`PARSERS`] lists them. The seeds come from our own writers or are hostile ones made by hand. The mutators know the
//! format: they change lengths, counts and fields and then correct the checksums, because a parser rejects a file with a
//! wrong checksum at once. Three drivers use them: the libFuzzer targets in `fuzz/libfuzzer` (coverage-guided, nightly),
//! the binary of this crate (any compiler; see `--help`), and the tests, which run under proptest.

mod bundle;
mod bundle_seeds;
mod event;
mod example;
mod frame;
mod memory;
mod mutate;
mod proto;
mod record;
mod rng;
mod table;
mod text;
mod weights;

pub use memory::Counting;
pub use mutate::varint;
use phalanx_base::Result;
pub use rng::Rng;

/// A parser as a fuzz target.
pub struct Parser {
    /// Its name on the command line.
    pub name: &'static str,
    /// Parses the input. It may return an error but must not panic.
    pub run: fn(&[u8]) -> Result<()>,
    /// Returns valid and hostile inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutates the first input, taking pieces from the second.
    pub mutate: fn(&mut Rng, &mut Vec<u8>, &[u8]),
    /// How many bytes of memory each byte of input justifies, and how many an empty input.
    pub memory: (usize, usize),
}

/// The maximum length of a mutated input.
pub const MAX_INPUT: usize = 256 << 10;

/// Values and their names: an empty string is two bytes in a file, three words in memory, and twice that while a list of
/// them grows.
const USUAL: (usize, usize) = (64, 64 << 10);
/// Readers of record files have buffers of 256 KiB and 64 KiB.
const STREAM: (usize, usize) = (64, 512 << 10);
/// Deflate expands a byte to at most 1032, and while the buffer for a record doubles, the old and the new one coexist.
const DEFLATE: (usize, usize) = (3 * 1032, 768 << 10);

/// An empty message of two bytes becomes a struct of up to 150, twice that while a list grows. The limit on headers,
/// 4 MiB, bounds it.
const MESSAGE: (usize, usize) = (256, 64 << 10);

/// All parsers.
pub const PARSERS: &[Parser] = &[
    parser("record", record::plain, record::plain_seeds, record::mutate_plain, STREAM),
    parser("record-gzip", record::gzip, record::gzip_seeds, record::mutate_gzip, DEFLATE),
    parser("record-zlib", record::zlib, record::zlib_seeds, record::mutate_zlib, DEFLATE),
    parser("example", example::example, example::seeds, proto::mutate, USUAL),
    parser("sequence", example::sequence, example::sequence_seeds, proto::mutate, USUAL),
    parser("any-example", example::any_example, example::sequence_seeds, proto::mutate, USUAL),
    parser("event", event::event, event::seeds, event::mutate, STREAM),
    parser("table", table::table, table::seeds, table::mutate, USUAL),
    parser("snappy", table::snappy, table::snappy_seeds, table::mutate_snappy, USUAL),
    parser("bundle", bundle::bundle, bundle_seeds::seeds, bundle::mutate, USUAL),
    parser("slice-key", bundle::slice_key, bundle_seeds::keys, mutate::bytes, USUAL),
    parser("checkpoint-state", text::state, text::state_seeds, text::mutate_state, USUAL),
    parser("safetensors", weights::safetensors, weights::safetensors_seeds, weights::mutate_safetensors, USUAL),
    parser("object-graph", weights::object_graph, weights::object_graph_seeds, proto::mutate, MESSAGE),
    parser("saved-model", weights::saved_model, weights::saved_model_seeds, proto::mutate, MESSAGE),
    parser("slice-text", text::slice, text::slice_seeds, text::mutate_slice, USUAL),
    parser("tf-config", text::tf_config, text::tf_config_seeds, text::mutate_tf_config, USUAL),
    parser("address", text::address, text::address_seeds, text::mutate_address, USUAL),
    parser("frame", frame::frame, frame::seeds, frame::mutate, MESSAGE),
];

const fn parser(
    name: &'static str,
    run: fn(&[u8]) -> Result<()>,
    seeds: fn() -> Vec<Vec<u8>>,
    mutate: fn(&mut Rng, &mut Vec<u8>, &[u8]),
    memory: (usize, usize),
) -> Parser {
    Parser { name, run, seeds, mutate, memory }
}

impl Parser {
    /// Returns the parser called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PARSERS.iter().find(|parser| parser.name == name)
    }

    /// Returns how many bytes of memory an input of this length may take.
    #[must_use]
    pub fn allowed_bytes(&self, input: usize) -> usize {
        self.memory.0 * input + self.memory.1
    }

    /// Returns a mutated input of the corpus; its first ones, the seeds, are the likeliest.
    #[must_use]
    pub fn input(&self, rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
        let first = rng.below(corpus.len());
        let mut input = corpus[rng.below(first + 1)].clone();
        let other = rng.below(corpus.len());
        (self.mutate)(rng, &mut input, &corpus[other]);
        input.truncate(MAX_INPUT);
        input
    }
}
