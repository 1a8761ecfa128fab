//! Mistakes that people make in a job: each is shown with its place in the file and the way out.

mod common;

use common::{JOB, write_data};
use phalanx_base::{Code, Error};
use phalanx_job::{Job, Overrides};
use std::path::Path;

/// Line and column of the first `needle` behind `after`.
fn place(text: &str, after: &str, needle: &str) -> String {
    let from = text.find(after).unwrap_or_else(|| panic!("no {after:?} in\n{text}"));
    let at = from + text[from..].find(needle).unwrap_or_else(|| panic!("no {needle:?} behind {after:?}"));
    let line = text[..at].matches('\n').count() + 1;
    let column = text[..at].rsplit('\n').next().unwrap().chars().count() + 1;
    format!("job.toml:{line}:{column}")
}

/// What a job with a mistake is answered.
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

/// The job with one thing changed.
fn mistake(from: &str, to: &str) -> Answer {
    assert!(JOB.contains(from), "{from:?} is not in the job");
    answer(data(), JOB.replacen(from, to, 1))
}

impl Answer {
    /// The report points at `needle` behind `after`, and `help` tells the way out.
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

#[test]
fn an_unknown_key() {
    mistake("batch_size = 32", "batch_sise = 32").shows(
        Code::JobKey,
        "[train]",
        "batch_sise",
        "did you mean \"batch_size\"?",
    );
    mistake("[eval]", "[evaluation]").shows(Code::JobKey, "[evaluation]", "evaluation", "did you mean \"eval\"?");
}

#[test]
fn a_model_of_a_column_that_is_not_there() {
    let changed = mistake("\"job_vector\"]", "\"job_vectr\"]");
    changed.shows(Code::JobValue, "dnn_columns", "\"job_vectr\"", "did you mean \"job_vector\"?");
}

#[test]
fn an_input_that_the_data_has_not() {
    let changed = mistake("key = \"age\"", "key = \"agee\"");
    changed.shows(Code::DataColumn, "age_group", "\"agee\"", "did you mean \"age\"?");
}

#[test]
fn a_value_of_the_wrong_type() {
    let changed = mistake("batch_size = 32", "batch_size = \"32\"");
    changed.shows(Code::JobValue, "batch_size", "\"32\"", "write 32 without quotes");
}

#[test]
fn a_number_column_over_texts() {
    let changed = mistake("pay = { kind = \"numeric\"", "pay = { kind = \"numeric\", key = \"name\"");
    changed.shows(Code::DataColumn, "pay =", "\"name\"", "kind = \"hash_bucket\" or \"vocabulary_list\"");
}

#[test]
fn a_file_that_is_missing() {
    let changed = mistake("train = \"train.csv\"", "train = \"trian.csv\"");
    changed.shows(Code::DataMissing, "train =", "\"trian.csv\"", "train.csv\"?");
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
fn a_label_that_the_vocabulary_has_not() {
    let changed = mistake("[\"no\", \"yes\"]", "[\"no\", \"Yes\"]");
    changed.shows(Code::DataRow, "label_vocabulary", "[\"no\"", "add this spelling to its class");
}

#[test]
fn labels_of_words_without_a_vocabulary() {
    let changed = mistake("label_vocabulary = [\"no\", \"yes\"]\n", "");
    changed.shows(Code::DataColumn, "label =", "\"y\"", "add label_vocabulary");
}

#[test]
fn an_optimizer_that_there_is_not() {
    let changed = mistake("name = \"adagrad\"", "name = \"adagard\"");
    changed.shows(Code::JobValue, "dnn_optimizer", "\"adagard\"", "did you mean \"adagrad\"?");
    let changed = mistake("{ name = \"adagrad\", learning_rate = 0.1 }", "\"adagard\"");
    changed.shows(Code::JobValue, "dnn_optimizer", "\"adagard\"", "did you mean \"adagrad\"?");
    let changed = mistake("name = \"adagrad\", learning_rate = 0.1", "name = \"adagrad\", learning_rate = -0.1");
    changed.shows(Code::BadSetting, "dnn_optimizer", "{ name", "");
}

#[test]
fn batches_of_nothing() {
    let changed = mistake("batch_size = 32", "batch_size = 0");
    changed.shows(Code::JobValue, "batch_size", "0", "give at least 1");
}

#[test]
fn boundaries_that_do_not_rise() {
    let changed = mistake("[30, 45, 60]", "[30, 60, 45]");
    changed.shows(Code::JobValue, "boundaries", "45", "boundaries = [30.0, 45.0, 60.0]");
}

#[test]
fn a_cross_of_an_unknown_key() {
    let changed = mistake("\"city\"], hash", "\"ciyt\"], hash");
    changed.shows(Code::DataColumn, "age_x_city", "\"ciyt\"", "did you mean \"city\"?");
    let changed = mistake("{ column = \"age_group\" }", "{ column = \"age_grup\" }");
    changed.shows(Code::JobValue, "age_x_city", "\"age_grup\"", "did you mean \"age_group\"?");
    let changed = mistake("[{ column = \"age_group\" }, \"city\"]", "[\"city\", { column = \"age_group\" }]");
    changed.shows(Code::JobValue, "age_x_city", "{ column", "write the columns first");
}

#[test]
fn a_run_directory_that_cannot_be_written() {
    // Below a file nobody can write, whoever runs this.
    let changed = mistake("seed = 3", "model_dir = \"train.csv/run\"");
    changed.shows(Code::StorageLocation, "model_dir", "\"train.csv/run\"", "may write to");
}

#[test]
fn nothing_to_go_on_from() {
    let changed = mistake("seed = 3", "model_dir = \"runs/a\"\nresume = \"must\"");
    changed.shows(Code::JobResume, "resume", "\"must\"", "set resume = \"auto\"");
    assert!(!changed.folder.path().join("runs").exists(), "a check leaves nothing behind");
    let changed = mistake("seed = 3", "resume = \"atuo\"");
    changed.shows(Code::JobValue, "resume", "\"atuo\"", "did you mean \"auto\"?");
}

#[test]
fn an_input_in_two_forms_and_a_column_that_reads_the_label() {
    let changed = mistake("pay = { kind = \"numeric\"", "pay = { kind = \"numeric\", key = \"city\"");
    changed.shows(Code::BadSetting, "pay =", "\"city\"", "under two keys");
    let changed = mistake("pay = { kind = \"numeric\"", "pay = { kind = \"numeric\", key = \"y\"");
    changed.shows(Code::JobValue, "pay =", "\"y\"", "leave the column out");
}

#[test]
fn a_label_that_the_data_has_not() {
    let changed = mistake("label = \"y\"", "label = \"yy\"");
    changed.shows(Code::DataColumn, "label =", "\"yy\"", "did you mean \"y\"?");
}

#[test]
fn columns_in_the_wrong_part_of_a_model() {
    let changed = mistake("\"city_onehot\", \"job_vector\"]", "\"city\", \"job_vector\"]");
    changed.shows(Code::BadSetting, "dnn_columns", "\"city\"", "indicator");
    let changed = mistake("\"job\", \"age_x_city\"]", "\"job_vector\", \"age_x_city\"]");
    changed.shows(Code::JobValue, "linear_columns", "\"job_vector\"", "embeddings belong to the deep part");
}

#[test]
fn what_is_not_toml() {
    let changed = mistake("hidden_units = [16, 8]", "hidden_units = [16, 8");
    assert_eq!(changed.error.code(), Code::JobSyntax);
    assert!(changed.error.pointed_at().is_some() && changed.error.next().is_some(), "{}", changed.error.report());
    let changed = mistake("batch_size = 32", "batch_size = 32\nbatch_size = 64");
    changed.shows(Code::JobSyntax, "batch_size = 64", "batch_size", "once in a table");
}

#[test]
fn a_vocabulary_whose_file_is_missing() {
    let file = "{ kind = \"vocabulary_file\", vocabulary_file = \"citys.txt\" }";
    let changed = mistake("{ kind = \"vocabulary_list\", vocabulary_list = [\"berlin\", \"oslo\", \"rome\"] }", file);
    let shown = changed.error.report();
    assert_eq!(
        changed.error.pointed_at().unwrap().rsplit('/').next().unwrap(),
        place(&changed.text, "city =", "\"citys.txt\""),
        "{shown}"
    );
}

#[test]
fn keys_of_another_format_or_kind() {
    let changed = mistake("label = \"y\"", "label = \"y\"\nformat = \"parquet\"\ntrim = true");
    changed.shows(Code::JobValue, "trim", "true", "leave it out");
    let changed = mistake("kind = \"indicator\"", "kind = \"indicatr\"");
    changed.shows(Code::JobValue, "city_onehot", "\"indicatr\"", "did you mean \"indicator\"?");
    let changed = mistake("dimension = 4", "dimensions = 4");
    changed.shows(Code::JobKey, "job_vector", "dimensions", "did you mean \"dimension\"?");
    let changed = mistake("column = \"job\", dimension", "column = \"job_vector\", dimension");
    changed.shows(Code::JobValue, "job_vector =", "\"job_vector\"", "made of inputs");
}

#[test]
fn a_metric_that_evaluations_do_not_have() {
    let changed = mistake("name = \"final\"", "name = \"best\"\nwhen = \"best\"\nmetric = \"acu\"");
    changed.shows(Code::JobValue, "metric", "\"acu\"", "did you mean \"auc\"?");
    let stopping = "[early_stopping]\nmetric = \"acurracy\"\npatience_steps = 9\n\n[[export]]";
    mistake("[[export]]", stopping).shows(Code::JobValue, "metric", "\"acurracy\"", "did you mean \"accuracy\"?");
}

#[test]
fn what_is_beyond_all_measure() {
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
    changed.shows(Code::JobValue, "c15 =", "\"c16\"", "made of inputs");
}

#[test]
fn names_that_do_not_fit_the_rows() {
    let names = "label = \"y\"\nnames = [\"age\", \"pay\", \"city\", \"job\", \"y\"]";
    mistake("label = \"y\"", names).shows(Code::DataColumn, "names", "[", "name every column");
    let without_header = format!("{names}\nheader = false");
    mistake("label = \"y\"", &without_header).shows(Code::DataRow, "names", "[", "name every column");
}

#[test]
fn no_text_makes_the_reader_panic() {
    // The same changes every time: pieces of the example taken out, doubled, moved and turned.
    let mut state = 7_u64;
    let mut draw = |of: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % of.max(1)
    };
    let (mut good, mut bad) = (0, 0);
    for round in 0..4_000 {
        let mut text = if round % 2 == 0 { phalanx_job::EXAMPLE.to_owned() } else { JOB.to_owned() };
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
                assert!(error.pointed_at().is_some(), "no place:\n{}", error.report());
                assert!(error.next().is_some(), "no way out:\n{}\n{text}", error.report());
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
    // The first rows are good: it is found while training.
    let lines: Vec<&str> = good.lines().take(300).chain(bad.lines().skip(300).take(10)).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let answer = answer(folder, JOB.to_owned());
    answer.shows(Code::DataRow, "pay =", "pay", "");
    assert!(answer.error.place().unwrap().contains("train.csv"), "{}", answer.error.report());
}

#[test]
fn a_job_that_is_not_there_says_how_to_make_one() {
    let error = Job::read(Path::new("no/such/job.toml"), Overrides::default()).unwrap_err();
    assert!(error.next().unwrap().contains("--init"), "{}", error.report());
}
