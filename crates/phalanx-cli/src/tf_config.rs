//! `phalanx tf-config`: explains or generates `TF_CONFIG`.

use crate::exit::ExitCode;

use crate::output::{eprint, error_json, print};
use phalanx::coordinator::TfConfigClusterResolver;
use phalanx_cluster::{DistributeConfig, EstimatorConfig, Json, Warning};

/// Explains a TF_CONFIG as TensorFlow reads it, or reports what is wrong with it.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TfConfigArgs {
    #[command(subcommand)]
    make: Option<Make>,
    /// Text to read instead of the environment variable TF_CONFIG
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    tf_config: Option<String>,
    /// Rules to apply: those of the Estimator's RunConfig or of tf.distribute
    #[arg(long, value_enum, default_value_t = Rules::Estimator)]
    rules: Rules,
    /// The model_dir that the program passes to RunConfig (Estimator's rules)
    #[arg(long, value_name = "DIR")]
    model_dir: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Make {
    /// Prints the TF_CONFIG of every task of a job: on this machine, on nodes, or from host lists
    Make(phalanx_launch::MakeArgs),
}

/// The two readers of TF_CONFIG in TensorFlow, which disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Rules {
    Estimator,
    Distribute,
}

/// Runs the command. The exit code is 2 if the TF_CONFIG is invalid.
pub(crate) fn run(args: &TfConfigArgs) -> ExitCode {
    if let Some(Make::Make(make)) = &args.make {
        return crate::output::finish(make.printed().map(|text| print(&text)));
    }
    match read(args) {
        Ok((values, warnings)) => {
            if args.json {
                print(&format!("{}\n", with_warnings(values, &warnings)));
            } else {
                print(&table(&values));
                eprint(&warnings.iter().map(Warning::report).collect::<Vec<_>>().join("\n"));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", serde_json::json!({ "error": error_json(&error) })));
            } else {
                eprint(&error.report());
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn read(args: &TfConfigArgs) -> phalanx_base::Result<(Json, Vec<Warning>)> {
    let text = match &args.tf_config {
        Some(text) => Some(text.clone()),
        None => TfConfigClusterResolver::text()?,
    };
    Ok(match args.rules {
        Rules::Estimator => {
            let config = EstimatorConfig::read(text.as_deref(), args.model_dir.as_deref())?;
            (config.to_json(), config.warnings)
        }
        Rules::Distribute => {
            let config = DistributeConfig::read(text.as_deref())?;
            (config.to_json(), config.warnings)
        }
    })
}

fn with_warnings(values: Json, warnings: &[Warning]) -> Json {
    let list = warnings.iter().map(|warning| {
        let code = Json::text(warning.code().to_string());
        let help = warning.help().map_or(Json::Null, Json::text);
        Json::object([("code", code), ("message", Json::text(warning.to_string())), ("help", help)])
    });
    let Json::Object(mut entries) = values else { return values };
    entries.push(("warnings".to_owned(), Json::List(list.collect())));
    Json::Object(entries)
}

/// Names and values in two columns, one line per job of the cluster. Missing values are omitted.
fn table(values: &Json) -> String {
    let Json::Object(entries) = values else { return String::new() };
    let mut text = String::new();
    for (name, value) in entries {
        match value {
            Json::Object(jobs) if name == "cluster_spec" && !jobs.is_empty() => {
                for (i, (job, tasks)) in jobs.iter().enumerate() {
                    let label = if i == 0 { name.as_str() } else { "" };
                    text += &format!("{label:<22}{job}: {tasks}\n");
                }
            }
            Json::Null => {}
            Json::Text(value) if value.is_empty() => text += &format!("{name:<22}(none)\n"),
            Json::Text(value) => text += &format!("{name:<22}{value}\n"),
            Json::List(items) if items.is_empty() => {}
            value => text += &format!("{name:<22}{value}\n"),
        }
    }
    text
}
