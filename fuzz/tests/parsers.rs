//! Every parser under proptest: random bytes, and mutated seeds.

use phalanx_fuzz::{PARSERS, Parser, Rng};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for parser in PARSERS {
            drop((parser.run)(&bytes));
        }
    }

    #[test]
    fn changed_files_are_handled(seed: u64, changes in 1..20_usize) {
        for parser in PARSERS {
            let (mut rng, mut corpus) = (Rng::new(seed), (parser.seeds)());
            for _ in 0..changes {
                let input = parser.input(&mut rng, &corpus);
                drop((parser.run)(&input));
                corpus.push(input);
            }
        }
    }
}

/// Each parser accepts at least one of its seeds; otherwise fuzzing would only reach its first check.
#[test]
fn seeds_reach_the_inside() {
    for parser in PARSERS {
        let read = (parser.seeds)().iter().filter(|seed| (parser.run)(seed).is_ok()).count();
        assert!(read > 0, "{} refuses all of its seeds", parser.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let parser = Parser::named("bundle").unwrap();
    let corpus = (parser.seeds)();
    let inputs = |seed| {
        let mut rng = Rng::new(seed);
        (0..50).map(|_| parser.input(&mut rng, &corpus)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(5), inputs(5));
    assert_ne!(inputs(5), inputs(6));
}
