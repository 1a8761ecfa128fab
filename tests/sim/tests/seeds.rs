//! The promises hold over seeds, and the simulation would see if they did not.

use phalanx_sim::{Plant, run};
use std::collections::BTreeMap;

#[test]
fn three_hundred_jobs_keep_every_promise_and_meet_every_accident() {
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..300 {
        let report = run(seed, None, false);
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
        report.counts.into_iter().for_each(|(kind, count)| *totals.entry(kind).or_insert(0) += count);
    }
    // A simulation in which nothing happens proves nothing.
    for kind in [
        "messages lost",
        "messages doubled",
        "crashes",
        "hangs",
        "departures",
        "false suspicions",
        "workers cut off",
        "silent workers",
        "workers that stand still",
        "fenced lives that heard it from a server",
        "pushes refused",
        "repeats dropped",
        "reports repeated",
        "steps run on behalf",
        "updates owed",
        "errors raised",
        "jobs ended early",
        "ok",
        "failed",
        "failed after its update",
        "cancelled",
        "unknown",
    ] {
        assert!(totals.get(kind).is_some_and(|&count| count > 0), "{kind} never happened: {totals:?}");
    }
}

#[test]
fn a_seed_takes_the_same_turns_every_time() {
    for seed in [3, 17, 101] {
        assert_eq!(run(seed, None, true).trace, run(seed, None, true).trace);
    }
}

#[test]
fn planted_bugs_are_found() {
    for plant in [Plant::Names, Plant::Requeue] {
        let found = (0..300).find(|&seed| !run(seed, Some(plant), false).violations.is_empty());
        assert!(found.is_some(), "{plant:?} was not found");
    }
}
