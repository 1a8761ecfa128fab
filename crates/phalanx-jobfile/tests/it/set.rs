//! `--set KEY=VALUE`: values that override those of the file.

use crate::common::{JOB, export, well, write_data};
use phalanx_base::{Code, Error};
use phalanx_jobfile::{Job, Overrides, TrainedJob, done_json};
use std::path::Path;

fn read(folder: &Path, text: &str, flags: &[&str]) -> phalanx_base::Result<Job> {
    let set = flags.iter().map(|&flag| flag.to_owned()).collect();
    Job::parse("job.toml", text, &folder.to_string_lossy(), Overrides { set, ..Overrides::default() })
}

fn refused(flags: &[&str]) -> Error {
    read(Path::new("."), JOB, flags).expect_err("a mistake")
}

#[test]
fn a_trial_has_a_directory_of_its_own_and_is_continued_by_the_same_flags() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let text = format!("model_dir = \"runs/a\"\n{JOB}");
    let train = |flags: &[&str]| well(well(read(folder.path(), &text, flags)).train());
    let flags = ["model.hidden_units=[4]", "train.max_steps=3", "export.0.name=mine", "eval.throttle_secs = 0"];
    let done = train(&flags);
    let dir = Path::new(&done.model_dir).to_owned();
    let name = dir.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("a-") && name.len() == 10, "{name}");
    assert!(!folder.path().join("runs/a").exists());
    let json = done_json(&done).to_string();
    for key in ["\"accuracy\": ", "\"global_step\": 3", "\"steps\": 3", "\"seconds\": ", "\"model_dir\": "] {
        assert!(json.contains(key), "{key} is missing: {json}");
    }

    // The same flags in another order are the same trial, which has its steps already; other flags are another trial.
    let mut turned = flags;
    turned.reverse();
    assert_eq!(train(&turned).model_dir, done.model_dir);
    let other = train(&["model.hidden_units=[5]", "train.max_steps=3"]);
    assert_ne!(other.model_dir, done.model_dir);

    // The copies in the run directory and in the export know the flags: [16, 8] would not fit the checkpoint.
    for trained in [TrainedJob::ModelDir(dir.clone()), TrainedJob::Export(export(&dir.join("export/mine")))] {
        let job = well(trained.job(Overrides::default()));
        let found = well(job.evaluate(&trained, Some(&folder.path().join("test.csv").to_string_lossy())));
        assert_eq!(found.global_step, 3);
    }
}

#[test]
fn an_explicit_directory_is_used_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    let text = format!("model_dir = \"runs/a\"\n{JOB}");
    let done = well(well(read(folder.path(), &text, &["train.max_steps=1", "model_dir=runs/mine"])).train());
    assert_eq!(Path::new(&done.model_dir), folder.path().join("runs/mine"));
}

#[test]
fn mistakes_point_into_the_flag() {
    let cases = [
        ("train.batch_size=0", Code::JobValue, "--set:1:18", "give at least 1"),
        ("train.batch_size=[3]", Code::JobValue, "--set:1:18", ""),
        ("train.batchsize=3", Code::JobKey, "--set:1:7", "did you mean \"batch_size\"?"),
        ("trian.batch_size=3", Code::JobKey, "--set:1:1", "did you mean \"train\"?"),
        ("model.hidden_units=[4, 0]", Code::JobValue, "--set:1:24", ""),
        ("model.dnn_optimizer.learning_rate=fast", Code::JobValue, "--set:1:35", ""),
        ("columns.age.dimension=2", Code::JobKey, "--set:1:13", ""),
        ("train.batch_size.more=3", Code::JobKey, "--set:1:18", "set the whole value"),
        ("export.1.name=x", Code::JobKey, "--set:1:8", "counted from 0"),
        ("model.hidden_units=[4", Code::JobSyntax, "--set:1:", ""),
        ("train.batch_size", Code::Flags, "--set:1:1", "--set train.batch_size=64"),
        ("=3", Code::Flags, "--set:1:1", "--set train.batch_size=64"),
        ("origin.seed=3", Code::JobKey, "--set:1:1", ""),
        ("seed=1\nthreads=2", Code::Flags, "--set:2:1", "one --set for every key"),
    ];
    for (flag, code, place, help) in cases {
        let error = refused(&["train.max_steps=7", flag]);
        let report = error.report();
        assert_eq!(error.code(), code, "{flag}: {report}");
        assert!(error.pointed_at().is_some_and(|at| at.starts_with(place)), "{flag}: {report}");
        assert!(error.next().unwrap_or_default().contains(help), "{flag}: {report}");
        assert!(report.contains('^'), "{report}");
    }
    // A mistake of the file is still shown there, beside good flags.
    let text = JOB.replace("batch_size = 32", "batch_size = 0");
    let error = read(Path::new("."), &text, &["train.max_steps=7"]).unwrap_err();
    assert!(error.pointed_at().is_some_and(|at| at.starts_with("job.toml:")), "{}", error.report());
    assert!(read(Path::new("."), &text, &["train.batch_size=8"]).is_ok());
}

#[test]
fn tables_lists_and_bare_words_are_values() {
    let good = [
        "model.dnn_optimizer={ name = \"adam\", learning_rate = 0.001 }",
        "model.dnn_optimizer.learning_rate=0.5",
        "model.dnn_optimizer=adam",
        "train.shuffle=10",
        "eval.steps=all",
        "model.label_vocabulary=[\"no\", \"yes\"]",
    ];
    for flag in good {
        well(read(Path::new("."), JOB, &[flag]));
    }
    // Later flags win.
    well(read(Path::new("."), JOB, &["train.batch_size=0", "train.batch_size=4"]));
}
