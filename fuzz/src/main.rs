//! Runs the parsers on mutated inputs without coverage feedback, on any compiler:
//!
//! ```text
//! cargo run --release -p phalanx-fuzz -- --executions 1000000
//! cargo run --release -p phalanx-fuzz -- --parser bundle --replay finding-bundle.bin
//! ```
//!
//! A finding is a panic, memory beyond what the input's length justifies, or time beyond the limit. Its input is saved,
//! and the exit code is 1. With a nightly compiler, prefer the libFuzzer targets in `fuzz/libfuzzer`.

#![allow(clippy::print_stdout)]

use clap::Parser as _;
use phalanx_fuzz::{Counting, PARSERS, Parser, Rng};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// Mutated inputs beyond this number are not kept to be mutated again.
const MAX_CORPUS: usize = 2000;
/// After this many findings the next parser is tried.
const MAX_FINDINGS: u64 = 5;

/// Runs every parser of outside input on mutated inputs
#[derive(clap::Parser)]
#[command(version, about)]
struct Args {
    /// The name of a parser, or all of them
    #[arg(long, default_value = "all")]
    parser: String,
    /// How many inputs each parser is given
    #[arg(long, default_value_t = 1_000_000)]
    executions: u64,
    /// The same seed gives the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many milliseconds an input may take
    #[arg(long, default_value_t = 2000)]
    limit_ms: u64,
    /// Where the inputs of findings are saved
    #[arg(long, default_value = ".")]
    findings: PathBuf,
    /// Runs one saved input and nothing else
    #[arg(long)]
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let parsers: Vec<&Parser> =
        PARSERS.iter().filter(|parser| args.parser == "all" || parser.name == args.parser).collect();
    if parsers.is_empty() || args.replay.is_some() && parsers.len() != 1 {
        let names: Vec<&str> = PARSERS.iter().map(|parser| parser.name).collect();
        eprintln!("--parser must be one of: {}", names.join(", "));
        return ExitCode::from(2);
    }
    // A panic is a finding, printed with its input.
    std::panic::set_hook(Box::new(|_| {}));
    let result = match &args.replay {
        Some(path) => std::fs::read(path).map(|input| {
            let finding = run(parsers[0], &input, args.limit_ms).err();
            println!("{}: {}", parsers[0].name, finding.as_deref().unwrap_or("no finding"));
            u64::from(finding.is_some())
        }),
        None => parsers.iter().map(|parser| campaign(parser, &args)).sum(),
    };
    match result {
        Ok(findings) => ExitCode::from(u8::from(findings > 0)),
        Err(error) => {
            eprintln!("cannot read or save an input: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs one parser on many inputs and prints a summary; returns the number of findings.
fn campaign(parser: &Parser, args: &Args) -> std::io::Result<u64> {
    let mut rng = Rng::new(args.seed);
    let mut corpus = (parser.seeds)();
    let mut seeds = corpus.clone().into_iter();
    let (mut findings, mut accepted, mut executions) = (0, 0_u64, 0);
    let start = Instant::now();
    while executions < args.executions && findings < MAX_FINDINGS {
        // The seeds as they are come first.
        let input = seeds.next().unwrap_or_else(|| parser.input(&mut rng, &corpus));
        executions += 1;
        match run(parser, &input, args.limit_ms) {
            Ok(false) => {}
            Ok(true) => {
                accepted += 1;
                if corpus.len() < MAX_CORPUS {
                    corpus.push(input);
                }
            }
            Err(why) => {
                findings += 1;
                let path = args.findings.join(format!("finding-{}-{findings}.bin", parser.name));
                eprintln!("{}, execution {executions}: {why}; input at {}", parser.name, path.display());
                std::fs::create_dir_all(&args.findings).and_then(|()| std::fs::write(&path, &input))?;
            }
        }
    }
    let rate = executions as f64 / start.elapsed().as_secs_f64().max(1e-9);
    println!("{}: {executions} executions, {accepted} accepted, {findings} findings, {rate:.0}/s", parser.name);
    Ok(findings)
}

/// Runs a parser on one input: returns whether it was accepted, or why it is a finding.
fn run(parser: &Parser, input: &[u8], limit_ms: u64) -> Result<bool, String> {
    let start = Instant::now();
    let (result, peak) = MEMORY.peak_of(|| catch_unwind(|| (parser.run)(input).is_ok()));
    let (time, allowed) = (start.elapsed(), parser.allowed_bytes(input.len()));
    let accepted = result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        format!("panic: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text"))
    })?;
    if peak > allowed {
        return Err(format!("memory: {peak} bytes for an input of {}, {allowed} are allowed", input.len()));
    }
    if time > Duration::from_millis(limit_ms) {
        return Err(format!("time: {time:?} for an input of {} bytes", input.len()));
    }
    Ok(accepted)
}
