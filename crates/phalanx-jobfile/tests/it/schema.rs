//! The schema, the example, the reference page and the jobs of this repository agree.

use phalanx_jobfile::{EXAMPLE, Job, Overrides};
use serde_json::Value;

fn parse(text: &str) -> Result<Job, phalanx_base::Error> {
    Job::parse("example.toml", text, ".", Overrides::default())
}

#[test]
fn the_example_is_valid_with_and_without_each_optional_block() {
    parse(EXAMPLE).unwrap_or_else(|error| panic!("{}", error.report()));
    let lines: Vec<&str> = EXAMPLE.lines().collect();
    let can = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
    let mut at = 0;
    let mut blocks = 0;
    while at < lines.len() {
        let length = lines[at..].iter().take_while(|line| can(line)).count();
        if length > 0 {
            let on = |(i, line): (usize, &&str)| {
                if (at..at + length).contains(&i) { line[1..].to_owned() } else { (*line).to_owned() }
            };
            let text: Vec<String> = lines.iter().enumerate().map(on).collect();
            parse(&text.join("\n")).unwrap_or_else(|error| panic!("{}", error.report()));
            blocks += 1;
        }
        at += length.max(1);
    }
    assert!(blocks > 10, "only {blocks} blocks were found");
}

/// The keys of a table of the schema.
fn keys(table: &Value) -> Vec<String> {
    table["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_example_shows_every_key_of_every_table() {
    let schema: Value = serde_json::from_str(&phalanx_jobfile::schema().to_string()).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let tables = &schema["properties"];
    let mut all = keys(&schema);
    for table in ["data", "train", "early_stopping", "warm_start"] {
        all.extend(keys(&tables[table]));
    }
    // A table, or a list of them.
    all.extend(keys(&tables["eval"]["anyOf"][0]));
    all.extend(keys(&tables["export"]["items"]));
    let shown = |key: &String| {
        let is = |line: &str| {
            let line = line.trim_start_matches('#');
            line.starts_with(&format!("{key} =")) || line.contains(&format!("[{key}]"))
        };
        EXAMPLE.lines().any(is)
    };
    // Written by phalanx into copies, and the alternatives to save_checkpoints_secs and eval.
    let quiet = ["origin", "save_checkpoints_steps", "split"];
    let missing: Vec<&String> = all.iter().filter(|key| !quiet.contains(&key.as_str()) && !shown(key)).collect();
    assert!(missing.is_empty(), "the example lacks {missing:?}");
}

/// A value that a key of the schema takes.
fn some(key: &str, takes: &Value) -> String {
    let special = match key {
        "column" => Some("\"base\""),
        "columns" => Some("[\"base\"]"),
        "keys" => Some("[\"a\", \"b\"]"),
        "boundaries" => Some("[1, 2]"),
        "vocabulary_file" => Some("\"words.txt\""),
        "default_value" => Some("0"),
        "user" | "item" => Some("\"base\""),
        "learning_rate_power" => Some("-0.5"),
        "thresholds" => Some("[0.5]"),
        "activation" => Some("\"tanh\""),
        "label_vocabulary" => Some("[\"a\", \"b\"]"),
        "linear_columns" | "dnn_columns" => Some("[\"number\"]"),
        _ => None,
    };
    if let Some(text) = special {
        return text.to_owned();
    }
    let takes = takes["anyOf"].as_array().map_or(takes, |choices| &choices[0]);
    if let Some(choices) = takes["enum"].as_array() {
        return choices[0].to_string();
    }
    match takes["type"].as_str().unwrap() {
        "string" => "\"x\"".to_owned(),
        "integer" => takes["minimum"].as_u64().unwrap_or(1).max(2).to_string(),
        "number" => "0.5".to_owned(),
        "boolean" => "true".to_owned(),
        "array" => format!("[{}]", some("", &takes["items"])),
        _ => table(takes),
    }
}

fn table(takes: &Value) -> String {
    let Some(properties) = takes["properties"].as_object() else { return "{}".to_owned() };
    let entries: Vec<String> = properties
        .iter()
        // Each of these excludes another key.
        .filter(|(key, _)| !["num_oov_buckets", "key", "clip_norm", "clip_value", "quantiles"].contains(&key.as_str()))
        .map(|(key, takes)| format!("{key} = {}", some(key, takes)))
        .collect();
    format!("{{ {} }}", entries.join(", "))
}

fn job_with(columns: &str, model: &str) -> String {
    format!(
        "[data]\ntrain = \"a\"\neval = \"a\"\nlabel = \"y\"\n[train]\nbatch_size = 1\nmax_steps = 1\n\
         [columns]\nbase = {{ kind = \"identity\", num_buckets = 5 }}\nnumber = {{ kind = \"numeric\" }}\n{columns}\n[root]\n"
    )
    .replace("[root]\n", &format!("[model]\n{model}\n"))
}

#[test]
fn every_kind_of_column_accepts_and_reads_every_key() {
    let schema: Value = serde_json::from_str(&phalanx_jobfile::schema().to_string()).unwrap();
    let kinds = schema["properties"]["columns"]["additionalProperties"]["anyOf"].as_array().unwrap();
    assert_eq!(kinds.len(), 17);
    let model = "kind = \"baseline_regressor\"";
    for kind in kinds {
        let mut column = table(kind);
        if column.contains("\"bucketized\"") {
            column = column.replace("\"base\"", "\"number\"");
        }
        if column.contains("\"numeric\"") {
            // A part of a timestamp is one number, and its unit gives the type.
            column = column.replace("shape = [2], dtype = \"float32\", ", "");
        }
        // In debug builds, a key that nothing reads panics.
        let made = parse(&job_with(&format!("it = {column}"), model));
        made.unwrap_or_else(|error| panic!("{column}\n{}", error.report()));
    }
}

#[test]
fn every_kind_of_model_and_optimizer_accepts_and_reads_every_key() {
    let schema: Value = serde_json::from_str(&phalanx_jobfile::schema().to_string()).unwrap();
    let kinds = schema["properties"]["model"]["anyOf"].as_array().unwrap();
    assert!(kinds.len() >= 8);
    let mut optimizers = Vec::new();
    for kind in kinds {
        for name in kind["properties"]["kind"]["enum"].as_array().unwrap() {
            let properties = kind["properties"].as_object().unwrap();
            let entries = properties.iter().map(|(key, takes)| match key.as_str() {
                "kind" => format!("kind = {name}"),
                "columns" => "columns = [\"number\"]".to_owned(),
                _ => format!("{key} = {}", some(key, takes)),
            });
            let model = entries.collect::<Vec<_>>().join("\n");
            parse(&job_with("", &model)).unwrap_or_else(|error| panic!("{model}\n{}", error.report()));
            let of = properties.get("optimizer").map(|takes| takes["anyOf"][1]["anyOf"].as_array().unwrap().clone());
            optimizers = of.unwrap_or(optimizers);
        }
    }
    assert_eq!(optimizers.len(), 7);
    for optimizer in optimizers {
        let model = format!("kind = \"baseline_regressor\"\noptimizer = {}", table(&optimizer));
        parse(&job_with("", &model)).unwrap_or_else(|error| panic!("{model}\n{}", error.report()));
    }
}

#[test]
fn the_reference_page_matches_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/job-toml.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (begin, end) =
        ("<!-- keys: written by the test, see crates/phalanx-jobfile/tests/it/schema.rs -->\n", "<!-- end of keys -->");
    let (head, rest) = page.split_once(begin).expect("the page has a place for the keys");
    let (found, tail) = rest.split_once(end).expect("the page has an end of the keys");
    let wanted = phalanx_jobfile::reference();
    if found != wanted {
        let written = std::env::var_os("PHALANX_WRITE_DOCS").is_some();
        if written {
            std::fs::write(path, format!("{head}{begin}{wanted}{end}{tail}")).unwrap();
        }
        panic!("docs/job-toml.md is out of date (written: {written}); PHALANX_WRITE_DOCS=1 rewrites it");
    }
    // The jobs on the page are valid.
    for block in page.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        parse(text).unwrap_or_else(|error| panic!("{}", error.report()));
    }
}

#[test]
fn the_jobs_of_this_repository_are_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        Job::read(&path, Overrides::default()).unwrap_or_else(|error| panic!("{}", error.report()));
        seen += 1;
    }
    assert!(seen >= 3);
}
