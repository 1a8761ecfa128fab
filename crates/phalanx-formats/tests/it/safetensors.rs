//! safetensors files: against bytes of the format's own library, and against bytes of nobody.

use phalanx_base::{Code, Shape};
use phalanx_formats::bundle::Dtype;
use phalanx_formats::safetensors::{SafeTensors, SafeTensorsHeader, SafeTensorsWriter};
use proptest::prelude::*;

/// Made with numpy 2.4.6 and safetensors 0.8.0:
///
/// ```text
/// from safetensors.numpy import save
/// a = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
/// save({"b": a, "a/\u00e9\"": np.array([1, -2], np.int64), "h": np.array([0.5], np.float16), "u": np.array(7, np.uint8),
///       "d": np.array([[0.1]]), "i": np.array([3], np.int32), "none": np.zeros([0, 4], np.float32)}, {"format": "np"})
/// ```
const THEIRS: &[u8] = b"\xb0\x01\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"np\"},\
    \"a/\xc3\xa9\\\"\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},\
    \"d\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[16,24]},\
    \"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[24,48]},\
    \"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[48,48]},\
    \"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[48,52]},\
    \"h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[52,54]},\
    \"u\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[54,55]}}    \
    \x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\x9a\x99\x99\x99\x99\x99\xb9?\
    \0\0\0\0\0\0\x80>\0\0\0?\0\0@?\0\0\x80?\0\0\xa0?\x03\0\0\0\x008\x07";
/// The same library's `save({})`.
const THEIR_NOTHING: &[u8] = b"\x08\0\0\0\0\0\0\0{}      ";

const QUARTERS: [f32; 6] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25];

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

/// A file with this header, followed by `bytes` bytes.
fn file(header: &str, bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; bytes]].concat()
}

fn refusal(header: &str, bytes: usize) -> String {
    let error = SafeTensors::parse(&file(header, bytes)).unwrap_err();
    assert_eq!(error.code(), Code::DataFormat, "{header}");
    assert!(error.next().is_some());
    error.to_string()
}

#[test]
fn reads_what_the_library_writes() {
    let tensors = SafeTensors::parse(THEIRS).unwrap();
    let header = tensors.header();
    assert_eq!(header.metadata().iter().collect::<Vec<_>>(), [(&"format".to_owned(), &"np".to_owned())]);
    let order: Vec<&str> = header.tensors().iter().map(|entry| &*entry.name).collect();
    assert_eq!(order, ["a/é\"", "d", "b", "none", "i", "h", "u"]);
    let b = tensors.get("b").unwrap();
    assert_eq!((b.dtype, b.shape, b.f32s().unwrap()), (Dtype::F32, &shape(&[2, 3]), QUARTERS.to_vec()));
    let whole = tensors.get("a/é\"").unwrap();
    assert_eq!(
        (whole.dtype, whole.bytes),
        (Dtype::I64, [1_i64.to_le_bytes(), (-2_i64).to_le_bytes()].concat().as_slice())
    );
    assert_eq!(tensors.get("d").unwrap().bytes, 0.1_f64.to_le_bytes());
    assert_eq!((tensors.get("h").unwrap().dtype, tensors.get("h").unwrap().bytes), (Dtype::F16, [0, 0x38].as_slice()));
    assert_eq!((tensors.get("u").unwrap().shape, tensors.get("u").unwrap().bytes), (&shape(&[]), [7].as_slice()));
    assert!(tensors.get("none").unwrap().f32s().unwrap().is_empty());
    assert_eq!(tensors.get("i").unwrap().f32s().unwrap_err().code(), Code::ShapeMismatch);
    let error = tensors.get("nome").unwrap_err();
    assert_eq!((error.code(), error.next()), (Code::NoSuchVariable, Some("did you mean \"none\"?")));
    assert!(SafeTensors::parse(THEIR_NOTHING).unwrap().header().tensors().is_empty());
}

#[test]
fn writes_the_bytes_that_the_library_writes() {
    let (whole, double) = ([1_i64, -2].map(i64::to_le_bytes).concat(), 0.1_f64.to_le_bytes());
    let mut writer = SafeTensorsWriter::new();
    writer.add_f32s("none", &shape(&[0, 4]), &[]).unwrap();
    writer.add_f32s("b", &shape(&[2, 3]), &QUARTERS).unwrap();
    writer.add_bytes("a/é\"", Dtype::I64, &shape(&[2]), &whole).unwrap();
    writer.add_bytes("h", Dtype::F16, &shape(&[1]), &[0, 0x38]).unwrap();
    writer.add_bytes("u", Dtype::U8, &shape(&[]), &[7]).unwrap();
    writer.add_bytes("d", Dtype::F64, &shape(&[1, 1]), &double).unwrap();
    writer.add_bytes("i", Dtype::I32, &shape(&[1]), &[3, 0, 0, 0]).unwrap();
    writer.metadata("format", "np");
    assert_eq!(writer.write(Vec::new()).unwrap(), THEIRS);
    assert_eq!(SafeTensorsWriter::new().write(Vec::new()).unwrap(), THEIR_NOTHING);
}

#[test]
fn the_writer_refuses_what_the_format_cannot_say() {
    let mut writer = SafeTensorsWriter::new();
    writer.add_f32s("a", &shape(&[1]), &[1.0]).unwrap();
    assert_eq!(writer.add_f32s("a", &shape(&[1]), &[1.0]).unwrap_err().code(), Code::VariableConflict);
    assert_eq!(writer.add_f32s("__metadata__", &shape(&[]), &[1.0]).unwrap_err().code(), Code::VariableConflict);
    assert_eq!(writer.add_f32s("b", &shape(&[2]), &[1.0]).unwrap_err().code(), Code::ShapeMismatch);
    assert_eq!(writer.add_bytes("s", Dtype::String, &shape(&[]), &[]).unwrap_err().code(), Code::ShapeMismatch);
}

#[test]
fn refuses_headers_that_do_not_fit_the_file() {
    for (bytes, says) in [
        (&b""[..], "0 bytes are not even"),
        (b"\x08\0\0\0\0\0\0", "7 bytes are not even"),
        (b"\x03\0\0\0\0\0\0\0{}", "a header of 3 bytes in a file of 10 bytes"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff{}", "a header of 18446744073709551615 bytes"),
        (b"\0\0\0\0\0\0\0\0", "does not begin with {"),
        (b"\x03\0\0\0\0\0\0\0 {}", "does not begin with {"),
        (b"\x03\0\0\0\0\0\0\0{}x", "trailing characters"),
        (b"\x02\0\0\0\0\0\0\0{}\0", "tensors have 0 bytes, the file has 1"),
        (b"\x02\0\0\0\0\0\0\0{\xff", "its header: "),
    ] {
        let error = SafeTensors::parse(bytes).unwrap_err();
        assert_eq!(error.code(), Code::DataFormat);
        assert!(error.to_string().contains(says), "{error}");
    }
    // What the file is said to have and has not.
    let error = SafeTensorsHeader::read(&mut &THEIRS[..100], 1000).unwrap_err();
    assert!(error.to_string().contains("its header has 92 of 432 bytes"), "{error}");
    assert_eq!(SafeTensorsHeader::read(&mut &THEIRS[..4], 1000).unwrap_err().code(), Code::DataMissing);
}

#[test]
fn refuses_tensors_that_do_not_fit_the_header() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    assert!(SafeTensors::parse(&file(&one("F32", "[1,2]", "[0,8]"), 8)).is_ok());
    for (header, says) in [
        (one("F32", "[1,2]", "[0,7]"), "7 bytes are not F32 numbers of shape [1, 2], which are 8"),
        (one("F32", "[1,2]", "[0,16]"), "bytes 0 to 16 are not in the 8"),
        (one("F32", "[1,2]", "[8,0]"), "bytes 8 to 0 are not in"),
        (one("F32", "[1]", "[4,8]"), "bytes 4 to 8, of 8, follows a hole"),
        (one("F32", "[1]", "[0,4]"), "tensors have 4 bytes, the file has 8"),
        (one("F7", "[1]", "[0,4]"), "unknown type \"F7\""),
        (one("F32", "[9223372036854775807,4]", "[0,8]"), "too large"),
        (one("F32", "[0,9223372036854775807,9]", "[0,0]"), "too large"),
        (one("F32", "[-1]", "[0,8]"), "integer `-1`"),
        (one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "more than 8 dimensions"),
        (one("F32", "[2]", "[0]"), "data_offsets are not two numbers"),
        (one("F32", "[2]", "[0,4,8]"), "data_offsets are not two numbers"),
        (one("F32", "2", "[0,8]"), "a few numbers"),
        (one("F32", "[2.0]", "[0,8]"), "tensor \"t\""),
        (r#"{"t":{"dtype":"F32","shape":[2]}}"#.to_owned(), "missing field `data_offsets`"),
        (r#"{"t":{"shape":[2],"shape":[2]}}"#.to_owned(), "shape comes twice"),
        (r#"{"t":[]}"#.to_owned(), "dtype, shape and data_offsets"),
        (r#"{"__metadata__":{"a":1}}"#.to_owned(), "a text"),
        (r#"{"__metadata__":{"a":"","a":""}}"#.to_owned(), "metadata \"a\" comes twice"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(), "\"__metadata__\" comes twice"),
    ] {
        let found = refusal(&header, 8);
        assert!(found.contains(says), "{header}: {found}");
    }
    let two = |first: &str, second: &str, names: [&str; 2]| {
        let [a, b] = names;
        format!(
            r#"{{"{a}":{{"dtype":"U8","shape":[4],"data_offsets":{first}}},"{b}":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
        )
    };
    assert!(SafeTensors::parse(&file(&two("[4,8]", "[0,4]", ["a", "b"]), 8)).is_ok());
    assert!(refusal(&two("[0,4]", "[2,6]", ["a", "b"]), 6).contains("shares bytes with the one before"));
    assert!(refusal(&two("[0,4]", "[0,4]", ["a", "b"]), 4).contains("shares bytes with the one before"));
    assert!(refusal(&two("[0,4]", "[5,9]", ["a", "b"]), 9).contains("follows a hole"));
    assert!(refusal(&two("[0,4]", "[4,8]", ["a", "a"]), 8).contains("\"a\" comes twice"));
    assert!(refusal(&two("[0,4]", "[4,8]", ["a", "\\u0061"]), 8).contains("\"a\" comes twice"));
    // An error repeats only so much of the file.
    assert!(refusal(&one("F32", &format!("\"{}\"", "x".repeat(100_000)), "[0,8]"), 8).len() < 500);
    // Nested deeper than any stack.
    let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
    assert!(refusal(&format!(r#"{{"t":{{"x":{open}"#), 0).contains("EOF"));
    assert!(refusal(&format!(r#"{{"t":{{"x":{open}{close}}}}}"#), 0).contains("missing field"));
    assert!(refusal(&format!(r#"{{"t":{open}{close}}}"#), 0).contains("dtype, shape and data_offsets"));
}

#[test]
fn keys_that_others_add_are_passed_over() {
    let header = r#"{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"sparse":{"a":[1,{}]}}}"#;
    assert_eq!(SafeTensors::parse(&file(header, 1)).unwrap().get("t").unwrap().bytes, [0]);
}

proptest! {
    /// Never a panic, and what is accepted can be given.
    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = SafeTensors::parse(&bytes);
    }

    #[test]
    fn changed_bytes_are_handled(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6), cut in 0..60_usize) {
        let mut bytes = THEIRS.to_vec();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(THEIRS.len() - cut.saturating_sub(30));
        if let Ok(tensors) = SafeTensors::parse(&bytes) {
            let mut total = 0;
            for entry in tensors.header().tensors() {
                let view = tensors.get(&entry.name).unwrap();
                prop_assert_eq!(view.bytes.len(), entry.shape.elements() * entry.dtype.width().unwrap());
                total += view.bytes.len();
            }
            prop_assert!(total < bytes.len());
        }
    }

    #[test]
    fn any_tensors_come_back(tensors in proptest::collection::btree_map(".{0,12}", (0..5_usize, 0..4_usize, any::<bool>()), 0..8),
        metadata in proptest::collection::btree_map(".{0,6}", ".{0,6}", 0..4))
    {
        let numbers: Vec<f32> = (0..20_u8).map(f32::from).collect();
        let mut writer = SafeTensorsWriter::new();
        for (key, value) in &metadata {
            writer.metadata(key, value);
        }
        for (name, &(rows, columns, wide)) in &tensors {
            let full = shape(&[rows, columns]);
            if wide {
                writer.add_f32s(name, &full, &numbers[..rows * columns]).unwrap();
            } else {
                writer.add_bytes(name, Dtype::U8, &full, &bytemuck::cast_slice(&numbers)[..rows * columns]).unwrap();
            }
        }
        let file = writer.write(Vec::new()).unwrap();
        let read = SafeTensors::parse(&file).unwrap();
        prop_assert_eq!(read.header().metadata(), &metadata);
        prop_assert_eq!(read.header().tensors().len(), tensors.len());
        for (name, &(rows, columns, wide)) in &tensors {
            let view = read.get(name).unwrap();
            prop_assert_eq!(view.shape.dims(), [rows, columns]);
            prop_assert_eq!(view.dtype, if wide { Dtype::F32 } else { Dtype::U8 });
            if wide {
                prop_assert_eq!(view.f32s().unwrap(), &numbers[..rows * columns]);
            }
        }
    }
}
