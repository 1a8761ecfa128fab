//! `phalanx data stats`.

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
