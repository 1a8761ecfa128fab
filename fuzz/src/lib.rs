//! Every parser that takes bytes from outside, as a function of bytes, with what a fuzzer needs to reach deep into it.
//!
//! [`PARSERS`] lists them. Each has seeds made by our own writers, hostile ones made by hand, and a mutation that knows
//! the format: it changes lengths, counts and fields and then puts the checksums right, because a file whose checksum
//! is wrong never gets beyond it. The binary drives them (`cargo run --release -p phalanx-fuzz -- --help`), the tests
//! run them under proptest.

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
pub use rng::Rng;

use phalanx_base::Result;

/// A parser as a fuzzer sees it.
pub struct Parser {
    /// Its name on the command line.
    pub name: &'static str,
    /// Parses; an error is as good as success, a panic is not.
    pub run: fn(&[u8]) -> Result<()>,
    /// Valid and hostile inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Changes an input; the other one is there to take pieces from.
    pub mutate: fn(&mut Rng, &mut Vec<u8>, &[u8]),
    /// How many bytes of memory an input of one byte more justifies, and how many one of none.
    pub memory: (usize, usize),
}

/// No mutated input is larger.
pub const MAX_INPUT: usize = 256 << 10;

/// Values, their places and their names: an empty string is two bytes in a file, three numbers in memory, and twice
/// that while a list of them grows.
const USUAL: (usize, usize) = (64, 64 << 10);
/// Readers of record files have a buffer of 256 KiB and one of 64 KiB.
const STREAM: (usize, usize) = (64, 512 << 10);
/// Deflate makes at most 1032 bytes of one, and the buffer for a record doubles: old and new one are there together.
const DEFLATE: (usize, usize) = (3 * 1032, 768 << 10);

/// An empty message of two bytes in a list becomes a struct of up to 150, twice that while the list grows. What bounds
/// it is the limit on headers, 4 MiB.
const MESSAGE: (usize, usize) = (256, 64 << 10);

/// Every parser there is.
pub const PARSERS: &[Parser] = &[
    Parser {
        name: "record",
        run: record::plain,
        seeds: record::plain_seeds,
        mutate: record::mutate_plain,
        memory: STREAM,
    },
    Parser {
        name: "record-gzip",
        run: record::gzip,
        seeds: record::gzip_seeds,
        mutate: record::mutate_gzip,
        memory: DEFLATE,
    },
    Parser {
        name: "record-zlib",
        run: record::zlib,
        seeds: record::zlib_seeds,
        mutate: record::mutate_zlib,
        memory: DEFLATE,
    },
    Parser { name: "example", run: example::example, seeds: example::seeds, mutate: proto::mutate, memory: USUAL },
    Parser {
        name: "sequence",
        run: example::sequence,
        seeds: example::sequence_seeds,
        mutate: proto::mutate,
        memory: USUAL,
    },
    Parser { name: "whole", run: example::whole, seeds: example::sequence_seeds, mutate: proto::mutate, memory: USUAL },
    Parser { name: "event", run: event::event, seeds: event::seeds, mutate: event::mutate, memory: STREAM },
    Parser { name: "table", run: table::table, seeds: table::seeds, mutate: table::mutate, memory: USUAL },
    Parser {
        name: "snappy",
        run: table::snappy,
        seeds: table::snappy_seeds,
        mutate: table::mutate_snappy,
        memory: USUAL,
    },
    Parser { name: "bundle", run: bundle::bundle, seeds: bundle_seeds::seeds, mutate: bundle::mutate, memory: USUAL },
    Parser {
        name: "slice-key",
        run: bundle::slice_key,
        seeds: bundle_seeds::keys,
        mutate: mutate::bytes,
        memory: USUAL,
    },
    Parser {
        name: "checkpoint-state",
        run: text::state,
        seeds: text::state_seeds,
        mutate: text::mutate_state,
        memory: USUAL,
    },
    Parser {
        name: "safetensors",
        run: weights::safetensors,
        seeds: weights::safetensors_seeds,
        mutate: weights::mutate_safetensors,
        memory: USUAL,
    },
    Parser {
        name: "object-graph",
        run: weights::object_graph,
        seeds: weights::object_graph_seeds,
        mutate: proto::mutate,
        memory: MESSAGE,
    },
    Parser {
        name: "saved-model",
        run: weights::saved_model,
        seeds: weights::saved_model_seeds,
        mutate: proto::mutate,
        memory: MESSAGE,
    },
    Parser {
        name: "slice-text",
        run: text::slice,
        seeds: text::slice_seeds,
        mutate: text::mutate_slice,
        memory: USUAL,
    },
    Parser {
        name: "tf-config",
        run: text::tf_config,
        seeds: text::tf_config_seeds,
        mutate: text::mutate_tf_config,
        memory: USUAL,
    },
    Parser {
        name: "address",
        run: text::address,
        seeds: text::address_seeds,
        mutate: text::mutate_address,
        memory: USUAL,
    },
    Parser { name: "frame", run: frame::frame, seeds: frame::seeds, mutate: frame::mutate, memory: MESSAGE },
];

impl Parser {
    /// The parser of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PARSERS.iter().find(|parser| parser.name == name)
    }

    /// How much memory an input of this length may take.
    #[must_use]
    pub fn allowed_bytes(&self, input: usize) -> usize {
        self.memory.0 * input + self.memory.1
    }

    /// One more input: one of the corpus, changed, and rather one of the first, which are the seeds.
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
