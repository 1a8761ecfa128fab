use crate::csv::csv;
use crate::testing::{first_error, read_all};
use crate::{BadRows, DType, PartPosition, Source};
use phalanx_base::Code;
use proptest::prelude::*;

fn file(text: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv").to_string_lossy().into_owned();
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn a_bad_value_says_file_line_column_text_and_type() {
    let (_folder, path) = file(b"age,job\n1,\"a\nb\"\n2,c\nold,d\n");
    let error = first_error(&csv(&*path).column("age", DType::I64));
    assert_eq!(error.code(), Code::DataRow);
    assert_eq!(error.what(), "\"old\" is not a valid int64");
    assert_eq!(error.place().unwrap(), format!("{path}, line 5, column \"age\""));
}

#[test]
fn the_rows_before_a_bad_one_come_first() {
    let (_folder, path) = file(b"a\n1\n2\nx\n4\n");
    let source = csv(&*path).column("a", DType::I64);
    let mut reader = source.open(0, PartPosition::START).unwrap();
    assert_eq!(reader.read(10).unwrap().unwrap().i64("a").unwrap(), [1, 2]);
    // A reader that resumes here finds it too.
    let mut again = source.open(0, reader.position()).unwrap();
    assert_eq!(again.read(10).unwrap_err().place(), reader.read(10).unwrap_err().place());
}

#[test]
fn bad_rows_are_skipped_and_counted_up_to_a_limit() {
    let text = b"a,b\n1,x\nno,y\n3\n4,\"z\"q\n5,w\n6,\"never closed\n7,v\n";
    let (_folder, path) = file(text);
    let bad = BadRows::skip_at_most(4);
    let source = csv(&*path).column("a", DType::I64).bad_rows(bad.clone());
    for _epoch in 0..2 {
        let batches = read_all(&source, PartPosition::START, 100);
        assert_eq!(batches[0].i64("a").unwrap(), [1, 5, 7]);
        assert_eq!(bad.skipped(), 4);
    }
    assert_eq!(bad.first().unwrap().what(), "\"no\" is not a valid int64");
    let error = first_error(&csv(&*path).column("a", DType::I64).bad_rows(BadRows::skip_at_most(2)));
    assert!(error.next().unwrap().contains("2 bad rows"), "{error}");
}

#[test]
fn a_missing_column_names_the_nearest() {
    let (_folder, path) = file(b"age,income\n1,2\n");
    for source in [csv(&*path).label("incmoe"), csv(&*path).select(["incmoe"]), csv(&*path).required("incmoe")] {
        let error = source.parts().unwrap_err();
        assert_eq!(error.code(), Code::DataColumn);
        assert_eq!(error.next(), Some("did you mean \"income\"?"));
    }
}

#[test]
fn files_of_other_columns_are_said() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.csv", "x,y\n1,2\n"), ("b.csv", "y,x\n1,2\n"), ("c.csv", "x,z\n1,2\n"), ("d.csv", "")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let source = csv(folder.path().join("*.csv"));
    assert_eq!(source.parts().unwrap(), 4);
    let error = |part| source.open(part, PartPosition::START).map(drop).unwrap_err();
    assert!(error(1).to_string().contains("another order"), "{}", error(1));
    assert!(error(2).to_string().contains("missing are [\"y\"], new are [\"z\"]"), "{}", error(2));
    assert_eq!((error(2).code(), error(3).code()), (Code::DataColumn, Code::DataFormat));
    assert!(error(3).to_string().contains("is empty"));
}

#[test]
fn a_header_that_is_no_text() {
    let (_folder, path) = file(b"a,\xff\xfe\n1,2\n");
    let error = csv(&*path).parts().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::DataFormat, "the header is not UTF-8"));
    let (_folder, path) = file(b"a,a\n1,2\n");
    assert!(csv(&*path).parts().unwrap_err().to_string().contains("fields 1 and 2"));
}

#[test]
fn byte_order_mark_comments_and_trimming() {
    let (_folder, path) = file(b"\xef\xbb\xbfa,b\n# no row\n1, ? \n 2, x\n");
    let source = csv(&*path).comment(b'#').trim(true).na_value("?").default_value("b", "none");
    let batch = read_all(&source, PartPosition::START, 10).remove(0);
    assert_eq!(batch.i64("a").unwrap(), [1, 2]);
    assert_eq!(batch.bytes("b").unwrap().iter().collect::<Vec<_>>(), [&b"none"[..], b"x"]);
}

#[test]
fn a_place_is_right_after_blank_lines_comments_and_fields_of_several_lines() {
    let (_folder, path) = file(b"a,b\n\n# no row\n1,\"x\ny\"\n\nno,z\n");
    let error = first_error(&csv(&*path).comment(b'#').column("a", DType::I64));
    assert_eq!(error.place().unwrap(), format!("{path}, line 7, column \"a\""));
}

#[test]
fn several_texts_mark_missing_values() {
    let (_folder, path) = file(b"a,b\n1,?\nNA,x\n,\n");
    let source = csv(&*path).na_values(["?", "NA"]).default_value("a", 9).default_value("b", "none");
    let batch = read_all(&source, PartPosition::START, 10).remove(0);
    assert_eq!(batch.i64("a").unwrap(), [1, 9, 9]);
    assert_eq!(batch.bytes("b").unwrap().iter().collect::<Vec<_>>(), [&b"none"[..], b"x", b"none"]);
    assert_eq!(csv(&*path).na_values(["?", "NA"]).columns().unwrap()[0].1, DType::I64);
}

#[test]
fn an_error_suggests_the_setting_that_helps() {
    let help = |text: &[u8], dtype: DType| {
        let (_folder, path) = file(text);
        let error = first_error(&csv(&*path).names(["a", "b"]).column("a", dtype));
        format!("{error}; {}", error.next().unwrap())
    };
    assert!(help(b"a,b\n?,1\n", DType::F32).contains("set na_value to \"?\""));
    let huge = help(b"a,b\n18446744073709551616,1\n", DType::I64);
    assert!(huge.contains("int64 ends at 9223372036854775807") && huge.contains("as string"), "{huge}");
    assert!(help(b"a,b\n  ,1\n", DType::F32).contains("set trim"));
    assert!(help(b"a,b\n1.5,1\n", DType::I64).contains("float32 or string"));
    assert!(help(b"a,b\n1;2\n", DType::I64).contains("set the delimiter to that"));
    let shifted = help(b"a,b\n1,2,3\n", DType::I64);
    assert!(shifted.contains("a row has 3 fields, not 2") && shifted.contains("in quotes"), "{shifted}");
    let (_folder, path) = file(b"a;b\n1;2\n");
    assert!(csv(&*path).label("b").parts().unwrap_err().next().unwrap().contains("set the delimiter to ';'"));
}

#[test]
fn settings_that_contradict_each_other() {
    let (_folder, path) = file(b"a,b\n1,x\n");
    for source in [
        csv(&*path).default_value("a", 1).required("a"),
        csv(&*path).default_value("a", "x").column("a", DType::I64),
        csv(&*path).column("a", DType::U8),
        csv(&*path).header(false),
    ] {
        assert_eq!(source.parts().unwrap_err().code(), Code::BadSetting);
    }
    let whole = csv(&*path).default_value("a", 1).column("a", DType::F32);
    assert_eq!(whole.columns().unwrap()[0].1, DType::F32);
}

/// A row as text and as what it means.
fn row() -> impl Strategy<Value = (i64, f32, String)> {
    (any::<i64>(), -1e6_f32..1e6, "[a-z ,\"\n\r]{0,12}")
}

fn written(rows: &[(i64, f32, String)], line_end: &str) -> String {
    let mut text = format!("n,f,s{line_end}");
    for (n, f, s) in rows {
        let quoted = s.replace('"', "\"\"");
        text += &format!("{n},{f},\"{quoted}\"{line_end}");
    }
    text
}

proptest! {
    #[test]
    fn what_was_written_is_read(rows in proptest::collection::vec(row(), 1..60), crlf: bool, chunk in 1_usize..20) {
        let (_folder, path) = file(written(&rows, if crlf { "\r\n" } else { "\n" }).as_bytes());
        let source = csv(&*path).column("n", DType::I64).column("f", DType::F32).column("s", DType::Bytes);
        let mut read = Vec::new();
        for batch in read_all(&source, PartPosition::START, chunk) {
            prop_assert!(batch.rows() <= chunk);
            for row in 0..batch.rows() {
                let text = String::from_utf8(batch.bytes("s").unwrap().get(row).to_vec()).unwrap();
                read.push((batch.i64("n").unwrap()[row], batch.f32("f").unwrap()[row], text));
            }
        }
        prop_assert_eq!(read, rows);
    }

    #[test]
    fn a_position_continues_with_the_next_row(rows in proptest::collection::vec(row(), 1..40), stop in 0_usize..40) {
        let (_folder, path) = file(written(&rows, "\n").as_bytes());
        let source = csv(&*path).column("n", DType::I64).column("f", DType::F32).column("s", DType::Bytes);
        let mut reader = source.open(0, PartPosition::START).unwrap();
        for _ in 0..stop {
            let _ = reader.read(1).unwrap();
        }
        let mut again = source.open(0, reader.position()).unwrap();
        prop_assert_eq!(again.position(), reader.position());
        loop {
            let (one, other) = (reader.read(3).unwrap(), again.read(3).unwrap());
            prop_assert_eq!(&one, &other);
            if one.is_none() {
                break;
            }
        }
    }
}

#[test]
fn rows_longer_than_a_block_and_rows_across_blocks() {
    let long = "x".repeat(700_000);
    let mut text = format!("n,s\n1,{long}\n");
    for n in 2..60_000 {
        text += &format!("{n},\"line {n}\"\n");
    }
    let (_folder, path) = file(text.as_bytes());
    let source = csv(&*path).column("n", DType::I64).column("s", DType::Bytes);
    let batches = read_all(&source, PartPosition::START, 1000);
    assert_eq!(batches[0].bytes("s").unwrap().get(0).len(), 700_000);
    let numbers: Vec<i64> = batches.iter().flat_map(|batch| batch.i64("n").unwrap().to_vec()).collect();
    assert!(numbers == (1..60_000).collect::<Vec<i64>>());
}

#[test]
fn gzip_reads_the_same_and_resumes() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let text: String = std::iter::once("n\n".to_owned()).chain((0..50_000).map(|n| format!("{n}\n"))).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let path = folder.path().join("a.csv.gz");
    std::fs::write(&path, gzip.finish().unwrap()).unwrap();
    let source = csv(&path);
    let mut reader = source.open(0, PartPosition::START).unwrap();
    for _ in 0..7 {
        reader.read(1000).unwrap();
    }
    let mut again = source.open(0, reader.position()).unwrap();
    assert_eq!(again.read(5).unwrap().unwrap().i64("n").unwrap(), [7000, 7001, 7002, 7003, 7004]);
}
