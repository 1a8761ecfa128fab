//! Fetching from servers of our own, good and bad.

use super::*;
use std::io::Write;
use std::net::TcpListener;

/// The SHA-256 of `abc`, from FIPS 180-2.
const FILE: PublicFile = PublicFile {
    name: "abc.txt",
    bytes: 3,
    sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
};

/// Serves one response to every request, and returns the folder's address. The thread ends with the process.
fn server(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                request.extend(byte);
            }
            assert!(request.starts_with(b"GET /data/abc.txt HTTP/1.1"));
            let _closed = stream.write_all(response.as_bytes());
        }
    });
    format!("http://{address}/data/")
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";

/// What is in the directory after a fetch that failed.
fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn a_file_is_downloaded_once_and_verified_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("new/folder");
    let mirror = server(GOOD);
    assert_eq!(fetch(&FILE, &folder, &[&mirror]).unwrap(), Fetched::Downloaded);
    assert_eq!(std::fs::read(folder.join("abc.txt")).unwrap(), b"abc");
    // No mirror is asked again.
    assert_eq!(fetch(&FILE, &folder, &[]).unwrap(), Fetched::Verified);
    assert_eq!(files(&folder), 1);
}

#[test]
fn an_existing_file_with_another_content_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("abc.txt"), "mine").unwrap();
    let error = fetch(&FILE, dir.path(), &[]).unwrap_err();
    assert!(error.report().contains("has another content") && error.report().contains(FILE.sha256), "{error}");
    assert_eq!(std::fs::read(dir.path().join("abc.txt")).unwrap(), b"mine");
}

#[test]
fn what_is_not_the_published_file_is_never_put_in_place() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabd", "is not the published file"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nab", "cannot be downloaded"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab", "it has 2 bytes"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabcabcabc", "cannot be downloaded"),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "404"),
        ("HTTP/1.1 302 Found\r\nLocation: gopher://x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "cannot be"),
        ("not HTTP", "cannot be downloaded"),
    ];
    for (response, said) in cases {
        let dir = tempfile::tempdir().unwrap();
        let error = fetch(&FILE, dir.path(), &[&server(response)]).unwrap_err();
        assert!(error.report().contains(said), "{response}: {}", error.report());
        assert!(error.next().is_some_and(|next| next.contains("--from")), "{}", error.report());
        assert_eq!(files(dir.path()), 0, "{response}");
    }
}

#[test]
fn the_next_mirror_is_asked_when_one_fails() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable = format!("http://{}/data", gone.local_addr().unwrap());
    drop(gone);
    let wrong = server("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nxyz");
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(fetch(&FILE, dir.path(), &[&unreachable, &wrong, &server(GOOD)]).unwrap(), Fetched::Downloaded);

    let dir = tempfile::tempdir().unwrap();
    let error = fetch(&FILE, dir.path(), &[&unreachable, &wrong]).unwrap_err();
    let report = error.report();
    assert!(report.contains("no mirror has abc.txt") && report.contains("not the published file"), "{report}");
    let only = fetch(&FILE, dir.path(), &[&unreachable]).unwrap_err();
    assert!(only.report().contains("cannot be downloaded"), "{}", only.report());
}

#[test]
fn a_folder_of_this_machine_is_a_mirror_too() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("abc.txt"), "abc").unwrap();
    let mirror = format!("file://{}", dir.path().display());
    assert_eq!(fetch(&FILE, &dir.path().join("to"), &[&mirror]).unwrap(), Fetched::Downloaded);
}

#[test]
fn the_list_of_data_sets_is_well_formed() {
    for dataset in DATASETS {
        assert!(!dataset.mirrors.is_empty() && dataset.next.contains("DIR/"));
        for file in dataset.files {
            assert!(file.sha256.len() == 64 && file.sha256.bytes().all(|digit| digit.is_ascii_hexdigit()));
            assert!(file.bytes > 0 && !file.name.contains('/'));
        }
    }
}
