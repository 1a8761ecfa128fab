//! Our Examples have the bytes of TensorFlow's.

use phalanx_formats::example::ExampleWriter;
use phalanx_formats::record::RecordWriter;

#[test]
fn writes_the_file_that_tensorflow_wrote() {
    let mut writer = RecordWriter::new(Vec::new());
    let mut example = ExampleWriter::new();
    for i in 0..4_u8 {
        let words: Vec<String> = (0..i).map(|j| format!("w{j}")).collect();
        example.clear();
        example.bytes("words", &words).i64s("label", &[-i64::from(i)]);
        example.f32s("point", &[f32::from(i), f32::from(i) + 0.5]);
        writer.write_record(&example.encode()).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), include_bytes!("fixtures/tensorflow.tfrecord"));
}
