//! Many inputs for one parser, and the line that sums them up.

use crate::Args;
use crate::outcome::{self, Outcome};
use crate::watch::Watch;
use phalanx_fuzz::{Parser, Rng};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// More inputs than this are not kept to be changed again.
const MAX_CORPUS: usize = 2000;
/// After so many findings a parser has had enough.
const MAX_FINDINGS: u64 = 5;

/// What came of one parser's inputs.
pub(crate) struct Campaign {
    parser: &'static str,
    executions: u64,
    /// How often each outcome was seen.
    classes: BTreeMap<String, u64>,
    /// The most memory, and the most per byte of input beyond what an empty one is allowed.
    peak: usize,
    factor: f64,
    slowest: Duration,
    time: Duration,
    pub(crate) findings: u64,
}

impl Campaign {
    pub(crate) fn run(parser: &'static Parser, args: &Args, watch: &Watch) -> Self {
        let mut campaign = Self {
            parser: parser.name,
            executions: 0,
            classes: BTreeMap::new(),
            peak: 0,
            factor: 0.0,
            slowest: Duration::ZERO,
            time: Duration::ZERO,
            findings: 0,
        };
        let mut rng = Rng::new(args.seed);
        let mut corpus = (parser.seeds)();
        let seeds = corpus.clone();
        let start = Instant::now();
        while campaign.executions < args.executions && campaign.findings < MAX_FINDINGS {
            // The seeds as they are come first.
            let seed = seeds.get(campaign.executions as usize).cloned();
            let input = seed.unwrap_or_else(|| parser.input(&mut rng, &corpus));
            let outcome = outcome::run(parser, &input, watch, args.limit_ms);
            if campaign.count(parser, &input, outcome, args) && corpus.len() < MAX_CORPUS {
                corpus.push(input);
            }
        }
        campaign.time = start.elapsed();
        campaign
    }

    /// Takes an outcome into account; whether it was of a kind not seen before.
    fn count(&mut self, parser: &Parser, input: &[u8], outcome: Outcome, args: &Args) -> bool {
        self.executions += 1;
        self.peak = self.peak.max(outcome.peak);
        let beyond = outcome.peak.saturating_sub(parser.memory.1) as f64;
        self.factor = self.factor.max(beyond / input.len().max(1) as f64);
        self.slowest = self.slowest.max(outcome.time);
        if let Some(why) = outcome.finding {
            self.findings += 1;
            let path = args.findings.join(format!("finding-{}-{}.bin", self.parser, self.findings));
            let saved = std::fs::write(&path, input);
            eprintln!("{}, execution {}: {why}", self.parser, self.executions);
            eprintln!("  input at {} ({saved:?})", path.display());
        }
        let seen = self.classes.entry(outcome.class).or_default();
        *seen += 1;
        *seen == 1
    }
}

impl std::fmt::Display for Campaign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { parser, executions, classes, peak, factor, slowest, time, findings } = self;
        let good = 100.0 * *classes.get("ok").unwrap_or(&0) as f64 / (*executions).max(1) as f64;
        write!(
            f,
            "{parser}: {executions} executions, {findings} findings, {} outcomes ({good:.1} % accepted), at most {:.1} KiB \
             and {factor:.1} bytes per byte, slowest {:.1} ms, {:.0}/s",
            classes.len(),
            *peak as f64 / 1024.0,
            slowest.as_secs_f64() * 1e3,
            *executions as f64 / time.as_secs_f64().max(1e-9),
        )
    }
}
