//! Mistakes in a job: each error points at its cause and tells how to fix it.

use crate::common::{JOB, write_data};
use phalanx_base::{Code, Error};
use phalanx_jobfile::{Job, Overrides};
use std::path::Path;

/// Line and column of the first `needle` after `after`.
fn place(text: &str, after: &str, needle: &str) -> String {
    let from = text.find(after).unwrap_or_else(|| panic!("no {after:?} in\n{text}"));
    let at = from + text[from..].find(needle).unwrap_or_else(|| panic!("no {needle:?} after {after:?}"));
    let line = text[..at].matches('\n').count() + 1;
    let column = text[..at].rsplit('\n').next().unwrap().chars().count() + 1;
    format!("job.toml:{line}:{column}")
}

/// The error of a job with a mistake.
struct Answer {
    folder: tempfile::TempDir,
    text: String,
    error: Error,
}

fn answer(folder: tempfile::TempDir, text: String) -> Answer {
    let path = folder.path().join("job.toml");
    std::fs::write(&path, &text).unwrap();
    let tried = Job::read(&path, Overrides::default()).and_then(|job| job.dry_run());
    let error = tried.expect_err("the mistake was not found");
    Answer { folder, text, error }
}

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    folder
}

/// Tries the job with one change.
fn mistake(from: &str, to: &str) -> Answer {
    assert!(JOB.contains(from), "{from:?} is not in the job");
    answer(data(), JOB.replacen(from, to, 1))
}

impl Answer {
    /// Checks that the report points at `needle` after `after`, and contains `help`.
    fn shows(&self, code: Code, after: &str, needle: &str, help: &str) {
        let report = self.error.report();
        let folder = format!("{}/", self.folder.path().display());
        let report = report.replace(&folder, "");
        eprintln!("{report}");
        assert_eq!(self.error.code(), code, "{report}");
        let wanted = place(&self.text, after, needle);
        let found = self.error.pointed_at().unwrap_or_default().replace(&folder, "");
        assert_eq!(found, wanted, "{report}");
        assert!(report.contains(&format!("--> {wanted}\n")), "{report}");
        let found = self.error.next().unwrap_or_default();
        assert!(found.contains(help), "the help is {found:?}, not {help:?}\n{report}");
    }
}

/// Checks mistakes of the form (from, to, code, after, needle, help).
fn check(mistakes: &[(&str, &str, Code, &str, &str, &str)]) {
    for &(from, to, code, after, needle, help) in mistakes {
        mistake(from, to).shows(code, after, needle, help);
    }
}

#[test]
#[rustfmt::skip]
fn keys_and_values_of_the_file() {
    use Code::{BadSetting, DataColumn, JobKey, JobSyntax, JobValue};
    let stopping = "[early_stopping]\nmetric = \"acurracy\"\npatience_steps = 9\n\n[[export]]";
    check(&[
        ("batch_size = 32", "batch_sise = 32", JobKey, "[train]", "batch_sise", "did you mean \"batch_size\"?"),
        ("[train]", "[train]\nstrategy = \"mirored:2\"", JobValue, "[train]", "\"mirored:2\"", "did you mean mirrored?"),
        ("[train]", "[train]\nconsistency = \"ssp\"", JobValue, "[train]", "\"ssp\"", "ssp:K"),
        ("[train]", "[train]\npartitioner = \"fixed\"", JobValue, "[train]", "\"fixed\"", "fixed_shards:2"),
        ("[train]", "[train]\npin = { \"dnn/*\" = \"one\" }", JobValue, "[train]", "\"one\"", "give an integer"),
        ("[train]", "[train]\npin = { \"dnn/*\" = -1 }", JobValue, "[train]", "-1", "give at least 0"),
        ("[eval]", "[evaluation]", JobKey, "[evaluation]", "evaluation", "did you mean \"eval\"?"),
        ("dimension = 4", "dimensions = 4", JobKey, "job_vector", "dimensions", "did you mean \"dimension\"?"),
        ("batch_size = 32", "batch_size = \"32\"", JobValue, "batch_size", "\"32\"", "write 32 without quotes"),
        ("batch_size = 32", "batch_size = 0", JobValue, "batch_size", "0", "give at least 1"),
        ("batch_size = 32", "batch_size = 32\nbatch_size = 64", JobSyntax, "batch_size = 64", "batch_size", "once in a table"),
        ("label = \"y\"", "label = \"y\"\nformat = \"parquet\"\ntrim = true", JobValue, "trim", "true", "leave it out"),
        // Optimizers.
        ("name = \"adagrad\"", "name = \"adagard\"", JobValue, "dnn_optimizer", "\"adagard\"", "did you mean \"adagrad\"?"),
        ("{ name = \"adagrad\", learning_rate = 0.1 }", "\"adagard\"", JobValue, "dnn_optimizer", "\"adagard\"", "did you mean \"adagrad\"?"),
        ("name = \"adagrad\", learning_rate = 0.1", "name = \"adagrad\", learning_rate = -0.1", BadSetting, "dnn_optimizer", "{ name", ""),
        ("name = \"adagrad\", learning_rate = 0.1 }", "name = \"adagrad\", learning_rate = { schedule = \"cosin\" } }", JobValue, "learning_rate = { sch", "\"cosin\"", "did you mean \"cosine\"?"),
        ("name = \"adagrad\", learning_rate = 0.1 }", "name = \"adagrad\", learning_rate = { schedule = \"cosine\", initial = 0.1 } }", JobKey, "learning_rate = { sch", "{ schedule", "decay_steps"),
        ("name = \"adagrad\", learning_rate = 0.1 }", "name = \"adagrad\", learning_rate = { schedule = \"piecewise\", boundaries = [5, 3], values = [1, 2, 3] } }", BadSetting, "boundaries", "[5, 3]", "growing"),
        ("name = \"adagrad\", learning_rate = 0.1 }", "name = \"adagrad\", learning_rate = \"0.1\" }", JobValue, "dnn_optimizer", "\"0.1\"", "a number, or a table"),
        ("name = \"adagrad\", learning_rate = 0.1 }", "name = \"adagrad\", clip_norm = 1, clip_value = 2 }", JobValue, "clip_value = ", "2", "leave one of them out"),
        ("name = \"adagrad\", learning_rate = 0.1 }", "name = \"adagrad\", clip_norm = 0 }", BadSetting, "dnn_optimizer", "{ name", "above 0"),
        ("name = \"ftrl\", learning_rate = 0.1", "name = \"ftrl\", learning_rate = { schedule = \"cosine\", initial = 0.1, decay_steps = 9 }", BadSetting, "linear_optimizer", "{ name", "above 0"),
        ("hidden_units = [16, 8]", "hidden_units = [16, 8]\nl2 = -1", JobValue, "l2 = ", "-1", "give 0 or more"),
        // Metrics on request.
        ("steps = \"all\"", "steps = \"all\"\nmetrics = [\"guac\"]", JobValue, "metrics", "\"guac\"", "did you mean \"gauc\"?"),
        ("steps = \"all\"", "steps = \"all\"\nmetrics = [\"gauc\"]", BadSetting, "metrics", "[\"gauc\"]", "group_by = \"user\""),
        ("steps = \"all\"", "steps = \"all\"\nmetrics = [\"mean_absolute_error\"]", BadSetting, "metrics", "[\"mean", "gauc, calibration"),
        ("steps = \"all\"", "steps = \"all\"\nmetrics = [\"gauc\"]\ngroup_by = \"cty\"", DataColumn, "group_by", "\"cty\"", "city"),
        // Metrics that evaluations do not have.
        ("name = \"final\"", "name = \"best\"\nwhen = \"best\"\nmetric = \"acu\"", JobValue, "metric", "\"acu\"", "did you mean \"auc\"?"),
        ("[[export]]", stopping, JobValue, "metric", "\"acurracy\"", "did you mean \"accuracy\"?"),
    ]);
    let changed = mistake("hidden_units = [16, 8]", "hidden_units = [16, 8");
    assert_eq!(changed.error.code(), JobSyntax);
    assert!(changed.error.pointed_at().is_some() && changed.error.next().is_some(), "{}", changed.error.report());
}

#[test]
#[rustfmt::skip]
fn columns_of_the_model() {
    use Code::{BadSetting, JobValue};
    check(&[
        ("\"job_vector\"]", "\"job_vectr\"]", JobValue, "dnn_columns", "\"job_vectr\"", "did you mean \"job_vector\"?"),
        ("kind = \"indicator\"", "kind = \"indicatr\"", JobValue, "city_onehot", "\"indicatr\"", "did you mean \"indicator\"?"),
        ("column = \"job\", dimension", "column = \"job_vector\", dimension", JobValue, "job_vector =", "\"job_vector\"", "reads inputs"),
        ("[30, 45, 60]", "[30, 60, 45]", JobValue, "boundaries", "45", "boundaries = [30.0, 45.0, 60.0]"),
        ("{ column = \"age_group\" }", "{ column = \"age_grup\" }", JobValue, "age_x_city", "\"age_grup\"", "did you mean \"age_group\"?"),
        ("[{ column = \"age_group\" }, \"city\"]", "[\"city\", { column = \"age_group\" }]", JobValue, "age_x_city", "{ column", "write the columns first"),
        // In the wrong part of the model.
        ("\"city_onehot\", \"job_vector\"]", "\"city\", \"job_vector\"]", BadSetting, "dnn_columns", "\"city\"", "indicator"),
        ("\"job\", \"age_x_city\"]", "\"job_vector\", \"age_x_city\"]", JobValue, "linear_columns", "\"job_vector\"", "embeddings belong to the deep part"),
        // One input in two forms, and a column that reads the label.
        ("pay = { kind = \"numeric\"", "pay = { kind = \"numeric\", key = \"city\"", BadSetting, "pay =", "\"city\"", "under two keys"),
        ("pay = { kind = \"numeric\"", "pay = { kind = \"numeric\", key = \"y\"", JobValue, "pay =", "\"y\"", "leave the column out"),
    ]);
}

#[test]
#[rustfmt::skip]
fn data_that_does_not_match() {
    use Code::{DataColumn, DataMissing, DataRow, StorageLocation};
    let names = "label = \"y\"\nnames = [\"age\", \"pay\", \"city\", \"job\", \"y\"]";
    check(&[
        ("key = \"age\"", "key = \"agee\"", DataColumn, "age_group", "\"agee\"", "did you mean \"age\"?"),
        ("\"city\"], hash", "\"ciyt\"], hash", DataColumn, "age_x_city", "\"ciyt\"", "did you mean \"city\"?"),
        ("label = \"y\"", "label = \"yy\"", DataColumn, "label =", "\"yy\"", "did you mean \"y\"?"),
        ("pay = { kind = \"numeric\"", "pay = { kind = \"numeric\", key = \"name\"", DataColumn, "pay =", "\"name\"", "kind = \"hash_bucket\" or \"vocabulary_list\""),
        ("train = \"train.csv\"", "train = \"trian.csv\"", DataMissing, "train =", "\"trian.csv\"", "train.csv\"?"),
        ("[\"no\", \"yes\"]", "[\"no\", \"Yes\"]", DataRow, "label_vocabulary", "[\"no\"", "add this spelling to its class"),
        ("label_vocabulary = [\"no\", \"yes\"]\n", "", DataColumn, "label =", "\"y\"", "add label_vocabulary"),
        ("label = \"y\"", names, DataColumn, "names", "[", "name every column"),
        ("label = \"y\"", &format!("{names}\nheader = false"), DataRow, "names", "[", "name every column"),
        // Nobody can write below a file.
        ("seed = 3", "model_dir = \"train.csv/run\"", StorageLocation, "model_dir", "\"train.csv/run\"", "may write to"),
    ]);
    let file = "{ kind = \"vocabulary_file\", vocabulary_file = \"citys.txt\" }";
    let changed = mistake("{ kind = \"vocabulary_list\", vocabulary_list = [\"berlin\", \"oslo\", \"rome\"] }", file);
    let found = changed.error.pointed_at().unwrap();
    assert_eq!(found.rsplit('/').next().unwrap(), place(&changed.text, "city =", "\"citys.txt\""), "{}", changed.error.report());
}

#[test]
fn a_label_outside_of_the_classes() {
    let folder = data();
    for name in ["train.csv", "test.csv"] {
        let path = folder.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap().replace(",yes", ",2").replace(",no", ",0");
        std::fs::write(&path, text).unwrap();
    }
    let text = JOB.replace("label_vocabulary = [\"no\", \"yes\"]", "n_classes = 2");
    answer(folder, text).shows(Code::DataRow, "n_classes", "2", "raise n_classes of [model]");
}

#[test]
fn no_text_makes_the_reader_panic() {
    // Seeded: pieces of the example are removed, doubled, replaced and moved.
    let mut state = 7_u64;
    let mut draw = |of: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % of.max(1)
    };
    let (mut good, mut bad) = (0, 0);
    for round in 0..4_000 {
        let mut text = if round % 2 == 0 { phalanx_jobfile::EXAMPLE.to_owned() } else { JOB.to_owned() };
        for _ in 0..=draw(3) {
            let cut =
                |text: &str, at: usize| (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
            let (a, b) = (cut(&text, draw(text.len())), cut(&text, draw(text.len())));
            let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 40));
            let to = cut(&text, to).max(from);
            let piece = text[from..to].to_owned();
            match draw(4) {
                0 => text.replace_range(from..to, ""),
                1 => text.insert_str(from, &piece),
                2 => text.replace_range(
                    from..to,
                    ["[", "]", "\"", "{", "}", "=", "\n", "-1", "0", "é", "[[x]]\n", "99999999999999999999"][draw(12)],
                ),
                _ => text.insert_str(cut(&text, draw(text.len())), &piece),
            }
        }
        match Job::parse("job.toml", &text, ".", Overrides::default()) {
            Ok(_) => good += 1,
            Err(error) => {
                assert!(error.pointed_at().is_some(), "no position:\n{}", error.report());
                assert!(error.next().is_some(), "no help:\n{}\n{text}", error.report());
                bad += 1;
            }
        }
    }
    assert!(good > 100 && bad > 1_000, "{good} good, {bad} bad");
}

#[test]
fn a_row_that_does_not_parse() {
    let folder = data();
    let path = folder.path().join("train.csv");
    let text = std::fs::read_to_string(&path).unwrap().replacen(".5,", ".x,", 400);
    let (good, bad) = (std::fs::read_to_string(&path).unwrap(), text);
    // The first rows are good, so the error occurs during training.
    let lines: Vec<&str> = good.lines().take(300).chain(bad.lines().skip(300).take(10)).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let answer = answer(folder, JOB.to_owned());
    answer.shows(Code::DataRow, "pay =", "pay", "");
    assert!(answer.error.place().unwrap().contains("train.csv"), "{}", answer.error.report());
}

#[test]
fn a_missing_job_refers_to_init() {
    let error = Job::read(Path::new("no/such/job.toml"), Overrides::default()).unwrap_err();
    assert!(error.next().unwrap().contains("--init"), "{}", error.report());
}

#[test]
fn nothing_to_resume_from() {
    let changed = mistake("seed = 3", "model_dir = \"runs/a\"\nresume = \"must\"");
    changed.shows(Code::JobResume, "resume", "\"must\"", "set resume = \"auto\"");
    assert!(!changed.folder.path().join("runs").exists(), "a check leaves nothing behind");
    let changed = mistake("seed = 3", "resume = \"atuo\"");
    changed.shows(Code::JobValue, "resume", "\"atuo\"", "did you mean \"auto\"?");
}

#[test]
fn sizes_beyond_their_limit() {
    let changed = mistake("hidden_units = [16, 8]", "hidden_units = [16, 99999999999]");
    changed.shows(Code::JobValue, "hidden_units", "99999999999", "give at most");
    let changed = mistake(
        "vocabulary_list = [\"berlin\", \"oslo\", \"rome\"]",
        "vocabulary_list = [\"a\"], num_oov_buckets = 900000000",
    );
    changed.shows(Code::JobValue, "dnn_columns", "\"city_onehot\"", "use an embedding");
    let chain: String = (0..100)
        .map(|i| format!("c{i} = {{ kind = \"weighted\", column = \"c{}\", weight_key = \"pay\" }}\n", i + 1))
        .collect();
    let changed = mistake("[columns]\n", &format!("[columns]\n{chain}"));
    changed.shows(Code::JobValue, "c15 =", "\"c16\"", "reads inputs");
}
