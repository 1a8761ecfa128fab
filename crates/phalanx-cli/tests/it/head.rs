//! `phalanx head` of every format.

use crate::jobs::{folder, object, run, succeeds};
use std::path::Path;

/// An IDX file of 3 images of 1 × 2 bytes.
const IDX: [u8; 22] = [0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 51, 102, 255, 1, 2];

/// A TFRecord file of these payloads.
fn records(payloads: &[&[u8]]) -> Vec<u8> {
    let mut writer = phalanx_formats::record::RecordWriter::new(Vec::new());
    payloads.iter().for_each(|payload| writer.write_record(payload).unwrap());
    writer.finish().unwrap()
}

fn write(root: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(root.join(name), bytes).unwrap();
}

#[test]
fn csv_fields_are_shown_as_they_are() {
    let folder = folder();
    let root = folder.path();
    write(root, "a.csv", "name,age\nAda, 36\n\"Grace, H.\",85\nAlan,\n");
    let table = succeeds(&["head", "a.csv", "-n", "2"], root);
    assert_eq!(table, "name       age\nAda        36\nGrace, H.  85\n");
    let all = object(&succeeds(&["head", "a.csv", "--json"], root));
    assert_eq!(all["rows"].as_array().map(Vec::len), Some(3), "{all}");
    assert_eq!(all["rows"][2]["name"][0], "Alan");
    // As many rows as were asked for, however many.
    write(root, "long.csv", format!("x\n{}", "1\n".repeat(40)));
    assert_eq!(succeeds(&["head", "long.csv", "-n", "30"], root).lines().count(), 31);
    write(root, "b.tsv", "1\t2\n3\t4\n");
    let table = succeeds(&["head", "b.tsv", "--no-header"], root);
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn idx_files_are_known_by_name_and_by_content() {
    let folder = folder();
    let root = folder.path();
    for name in ["t10k-images-idx3-ubyte", "anything"] {
        write(root, name, IDX);
        let table = succeeds(&["head", name, "-n", "2"], root);
        assert_eq!(table, "array\n[0, 51] (1×2)\n[102, 255] (1×2)\n", "{name}");
    }
}

#[test]
fn records_are_shown_up_to_the_first_bad_one() {
    let folder = folder();
    let root = folder.path();
    // An Example with the feature x = [7], and bytes that are none.
    let example = b"\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07";
    let mut bytes = records(&[example, b"\xff\xff"]);
    write(root, "a.tfrecord", &bytes);
    let table = succeeds(&["head", "a.tfrecord"], root);
    assert_eq!(table, "record  (no Example)  x\n     0                7\n     1  0xffff\n");
    // A feature may have the name of the column of numbers.
    write(root, "c.tfrecord", records(&[b"\x0a\x11\x0a\x0f\x0a\x06record\x12\x05\x1a\x03\x0a\x01\x07"]));
    assert_eq!(succeeds(&["head", "c.tfrecord"], root), "(record)  record\n       0  7\n");
    bytes.extend(b"broken");
    write(root, "b", &bytes);
    let failed = run(&["head", "b", "-n", "9"], root);
    let (out, err) = (String::from_utf8_lossy(&failed.stdout), String::from_utf8_lossy(&failed.stderr));
    assert_eq!(failed.status.code(), Some(1), "{err}");
    assert!(out == table && err.contains("record 2"), "{out}{err}");
    let answer = run(&["head", "b", "-n", "9", "--json"], root);
    let answer = object(&String::from_utf8_lossy(&answer.stdout));
    assert_eq!(answer["records"][0]["features"]["x"]["values"][0], 7);
    assert!(answer["error"]["place"].as_str().is_some_and(|place| place.contains("record 2")), "{answer}");
}

#[test]
fn a_file_that_cannot_be_shown_is_an_error_with_the_reason() {
    let folder = folder();
    let root = folder.path();
    write(root, "unknown", "some text");
    write(root, "empty.csv", "a,b\n");
    write(root, "torn.npz", b"PK\x03\x04....");
    write(root, "torn.parquet", b"PAR1....");
    for (arguments, says) in [
        (&["none.csv"][..], "none.csv"),
        (&["none"], "none cannot be read"),
        (&["."], "it is a folder"),
        (&["unknown"], "--format csv, tfrecord, parquet, npz, npy or idx"),
        (&["empty.csv"], "there are no rows"),
        (&["torn.npz"], "not a complete .npz file"),
        (&["torn.parquet"], "torn.parquet"),
        (&["unknown", "--format", "csv", "--delimiter", "é"], "ASCII"),
        (&["unknown", "--format", "idx"], "unknown"),
    ] {
        let failed = run(&[&["head"], arguments].concat(), root);
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(matches!(failed.status.code(), Some(1 | 2)), "{arguments:?}: {text}");
        assert!(text.contains("error[PX") && text.contains(says), "{arguments:?}: {text}");
    }
}
