//! The promises hold over seeds, and the simulation would see if they did not.

use phalanx_sim::{Plant, run};
use std::collections::BTreeMap;

/// Every planted bug must show itself within this many runs.
const MOST_SEEDS: u64 = 10_000;

#[test]
fn a_thousand_jobs_keep_every_promise_and_meet_every_accident() {
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..1000 {
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
        "stalled workers",
        "fenced workers that learned it from a server",
        "pushes refused",
        "repeats dropped",
        "reports repeated",
        "steps run on behalf",
        "updates owed",
        "errors raised",
        "jobs ended early",
        "chiefs stopped",
        "workers stopped",
        "servers stopped",
        "stalls noticed",
        "servers lost",
        "servers forgiven",
        "servers killed",
        "servers killed while they were restored",
        "servers restored",
        "recoveries begun again",
        "servers that replayed their log",
        "servers that lost nothing",
        "servers killed in an append",
        "torn records",
        "full logs",
        "logs cut off",
        "losses within what was reported",
        "losses reported as not known",
        "checkpoints",
        "chiefs killed",
        "jobs taken over",
        "workers that joined another chief",
        "workers of a former chief",
        "steps of former chiefs",
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
fn a_seed_runs_the_same_way_every_time() {
    for seed in [3, 17, 101] {
        assert!(run(seed, None, true).trace == run(seed, None, true).trace, "seed {seed} ran differently");
    }
}

#[test]
fn planted_bugs_are_found() {
    let plants = [
        Plant::Names,
        Plant::Requeue,
        Plant::Unforgiven,
        Plant::BlameOthers,
        Plant::AnyIncarnation,
        Plant::LossByChief,
        Plant::AckBeforeApply,
        Plant::ForgetNames,
        Plant::FenceTheEmpty,
        Plant::AckBeforeAppend,
        Plant::TruncateBeforePublish,
        Plant::ReplayTwice,
        Plant::TornTail,
        Plant::FenceNotLogged,
        Plant::LateSnapshot,
        Plant::ForgetLoggedNames,
        Plant::IgnoreFullLog,
    ];
    for plant in plants {
        let found = (0..MOST_SEEDS).find(|&seed| !run(seed, Some(plant), false).violations.is_empty());
        assert!(found.is_some(), "{plant:?} was not found");
        eprintln!("{plant:?} is found by seed {found:?}");
    }
}
