//! Files that are copied to nodes before a job starts. A node is a folder here, and a stand-in for ssh runs commands there.

use crate::support::{Job, text};
use std::fs::{create_dir_all, read_to_string, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What every task does.
const SCRIPT: &str = r#"./train "$role""#;

/// A working directory with a program and data, and the folders of the nodes.
struct Nodes {
    job: Job,
    here: PathBuf,
    hosts: PathBuf,
}

impl Nodes {
    /// `change` edits commands before a node runs them: an expression for sed.
    fn new(change: &str) -> Self {
        let job = Job::new();
        let root = job.dir.path().canonicalize().expect("it exists");
        let (here, hosts) = (root.join("here"), root.join("hosts"));
        create_dir_all(here.join("data/deep")).expect("created");
        ["a", "b"].iter().for_each(|host| create_dir_all(hosts.join(host)).expect("created"));
        let all = hosts.display();
        executable(
            &here.join("train"),
            &format!("#!/bin/sh\necho \"$1 read $(cat data/deep/rows.csv) in $(pwd | sed 's|{all}/||')\"\n"),
        );
        write(here.join("data/deep/rows.csv"), "1,2,3").expect("written");
        write(here.join("data/it's.csv"), "4").expect("written");
        // `launch` is the whole command of the launcher under test.
        let edit = format!("s|{0}|{all}/'\"$host\"'|g; s| launch --nodes| --nodes|; {change}", here.display());
        executable(
            &root.join("ssh"),
            &format!(
                "#!/bin/sh\nhost=$1; shift\n\
                 [ $host = down ] && {{ echo 'ssh: connect to host down port 22: No route to host' >&2; exit 255; }}\n\
                 exec sh -c \"$(printf %s \"$*\" | sed '{edit}')\"\n"
            ),
        );
        Self { job, here, hosts }
    }

    fn launch(&self, nodes: &str, staged: &[&str]) -> Output {
        let ssh = self.job.dir.path().canonicalize().expect("it exists").join("ssh");
        let ssh = ssh.to_str().expect("UTF-8");
        let mut flags =
            vec!["--nodes", nodes, "--worker-port", "2223", "--ps-port", "2222", "--ssh", "--ssh-command", ssh];
        staged.iter().for_each(|path| flags.extend(["--stage", path]));
        let mut command = self.job.command(&flags, SCRIPT);
        command.current_dir(&self.here);
        Job::output(command)
    }

    fn on(&self, host: &str, path: &str) -> PathBuf {
        self.hosts.join(host).join(path)
    }
}

fn executable(path: &Path, script: &str) {
    write(path, script).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

fn has_rsync() -> bool {
    Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Every task found its program and its data in the working directory of its node.
fn all_ran(output: &Output) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    for (task, line) in [
        ("chief/0", "master read 1,2,3 in a"),
        ("worker/0", "worker read 1,2,3 in b"),
        ("ps/0", "ps read 1,2,3 in a"),
        ("ps/1", "ps read 1,2,3 in b"),
    ] {
        assert!(out.contains(&format!("{task:<8} | {line}\n")), "{task}: {out}\n{err}");
    }
}

#[test]
fn rsync_copies_a_program_and_data_once() {
    if !has_rsync() {
        eprintln!("skipped: needs rsync");
        return;
    }
    let nodes = Nodes::new("");
    let output = nodes.launch("a,b", &["train", "data"]);
    all_ran(&output);
    let err = text(&output.stderr);
    assert!(
        err.contains("Staged a: 3 files copied (rsync)") && err.contains("Staged b: 3 files copied (rsync)"),
        "{err}"
    );
    assert_eq!(read_to_string(nodes.on("b", "data/it's.csv")).unwrap(), "4");

    write(nodes.here.join("data/it's.csv"), "changed").unwrap();
    let output = nodes.launch("a,b", &["train", "data"]);
    all_ran(&output);
    let err = text(&output.stderr);
    assert!(err.contains("Staged a: 1 file copied (rsync)"), "{err}");
    assert_eq!(read_to_string(nodes.on("a", "data/it's.csv")).unwrap(), "changed");
    let err = text(&nodes.launch("a,b", &["train", "data"]).stderr);
    assert!(err.contains("Staged a: unchanged (rsync)") && err.contains("Staged b: unchanged (rsync)"), "{err}");
}

#[test]
fn without_rsync_on_a_node_tar_copies_everything() {
    let nodes = Nodes::new("s|command -v rsync|false|");
    // Links are followed: what they name may not be on the node.
    std::os::unix::fs::symlink(nodes.here.join("data"), nodes.here.join("linked")).unwrap();
    let output = nodes.launch("a,b", &["./train", "data/", "linked/deep"]);
    all_ran(&output);
    let err = text(&output.stderr);
    assert!(err.contains("Staged a: 0.0 MB copied (tar)"), "{err}");
    let linked = nodes.on("b", "linked/deep/rows.csv");
    assert!(!linked.is_symlink() && read_to_string(linked).unwrap() == "1,2,3");
}

#[test]
fn a_node_on_the_same_disk_needs_no_copy() {
    let nodes = Nodes::new("");
    // Every node is this machine.
    let script = "#!/bin/sh\nshift\nexec sh -c \"$(printf %s \"$*\" | sed 's| launch --nodes| --nodes|')\"\n";
    executable(&nodes.job.dir.path().join("ssh"), script);
    let output = nodes.launch("a,b", &["train", "data"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(err.contains("Staged a: the same disk, nothing to copy"), "{err}");
    assert!(out.contains("master read 1,2,3 in"), "{out}");
    let left: Vec<_> =
        std::fs::read_dir(nodes.here.join("data")).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".phalanx")), "{left:?}");
}

#[test]
fn a_node_that_cannot_be_reached_ends_the_launch_before_anything_is_copied_or_started() {
    let nodes = Nodes::new("");
    let output = nodes.launch("a,down", &["train", "data"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(138), "{out}\n{err}");
    assert!(err.contains("error[PX0215]: node down did not answer"), "{err}");
    assert!(err.contains("No route to host") && err.contains("= help: check it with:"), "{err}");
    assert!(!out.contains("read") && !nodes.on("a", "train").exists(), "{out}");
}

#[test]
fn a_copy_that_fails_ends_the_launch_and_names_the_node() {
    for change in ["", "s|command -v rsync|false|"] {
        let nodes = Nodes::new(change);
        // A folder that is not empty is where the program should be.
        create_dir_all(nodes.on("b", "train/full")).unwrap();
        let output = nodes.launch("a,b", &["train", "data"]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(138), "{out}\n{err}");
        assert!(err.contains("error[PX0215]: node b did not get the files") && err.contains("train"), "{err}");
        assert!(!out.contains("read"), "nothing was started: {out}");
    }
}

#[test]
fn a_path_that_does_not_exist_is_refused_before_a_node_is_asked() {
    let nodes = Nodes::new("");
    let output = nodes.launch("down", &["data/cencus"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("error[PX0110]: --stage data/cencus cannot be copied") && err.contains("No such file"),
        "{err}"
    );
}
