//! Runs the parsers of `phalanx-fuzz` under libFuzzer:
//! `cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer bundle`.

pub use libfuzzer_sys;
use phalanx_fuzz::{Counting, Parser, Rng};
use std::sync::LazyLock;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// A parser and the seeds its inputs are built from.
pub struct Target {
    parser: &'static Parser,
    seeds: LazyLock<Vec<Vec<u8>>>,
}

impl Target {
    /// Returns the target for the parser called `name`.
    ///
    /// # Panics
    /// If there is no such parser.
    pub fn new(name: &str) -> Self {
        let parser = Parser::named(name).expect("a parser of this name");
        Self { parser, seeds: LazyLock::new(parser.seeds) }
    }

    /// Parses `input`; panics when that takes more memory than its length justifies.
    pub fn run(&self, input: &[u8]) {
        let (_, peak) = MEMORY.peak_of(|| (self.parser.run)(input).is_ok());
        let allowed = self.parser.allowed_bytes(input.len());
        assert!(peak <= allowed, "{peak} bytes of memory for an input of {}; {allowed} are allowed", input.len());
    }

    /// Mutates `data[..size]` in place and returns its new length: as the format demands, or, one time in four, as
    /// libFuzzer does. Starts from a seed where there is no input yet.
    pub fn mutate(&self, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
        let mut rng = Rng::new(seed.into());
        if size > 0 && rng.one_in(4) {
            return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
        }
        let from_seed = size <= 1 || rng.one_in(50);
        let mut input = if from_seed { rng.pick(&self.seeds).clone() } else { data[..size].to_vec() };
        let other = rng.below(self.seeds.len());
        (self.parser.mutate)(&mut rng, &mut input, &self.seeds[other]);
        input.truncate(max_size);
        data[..input.len()].copy_from_slice(&input);
        input.len()
    }
}

/// Defines the libFuzzer entry points for one parser.
#[macro_export]
macro_rules! fuzz_parser {
    ($name:literal) => {
        static TARGET: std::sync::LazyLock<$crate::Target> = std::sync::LazyLock::new(|| $crate::Target::new($name));
        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET.run(input));
        $crate::libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            TARGET.mutate(data, size, max_size, seed)
        });
    };
}
