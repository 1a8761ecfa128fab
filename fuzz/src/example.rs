//! Examples and SequenceExamples.

use phalanx_base::Result;
use phalanx_formats::example::{
    ExampleColumn, ExampleParser, ExampleWriter, Feature, FeatureKind, FeatureSpec, FeatureValues, SequenceParser,
    SequenceWriter, read_any_example,
};

/// Features of every type and layout, with the keys of the seeds.
fn specs() -> Vec<FeatureSpec> {
    vec![
        FeatureSpec::fixed("f", FeatureKind::F32, 2).with_default(FeatureValues::F32(vec![0.5])),
        FeatureSpec::fixed("i", FeatureKind::I64, 1).with_default(FeatureValues::I64(vec![-1])),
        FeatureSpec::variable("vf", FeatureKind::F32),
        FeatureSpec::variable("vi", FeatureKind::I64),
        FeatureSpec::variable("b", FeatureKind::Bytes),
        FeatureSpec::ragged("r", FeatureKind::I64, 2),
    ]
}

fn lists() -> Vec<FeatureSpec> {
    vec![
        FeatureSpec::fixed("lf", FeatureKind::F32, 2).allow_missing(),
        FeatureSpec::variable("li", FeatureKind::I64),
        FeatureSpec::variable("lb", FeatureKind::Bytes),
        FeatureSpec::ragged("lr", FeatureKind::F32, 2),
    ]
}

pub(crate) fn example(input: &[u8]) -> Result<()> {
    let mut parser = ExampleParser::new(specs())?;
    let first = parser.push(input);
    // A rejected record leaves no trace, and an accepted one gives two equal rows.
    let second = parser.push(input);
    assert_eq!(first.is_ok(), second.is_ok(), "the same record was judged twice differently");
    let batch = parser.finish();
    assert_eq!(batch.rows, if first.is_ok() { 2 } else { 0 });
    for column in &batch.columns {
        let items = column.row_splits.as_ref().map_or(batch.rows, |splits| splits[batch.rows]);
        assert_eq!(column.values.len(), items * column.width, "column {}", column.name);
    }
    if let (true, Ok(whole)) = (first.is_ok(), read_any_example(input)) {
        for column in batch.columns.iter().filter(|column| column.row_splits.is_some()) {
            let found = whole.features.iter().find(|(name, _)| *name == column.name).map(|(_, feature)| feature);
            assert!(agree(column, found.unwrap_or(&Feature::None)), "column {} is not as protobuf has it", column.name);
        }
    }
    first
}

/// Whether the first of a column's two equal rows agrees with protobuf's own decoder.
fn agree(column: &ExampleColumn, found: &Feature) -> bool {
    let half = column.values.len() / 2;
    match (&column.values, found) {
        (values, Feature::None) => values.is_empty(),
        (FeatureValues::F32(values), Feature::F32(found)) => {
            values[..half].iter().map(|value| value.to_bits()).eq(found.iter().map(|value| value.to_bits()))
        }
        (FeatureValues::I64(values), Feature::I64(found)) => values[..half] == found[..],
        (FeatureValues::Bytes(values), Feature::Bytes(found)) => {
            values.iter().take(half).eq(found.iter().map(Vec::as_slice))
        }
        _ => false,
    }
}

pub(crate) fn sequence(input: &[u8]) -> Result<()> {
    let mut parser = SequenceParser::new(specs(), lists())?;
    let first = parser.push(input);
    let second = parser.push(input);
    assert_eq!(first.is_ok(), second.is_ok(), "the same record was judged twice differently");
    let batch = parser.finish();
    for column in &batch.lists {
        let steps = column.row_splits.as_ref().and_then(|splits| splits.last()).copied().unwrap_or_default();
        let items = column.step_splits.as_ref().map_or(steps, |splits| splits[steps]);
        assert_eq!(column.values.len(), items * column.width, "list {}", column.name);
    }
    first
}

pub(crate) fn any_example(input: &[u8]) -> Result<()> {
    read_any_example(input).map(drop)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut full = ExampleWriter::new();
    full.f32s("f", &[1.0, -2.0]).i64s("i", &[-1]).f32s("vf", &[0.5; 5]).i64s("vi", &[1, 300, i64::MIN]);
    full.bytes("b", &["red", "", "a longer one"]).i64s("r", &[1, 2, 3, 4]).bytes("unwanted", &["x"]);
    let mut small = ExampleWriter::new();
    small.i64s("i", &[7]);
    let mut long = ExampleWriter::new();
    long.f32s("vf", &[1.5; 100]).bytes("b", &["0123456789".repeat(30)]);
    // Unpacked numbers, one entry twice, and a value in two parts.
    let unpacked = vec![10, 18, 10, 7, 10, 1, b'i', 18, 4, 26, 2, 8, 5, 10, 7, 10, 1, b'i', 18, 4, 26, 2, 8, 6];
    vec![full.encode(), small.encode(), long.encode(), unpacked, Vec::new()]
}

pub(crate) fn sequence_seeds() -> Vec<Vec<u8>> {
    let mut full = SequenceWriter::new();
    full.context().i64s("i", &[7]).bytes("b", &["user"]);
    full.f32s_list("lf", &[[1.0, 2.0], [3.0, 4.0]]).i64s_list("li", &[vec![1], vec![], vec![2, 3]]);
    full.bytes_list("lb", &[vec!["a", "b"], vec![], vec!["c"]]).f32s_list("lr", &[vec![1.0, 2.0], vec![0.0; 4]]);
    let mut all = seeds();
    all.push(full.encode());
    all.push(SequenceWriter::new().encode());
    all
}
