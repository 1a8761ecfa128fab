//! `phalanx explain`: how much a trained job depends on each of its inputs.

use crate::exit::ExitCode;
use crate::job::{OverrideArgs, finish, job_of};
use crate::output::{eprint, print, table};
use phalanx::estimator::{Importances, Permutation};
use phalanx_cluster::Json;
use phalanx_jobfile::number_json;
use std::path::PathBuf;

/// Measures how much a trained job depends on each input: a metric before and after the input is permuted
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx explain runs/a --input test.csv")]
pub(crate) struct ExplainArgs {
    /// The model_dir of a job, a model that it exported, or a JOB.toml with a model_dir
    #[arg(value_name = "MODEL_DIR|EXPORT_DIR")]
    model: PathBuf,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// File or pattern of rows with labels, instead of the job's evaluation files
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Metric to compare [default: auc, or else accuracy, or else average_loss]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Number of rows to use, from the first
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    rows: u32,
    /// Number of permutations of each input, whose results are averaged
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Seed of the permutations
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> ExitCode {
    let run = || {
        let (place, job) = job_of(&args.model, &args.overrides)?;
        let mut settings = Permutation::default().repeats(args.repeats).seed(args.seed);
        if let Some(metric) = &args.metric {
            settings = settings.metric(metric);
        }
        let (found, more) = job.importances(&place, args.input.as_deref(), args.rows as usize, &settings)?;
        print(&if args.json { format!("{}\n", json(&found)) } else { text(&found) });
        if more {
            eprint(&format!("only the first {} rows were used; --rows N uses more\n", found.rows));
        }
        Ok(())
    };
    finish(args.json, run())
}

fn text(found: &Importances) -> String {
    let number = |value: f64| format!("{value:.6}");
    let mut rows = vec![["column", "before", "after", "difference"].map(str::to_owned).to_vec()];
    for of in &found.columns {
        let difference = format!("{:+.6}", of.difference);
        rows.push(vec![of.column.clone(), number(found.before), number(of.after), difference]);
    }
    format!("{} of {} rows\n{}", found.metric, found.rows, table(&rows))
}

fn json(found: &Importances) -> Json {
    let of = |importance: &phalanx::estimator::Importance| {
        Json::object([
            ("column", Json::text(importance.column.clone())),
            ("after", number_json(importance.after)),
            ("difference", number_json(importance.difference)),
        ])
    };
    Json::object([
        ("metric", Json::text(found.metric.clone())),
        ("rows", Json::number(found.rows as u64)),
        ("before", number_json(found.before)),
        ("columns", Json::List(found.columns.iter().map(of).collect())),
    ])
}
