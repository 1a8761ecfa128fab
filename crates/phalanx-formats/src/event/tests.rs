use super::*;
use crate::record::RecordWriter;
use proptest::prelude::*;
use prost::Message;

fn at(step: i64) -> EventTime {
    EventTime { wall_time: 1_700_000_000.25 + step as f64, step }
}

fn read(file: &[u8]) -> phalanx_base::Result<Vec<Event>> {
    let mut reader = EventReader::new(file);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok(events)
}

fn values(events: &[Event]) -> Vec<(&str, &str, SummaryData)> {
    let summaries = events
        .iter()
        .filter_map(|event| if let EventPayload::Summary(values) = &event.what { Some(values) } else { None });
    summaries.flatten().map(|v| (v.tag.as_str(), v.plugin.as_str(), v.value.clone())).collect()
}

/// A file of one event as TensorFlow 1 writes it.
fn old(value: proto::summary::value::Value) -> Vec<u8> {
    let value = proto::summary::Value { tag: "t".to_owned(), metadata: None, value: Some(value) };
    let what = proto::event::What::Summary(proto::Summary { value: vec![value] });
    let event = proto::Event { wall_time: 1.0, step: 2, what: Some(what) };
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(&event.encode_to_vec()).unwrap();
    writer.finish().unwrap()
}

#[test]
fn reads_back_every_kind() {
    let mut writer = EventWriter::new(Vec::new(), 1.5).unwrap();
    writer.session_log(at(0), &SessionStatus::Start).unwrap();
    writer.scalar(at(1), "loss", 0.5).unwrap();
    writer.scalar(at(2), "loss", 0.25).unwrap();
    writer.histogram(at(2), "weights", &[0.0, 1.0, 3.0, f32::NAN]).unwrap();
    writer.text(at(2), "note", "*so*").unwrap();
    writer.image(at(2), "digit", b"png", 28, 14).unwrap();
    writer.session_log(at(3), &SessionStatus::Checkpoint("/m/model.ckpt-3".to_owned())).unwrap();
    writer.session_log(at(4), &SessionStatus::Stop).unwrap();
    let events = read(&writer.finish().unwrap()).unwrap();

    assert_eq!(events[0].what, EventPayload::FileVersion("brain.Event:2".to_owned()));
    assert_eq!(events[0].stamp.wall_time, 1.5);
    assert_eq!(events[1].what, EventPayload::Session(SessionStatus::Start));
    assert_eq!(events[3].stamp, at(2));
    assert_eq!(events[7].what, EventPayload::Session(SessionStatus::Checkpoint("/m/model.ckpt-3".to_owned())));
    let values = values(&events);
    assert_eq!(values[0], ("loss", "scalars", SummaryData::Scalar(0.5)));
    assert_eq!(values[1], ("loss", "scalars", SummaryData::Scalar(0.25)), "its plugin is known from the first");
    assert_eq!(values[2], ("weights", "histograms", SummaryData::Histogram(buckets(&[0.0, 1.0, 3.0]))));
    assert_eq!(values[3], ("note", "text", SummaryData::Text(vec!["*so*".to_owned()])));
    let image = SummaryData::Images { width: 28, height: 14, encoded: vec![b"png".to_vec()] };
    assert_eq!(values[4], ("digit", "images", image));
}

#[test]
fn reads_what_tensorflow_1_wrote() {
    use proto::summary::value::Value as Wire;
    assert_eq!(values(&read(&old(Wire::SimpleValue(0.5))).unwrap()), [("t", "scalars", SummaryData::Scalar(0.5))]);
    let histogram = proto::Histogram {
        min: -1.0,
        max: 7.0,
        num: 4.0,
        bucket_limit: vec![-2.0, 0.0, 5.0, f64::MAX, f64::MAX],
        bucket: vec![0.0, 1.0, 0.0, 3.0, 0.0],
        ..proto::Histogram::default()
    };
    let bucket = |left, right, count| Bucket { left, right, count };
    let expected = vec![bucket(-1.0, 0.0, 1.0), bucket(0.0, 5.0, 0.0), bucket(5.0, 7.0, 3.0)];
    let events = read(&old(Wire::Histo(histogram))).unwrap();
    assert_eq!(values(&events), [("t", "histograms", SummaryData::Histogram(expected))]);
    let image = proto::Image { height: 2, width: 3, colorspace: 1, encoded_image_string: b"x".to_vec() };
    let expected = SummaryData::Images { width: 3, height: 2, encoded: vec![b"x".to_vec()] };
    assert_eq!(values(&read(&old(Wire::Image(image))).unwrap()), [("t", "images", expected)]);
}

#[test]
fn a_tag_stays_what_it_is() {
    let mut writer = EventWriter::new(Vec::new(), 0.0).unwrap();
    writer.scalar(at(1), "x", 1.0).unwrap();
    let error = writer.text(at(1), "x", "one").unwrap_err();
    assert_eq!(error.to_string(), r#"summary "x" cannot go to text: it goes to scalars"#);
}

#[test]
fn buckets_at_their_edges() {
    assert_eq!(buckets(&[]).len(), BUCKETS);
    assert!(buckets(&[f32::INFINITY, f32::NAN]).iter().all(|bucket| bucket.count == 0.0));
    let same = buckets(&[2.5; 4]);
    assert!(same.iter().all(|bucket| bucket.left == 2.5 && bucket.right == 2.5));
    assert_eq!((same[28].count, same[29].count), (0.0, 4.0));
    assert_eq!(buckets(&[f32::MIN, f32::MAX, 0.0])[15].count, 1.0);
}

proptest! {
    #[test]
    fn every_finite_value_has_its_bucket(values in proptest::collection::vec(any::<f32>(), 0..100)) {
        let finite = values.iter().filter(|value| value.is_finite()).count();
        let buckets = buckets(&values);
        prop_assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<f64>(), finite as f64);
        prop_assert!(buckets.windows(2).all(|pair| pair[0].right == pair[1].left && pair[0].left <= pair[0].right));
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut writer = RecordWriter::new(Vec::new());
        writer.write_record(&bytes).unwrap();
        let _ = read(&writer.finish().unwrap());
    }

    /// Tensors whose shape, type and contents do not fit each other.
    #[test]
    fn never_panics_on_a_tensor(
        dtype in 0..10_i32,
        dims in proptest::collection::vec(prop_oneof![-1..4_i64, any::<i64>()], 0..3),
        content in proptest::collection::vec(any::<u8>(), 0..30),
        strings in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..4),
        which in 0..4_usize,
    ) {
        let dim = dims.into_iter().map(|size| proto::tensor::Dim { size, name: String::new() }).collect();
        let shape = Some(proto::tensor::Shape { dim, unknown_rank: false });
        let tensor = proto::Tensor {
            dtype, tensor_shape: shape, tensor_content: content, string_val: strings, ..proto::Tensor::default()
        };
        let plugin_name = ["scalars", "histograms", "text", "images"][which].to_owned();
        let plugin = Some(proto::summary_metadata::PluginData { plugin_name, content: Vec::new() });
        let metadata = Some(proto::SummaryMetadata { plugin_data: plugin, ..proto::SummaryMetadata::default() });
        let value = Some(proto::summary::value::Value::Tensor(tensor));
        let value = proto::summary::Value { tag: String::new(), metadata, value };
        let what = Some(proto::event::What::Summary(proto::Summary { value: vec![value] }));
        let mut writer = RecordWriter::new(Vec::new());
        writer.write_record(&proto::Event { wall_time: 0.0, step: 0, what }.encode_to_vec()).unwrap();
        let _ = read(&writer.finish().unwrap());
    }
}
