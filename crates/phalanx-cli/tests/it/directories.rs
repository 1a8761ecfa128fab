//! Where a launched job keeps its checkpoints.

use crate::jobs::{PHALANX, folder, run};

#[test]
fn the_run_directory_of_a_launched_job_is_given_once_or_not_at_all() {
    let folder = folder();
    let root = folder.path();
    let program = ["--", PHALANX, "train", "job.toml", "--max-steps", "20"];
    let launch = ["launch", "--ps", "1", "--workers", "0", "--no-dashboard"];
    for (flags, kept) in [(&["--run-dir", "a", "--model-dir", "model"][..], "model"), (&["--run-dir", "b"], "b")] {
        let output = run(&[&launch, flags, &program].concat(), root);
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{flags:?}: {text}");
        assert!(root.join(kept).join("checkpoint").is_file(), "{flags:?}: {text}");
    }
    // The same directory, which the program makes absolute, is no contradiction; another one is.
    for (own, code) in [("same", 0), ("other", 2)] {
        let flags = ["--run-dir", own, "--model-dir", "same"];
        let output = run(&[&launch, &flags[..], &program, &["--model-dir", own]].concat(), root);
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{own}: {text}");
        assert_eq!(text.contains("there are two run directories"), code == 2, "{own}: {text}");
    }
}
