//! `phalanx data`.

use crate::jobs::{folder, object, run, succeeds};

#[test]
fn statistics_of_a_file_and_of_a_job_as_table_and_json() {
    let folder = folder();
    let root = folder.path();
    let text = succeeds(&["data", "stats", "train.csv", "--label", "y"], root);
    assert!(text.starts_with("600 rows\ncolumn"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("name ") && line.contains("600")), "{text}");
    assert!(text.lines().last().unwrap().starts_with("label \"y\": "), "{text}");
    let found = object(&succeeds(&["data", "stats", "job.toml", "--json", "--eval", "--rows", "50"], root));
    assert_eq!((found["rows"].as_u64(), found["complete"].as_bool()), (Some(50), Some(false)));
    let city = found["columns"].as_array().unwrap().iter().find(|column| column["name"] == "city").unwrap();
    assert_eq!((city["unknown"].as_u64(), city["values"].as_u64()), (Some(0), Some(50)), "{city}");
    assert_eq!(found["warnings"].as_array().unwrap().len(), 0);
}

#[test]
fn wrong_arguments_are_refused_with_the_reason() {
    let folder = folder();
    let root = folder.path();
    std::fs::write(root.join("train.bin"), "x").unwrap();
    for (arguments, code, says) in [
        (&["train.bin"][..], 2, "--format csv"),
        (&["none.csv"], 1, "none.csv"),
        (&["train.csv", "--label", "z"], 1, "name one of age, pay"),
        (&["train.csv", "--delimiter", "é"], 2, "ASCII"),
    ] {
        let failed = run(&[&["data", "stats"], arguments].concat(), root);
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert_eq!(failed.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
}

#[test]
fn data_sets_are_fetched_whole_or_not_at_all() {
    let folder = folder();
    let root = folder.path();
    std::fs::create_dir(root.join("mirror")).unwrap();
    std::fs::write(root.join("mirror/adult.data"), "39, State-gov\n").unwrap();
    let mirror = format!("file://{}", root.join("mirror").display());
    let failed = run(&["data", "fetch", "census", "--dir", "data", "--from", &mirror], root);
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{text}");
    assert!(text.contains("adult.data is not the published file") && text.contains("SHA-256"), "{text}");
    assert_eq!(std::fs::read_dir(root.join("data")).unwrap().count(), 0);
    let failed = run(&["data", "fetch", "imagenet", "--dir", "data"], root);
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() == Some(2) && text.contains("fashion-mnist"), "{text}");
}

/// The jobs of the repository are ready to train on the files that are made for them.
#[test]
fn synthetic_files_are_those_of_their_jobs() {
    let folder = folder();
    let root = folder.path();
    let jobs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs");
    for (name, job, file) in [("census", "census.toml", "adult.test"), ("criteo", "criteo.toml", "criteo.tsv")] {
        succeeds(&["data", "make", name, "--dir", name], root);
        let job = format!("{jobs}/{job}");
        let out = succeeds(
            &["train", &job, "--data-dir", name, "--model-dir", &format!("run-{name}"), "--max-steps", "600", "--json"],
            root,
        );
        assert!(object(&out)["auc"].as_f64().unwrap() > 0.6, "{name}: {out}");
        // A file that is there stays.
        let failed = run(&["data", "make", name, "--dir", name], root);
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(failed.status.code() != Some(0) && text.contains("choose another --dir"), "{text}");
        assert!(root.join(name).join(file).exists());
    }
    let failed = run(&["train", &format!("{jobs}/census.toml"), "--data-dir", "none", "--model-dir", "run"], root);
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() == Some(1) && text.contains("phalanx data fetch census"), "{text}");
}
