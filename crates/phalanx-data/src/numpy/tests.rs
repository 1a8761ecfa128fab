use crate::testing::{first_error, read_all};
use crate::{Batch, PartPosition, Source, npy, npz};
use phalanx_base::Code;
use std::path::Path;

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/numpy").join(name)
}

fn read(source: &dyn Source, from: u64) -> Batch {
    Batch::concat(&read_all(source, PartPosition { row: from, ..PartPosition::START }, 2)).unwrap()
}

#[test]
fn arrays_of_every_type_stored_and_deflated() {
    for name in ["stored.npz", "deflated.npz"] {
        let batch = read(&npz(fixture(name)), 0);
        assert_eq!(batch.rows(), 3);
        for name in ["f4", "f8", "big"] {
            assert_eq!(batch.f32(name).unwrap(), [1.5, -2.0, 3.25], "{name}");
        }
        for name in ["i1", "i2", "i4", "i8"] {
            assert_eq!(batch.i64(name).unwrap(), [1, -2, 3], "{name}");
        }
        assert_eq!(batch.u8("u1").unwrap(), [1, 2, 255]);
        assert_eq!(batch.i64("u2").unwrap(), [1, 2, 65_535]);
        assert_eq!(batch.i64("yes").unwrap(), [1, 0, 1]);
        assert_eq!(batch.bytes("s").unwrap().iter().collect::<Vec<_>>(), [&b"red"[..], b"", b"a"]);
        assert_eq!(batch.bytes("u").unwrap().get(0), "größe".as_bytes());
        assert_eq!(batch.column("cube").unwrap().row_shape(), [2, 2]);
        assert_eq!(batch.f32("cube").unwrap(), (0..12).map(|x| x as f32).collect::<Vec<_>>());
        assert_eq!(read(&npz(fixture(name)), 2), batch.slice(2..3));
    }
}

#[test]
fn one_array_and_several_files_side_by_side() {
    let source = npy("x", fixture("cube.npy")).column("y", fixture("labels.npy")).label("y");
    let batch = read(&source, 0);
    assert_eq!(batch.label().unwrap().as_i64().unwrap(), [7, 8, 9]);
    assert_eq!(batch.column("x").unwrap().row_shape(), [2, 2]);
    assert_eq!(read(&source, 1), batch.slice(1..3));
}

#[test]
fn selected_arrays_and_missing_ones() {
    let source = npz(fixture("stored.npz")).select(["i8"]).label("u1");
    let batch = read(&source, 0);
    assert_eq!(batch.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["i8", "u1"]);
    assert_eq!(batch.label().unwrap().as_i64().unwrap(), [1, 2, 255]);
    let error = npz(fixture("stored.npz")).select(["cubes"]).open(0, PartPosition::START).map(drop).unwrap_err();
    assert_eq!((error.code(), error.next()), (Code::DataColumn, Some("did you mean \"cube\"?")));
}

#[test]
fn what_cannot_be_read_is_said() {
    let open = |source: &dyn Source| source.open(0, PartPosition::START).map(drop).unwrap_err();
    for (name, said) in
        [("fortran.npy", "Fortran"), ("single.npy", "single value"), ("complex.npy", "its type is not one")]
    {
        let error = open(&npy("x", fixture(name)));
        assert_eq!(error.code(), Code::DataFormat);
        assert!(error.to_string().contains(said), "{error}");
    }
    let error = open(&npy("x", fixture("cube.npy")).column("y", fixture("four.npy")));
    assert!(error.to_string().contains("different numbers of rows"), "{error}");
}

#[test]
fn files_that_are_cut_short_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for name in ["deflated.npz", "cube.npy"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        for length in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..length]).unwrap();
            let source: Box<dyn Source> =
                if name == "cube.npy" { Box::new(npy("x", &path)) } else { Box::new(npz(&path)) };
            let error = first_error(&*source);
            assert_eq!(error.code(), Code::DataFormat, "{name} of {length} bytes: {error}");
        }
    }
}
