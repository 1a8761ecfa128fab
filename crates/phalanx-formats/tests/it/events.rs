//! Event files of TensorFlow 1 and TensorFlow 2 say the same through our reader.

use phalanx_formats::event::{EventPayload, EventReader, SessionStatus, SummaryData, SummaryValue, buckets};

fn read(file: &[u8]) -> (Vec<EventPayload>, Vec<(i64, SummaryValue)>) {
    let (mut others, mut values) = (Vec::new(), Vec::new());
    let mut reader = EventReader::new(file);
    while let Some(event) = reader.next_event().unwrap() {
        match event.what {
            EventPayload::Summary(found) => values.extend(found.into_iter().map(|value| (event.stamp.step, value))),
            other => others.push(other),
        }
    }
    (others, values)
}

/// `numpy.linspace(-1, 2, 31, dtype=float32)`.
fn data() -> Vec<f32> {
    (0..31).map(|i| (-1.0 + 3.0 * f64::from(i) / 30.0) as f32).collect()
}

fn count(value: &SummaryData) -> f64 {
    let SummaryData::Histogram(buckets) = value else { panic!("{value:?} is no histogram") };
    buckets.iter().map(|bucket| bucket.count).sum()
}

#[test]
fn reads_tensorflow_2() {
    let (others, values) = read(include_bytes!("../fixtures/tensorflow2.tfevents"));
    assert_eq!(others, [EventPayload::FileVersion("brain.Event:2".to_owned())]);
    let tags: Vec<_> = values.iter().map(|(step, v)| (*step, v.tag.as_str(), v.plugin.as_str())).collect();
    let expected = [
        (3, "loss", "scalars"),
        (4, "loss", "scalars"),
        (4, "w", "histograms"),
        (4, "note", "text"),
        (4, "digit", "images"),
    ];
    assert_eq!(tags, expected);
    assert_eq!(values[0].1.value, SummaryData::Scalar(0.5));
    assert_eq!(values[1].1.value, SummaryData::Scalar(0.25));
    assert_eq!(values[3].1.value, SummaryData::Text(vec!["*so*".to_owned()]));
    let SummaryData::Images { width: 3, height: 2, encoded } = &values[4].1.value else { panic!("{:?}", values[4]) };
    assert!(encoded[0].starts_with(b"\x89PNG"));

    let SummaryData::Histogram(theirs) = &values[2].1.value else { panic!("{:?}", values[2]) };
    let ours = buckets(&data());
    assert_eq!(count(&values[2].1.value), 31.0);
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours.left - theirs.left).abs() < 1e-12 && (ours.right - theirs.right).abs() < 1e-12);
        assert_eq!(ours.count, theirs.count);
    }
}

#[test]
fn reads_tensorflow_1() {
    let (others, values) = read(include_bytes!("../fixtures/tensorflow1.tfevents"));
    assert!(others.contains(&EventPayload::Session(SessionStatus::Start)));
    assert!(others.contains(&EventPayload::Session(SessionStatus::Checkpoint("/m/model.ckpt-3".to_owned()))));
    assert_eq!(values[0].1.value, SummaryData::Scalar(0.5));
    assert_eq!(count(&values[1].1.value), 31.0);
    let SummaryData::Histogram(buckets) = &values[1].1.value else { panic!("{:?}", values[1]) };
    assert_eq!((buckets[0].left, buckets[buckets.len() - 1].right), (-1.0, 2.0));
    assert!(matches!(&values[2].1.value, SummaryData::Images { width: 3, height: 2, .. }));
}
