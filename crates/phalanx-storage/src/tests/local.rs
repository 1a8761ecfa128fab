use super::{names, scratch};
use crate::{Dir, cause};
use phalanx_base::Code;
use std::io::Write;
use std::path::Path;

#[test]
fn locations_open() {
    let scratch = scratch();
    let path = scratch.path().display().to_string();
    for location in [path.clone(), format!("{path}/"), format!("file://{path}")] {
        let dir = Dir::open(&location).expect(&location);
        dir.write("sub/a", b"1").expect("written");
        assert_eq!(dir.local_path("sub/a"), Some(Path::new(&path).join("sub/a")));
        assert!(dir.can_append());
    }
    assert_eq!(Dir::local("").location(), ".");
    assert_eq!(Dir::in_memory().local_path("a"), None);
    assert_eq!(Dir::open("memory:").expect_err("not from outside").code(), Code::StorageLocation);
}

#[cfg(not(any(feature = "s3", feature = "gs", feature = "az")))]
#[test]
fn a_store_that_is_not_built_in_is_named_with_its_feature() {
    for (location, feature) in [("s3://bucket/run", "s3"), ("gs://bucket/run", "gs"), ("az://container", "az")] {
        let error = Dir::open(location).expect_err(location);
        assert_eq!(error.code(), Code::StorageLocation);
        assert!(error.next().is_some_and(|help| help.contains(&format!("--features {feature}"))), "{error:?}");
    }
}

#[test]
fn a_directory_is_made_with_those_above() {
    let scratch = scratch();
    let dir = Dir::local(scratch.path()).child("a/b/c").expect("a good name");
    dir.create_all().expect("made");
    dir.create_all().expect("made already");
    assert!(scratch.path().join("a/b/c").is_dir());
}

#[test]
fn a_path_through_a_file_is_explained() {
    let scratch = scratch();
    std::fs::write(scratch.path().join("file"), b"1").expect("written");
    let dir = Dir::local(scratch.path().join("file/run"));
    let errors = [
        (Code::StorageWrite, dir.create_all().expect_err("a file above")),
        (Code::StorageWrite, dir.stage("a").map(drop).expect_err("a file above")),
        (Code::StorageWrite, dir.write("a", b"1").expect_err("a file above")),
        (Code::StorageWrite, dir.append("a").map(drop).expect_err("a file above")),
        (Code::StorageRead, dir.read("a", 1).map(drop).expect_err("a file above")),
        (Code::StorageRead, dir.open_read("a").map(drop).expect_err("a file above")),
        (Code::StorageRead, dir.list("").map(drop).expect_err("a file above")),
    ];
    for (code, error) in errors {
        assert_eq!(error.code(), code, "{error}");
        assert!(error.place().is_some_and(|place| place.contains("file/run")), "{error}");
        assert!(error.why().is_some_and(|why| why.contains("Not a directory")), "{error}");
        assert!(error.next().is_some_and(|help| help.contains("correct model_dir")), "{error:?}");
    }
}

#[test]
fn a_directory_is_no_file() {
    let scratch = scratch();
    let dir = Dir::local(scratch.path());
    dir.write("sub/a", b"1").expect("written");
    assert_eq!(dir.size("sub").expect("a size"), None);
    let error = dir.write("sub", b"1").expect_err("a directory is there");
    assert_eq!((error.code(), names(&dir, "").len()), (Code::StorageWrite, 0), "{error}");
    assert!(dir.contents().expect("a listing").files.is_empty(), "what could not be published is removed");
    assert!(dir.read("sub", 1).expect_err("a directory").to_string().contains("directory"));
}

#[test]
fn a_directory_without_rights_is_explained() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = scratch();
    let dir = Dir::local(scratch.path());
    let set = |mode| std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(mode)).expect("changed");
    set(0o500);
    let result = dir.write("a", b"1");
    set(0o700);
    match result {
        Err(error) => {
            assert_eq!(error.code(), Code::StorageWrite);
            assert!(error.next().is_some_and(|help| help.contains("right")), "{error:?}");
        }
        Ok(()) => eprintln!("skipped: needs a user who is not root"),
    }
}

#[test]
fn appending_to_a_full_disk_is_explained() {
    // Writing to this device fails as a full disk does.
    let scratch = scratch();
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: needs /dev/full");
        return;
    }
    std::os::unix::fs::symlink("/dev/full", scratch.path().join("log")).expect("a link");
    let mut file = Dir::local(scratch.path()).append("log").expect("opened");
    file.write_all(b"event").expect("gathered");
    let error = file.flush().expect_err("no room");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let ours = cause(&error).expect("our error");
    assert_eq!(ours.code(), Code::StorageWrite);
    assert!(ours.next().is_some_and(|help| help.contains("bytes left")), "{ours:?}");
}
