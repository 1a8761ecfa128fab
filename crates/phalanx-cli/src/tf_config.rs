//! `phalanx tf-config`: says what a `TF_CONFIG` means, or what is wrong with it.

use std::io::Write;
use std::process::ExitCode;

use phalanx::coordinator::TfConfigClusterResolver;
use phalanx_base::Error;
use phalanx_cluster::{DistributeConfig, EstimatorConfig, Json, Warning};

/// Says what a TF_CONFIG means, as TensorFlow reads it, or what is wrong with it.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TfConfigArgs {
    #[command(subcommand)]
    make: Option<Make>,
    /// The text to read instead of the environment variable TF_CONFIG
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    tf_config: Option<String>,
    /// Whose rules: the Estimator's RunConfig, or the tf.distribute strategies'
    #[arg(long, value_enum, default_value_t = Rules::Estimator)]
    rules: Rules,
    /// The model_dir that the program passes itself (Estimator's rules)
    #[arg(long, value_name = "DIR")]
    model_dir: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Make {
    /// Prints the TF_CONFIG of every task of a job, on this machine or on nodes
    Make(phalanx_launch::LayoutArgs),
}

/// TensorFlow has two readers of TF_CONFIG, which disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Rules {
    Estimator,
    Distribute,
}

/// Runs the command; the exit code is 2 for a TF_CONFIG that is not valid.
pub(crate) fn run(args: &TfConfigArgs) -> ExitCode {
    if let Some(Make::Make(layout)) = &args.make {
        let made = layout.layout().map(|layout| phalanx_launch::print_tf_configs(&layout, layout.tasks()));
        return crate::status::finish(made.map(|text| print(&text)));
    }
    match read(args) {
        Ok((values, warnings)) => {
            if args.json {
                print(&format!("{}\n", with_warnings(values, &warnings)));
            } else {
                print(&table(&values));
                complain(&warnings.iter().map(Warning::report).collect::<Vec<_>>().join("\n"));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", error_json(&error)));
            } else {
                complain(&error.report());
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

fn error_json(error: &Error) -> Json {
    let code = Json::text(error.code().to_string());
    let help = error.next().map_or(Json::Null, Json::text);
    let error = Json::object([("code", code), ("message", Json::text(error.to_string())), ("help", help)]);
    Json::object([("error", error)])
}

/// Names and values in two columns; the cluster a line per job; what has no value is left out.
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

/// Prints; a reader that has gone away, as behind `| head`, is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn complain(text: &str) {
    let _gone = std::io::stderr().lock().write_all(text.as_bytes());
}
