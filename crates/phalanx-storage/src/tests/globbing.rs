use super::{on_every_store, scratch};
use crate::Dir;
use crate::glob;

fn found(dir: &Dir, pattern: &str) -> Vec<String> {
    let base = format!("{dir}/");
    let places = dir.find(pattern).expect("a search").into_iter().map(|(dir, name)| format!("{dir}/{name}"));
    places.map(|place| place.strip_prefix(&base).expect("below the directory").to_owned()).collect()
}

#[test]
fn patterns_find_files() {
    on_every_store(|dir| {
        for name in
            ["a.csv", "b.csv", "b.txt", ".hidden.csv", "x/a.csv", "x/y/a.csv", "x/y/c.csv", ".git/a.csv", "z1/a.csv"]
        {
            dir.write(name, b"1").expect("written");
        }
        dir.stage("a.csv").expect("staged").finish().expect("left behind");
        for (pattern, expected) in [
            ("*.csv", &["a.csv", "b.csv"][..]),
            ("[!a].???", &["b.csv", "b.txt"]),
            ("a.csv", &["a.csv"]),
            ("none.csv", &[]),
            ("none/*", &[]),
            ("x", &[]),
            ("x/", &[]),
            (".*", &[".hidden.csv"]),
            ("*/a.csv", &["x/a.csv", "z1/a.csv"]),
            ("?[0-9]/*", &["z1/a.csv"]),
            ("x/**", &["x/a.csv", "x/y/a.csv", "x/y/c.csv"]),
            ("**/a.csv", &["a.csv", "x/a.csv", "x/y/a.csv", "z1/a.csv"]),
            ("**/**/y/**/c*", &["x/y/c.csv"]),
            ("x/y/*", &["x/y/a.csv", "x/y/c.csv"]),
        ] {
            assert_eq!(found(dir, pattern), expected, "{dir}: {pattern}");
        }
        let (dir, name) = dir.find("x/y/c*").expect("a search").remove(0);
        assert_eq!(dir.read(&name, 1).expect("what is found can be read"), b"1");
    });
}

#[test]
fn local_patterns_are_locations() {
    let scratch = scratch();
    let dir = Dir::local(scratch.path());
    // Names that a store with percent-encoding would change.
    for name in ["in/ü 100%#~.csv", "in/{x}.csv", "in/a\tb.csv"] {
        dir.write(name, b"1").expect("written");
    }
    let root = scratch.path().display().to_string();
    for pattern in [format!("{root}/in/*.csv"), format!("file://{root}/in/*.csv"), format!("{root}/in/../i?/*")] {
        let names = glob(&pattern).map(|found| found.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
        match names {
            Ok(names) => assert_eq!(names, ["a\tb.csv", "{x}.csv", "ü 100%#~.csv"], "{pattern}"),
            Err(error) => panic!("{pattern}: {error}"),
        }
    }
    assert_eq!(glob(&format!("{root}/in/[{{]x}}.csv")).expect("a search").len(), 1);
    assert!(glob("no/such/directory/*.csv").expect("a search").is_empty());
}

#[test]
fn links_in_a_circle_are_not_followed() {
    let scratch = scratch();
    let dir = Dir::local(scratch.path());
    dir.write("real/a.csv", b"1").expect("written");
    std::os::unix::fs::symlink(scratch.path(), scratch.path().join("real/up")).expect("a link");
    std::os::unix::fs::symlink(scratch.path().join("real"), scratch.path().join("link")).expect("a link");
    assert_eq!(found(&dir, "**/a.csv"), ["real/a.csv"]);
    assert_eq!(found(&dir, "l*/a.csv"), ["link/a.csv"], "a link that is named is followed");
}

#[test]
fn a_name_that_is_no_text_is_not_left_out_silently() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = scratch();
    let odd = scratch.path().join(std::ffi::OsStr::from_bytes(b"train-\xff.csv"));
    if std::fs::write(&odd, b"1").is_err() {
        eprintln!("skipped: needs a file system that allows names that are not UTF-8");
        return;
    }
    let dir = Dir::local(scratch.path());
    let error = dir.find("train-*.csv").expect_err("it matches");
    assert!(error.to_string().contains("not UTF-8"), "{error}");
    assert!(dir.find("test-*.csv").expect("it does not match").is_empty());
    assert!(dir.list("").expect("a listing").is_empty());
}
