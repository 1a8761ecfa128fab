use super::*;
use crate::wire::{put_bytes, put_varint};
use proptest::prelude::*;

fn parse(specs: Vec<FeatureSpec>, examples: &[Vec<u8>]) -> phalanx_base::Result<ExampleBatch> {
    let mut parser = ExampleParser::new(specs)?;
    for example in examples {
        parser.push(example)?;
    }
    Ok(parser.finish())
}

fn refusal(spec: FeatureSpec, example: &ExampleWriter) -> String {
    parse(vec![spec], &[example.encode()]).unwrap_err().to_string()
}

/// An Example of one entry per pair, in this order, without sorting or merging.
fn raw(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut features, mut example) = (Vec::new(), Vec::new());
    for (key, feature) in entries {
        let mut entry = Vec::new();
        put_bytes(1, key.as_bytes(), &mut entry);
        put_bytes(2, feature, &mut entry);
        put_bytes(1, &entry, &mut features);
    }
    put_bytes(1, &features, &mut example);
    example
}

fn ints(values: &[i64]) -> Vec<u8> {
    writer::feature_of_i64s(values)
}

fn floats(values: &[f32]) -> Vec<u8> {
    writer::feature_of_f32s(values)
}

#[test]
fn makes_columns_of_every_layout() {
    let mut examples = Vec::new();
    for i in 0..3_usize {
        let mut example = ExampleWriter::new();
        example.f32s("point", &[i as f32, 0.5]).i64s("ids", &vec![i as i64; i]).bytes("pairs", &vec![b"x"; 2 * i]);
        if i == 1 {
            example.i64s("label", &[-7]);
        }
        examples.push(example.encode());
    }
    let specs = vec![
        FeatureSpec::fixed("point", FeatureKind::F32, 2),
        FeatureSpec::fixed("label", FeatureKind::I64, 1).with_default(FeatureValues::I64(vec![9])),
        FeatureSpec::variable("ids", FeatureKind::I64),
        FeatureSpec::ragged("pairs", FeatureKind::Bytes, 2),
        FeatureSpec::variable("absent", FeatureKind::F32),
    ];
    let batch = parse(specs, &examples).unwrap();
    assert_eq!(batch.rows, 3);
    assert_eq!(batch.columns[0].values.as_f32().unwrap(), [0.0, 0.5, 1.0, 0.5, 2.0, 0.5]);
    assert_eq!((batch.columns[0].width, &batch.columns[0].row_splits), (2, &None));
    assert_eq!(batch.columns[1].values.as_i64().unwrap(), [9, -7, 9]);
    assert_eq!(batch.columns[2].values.as_i64().unwrap(), [1, 2, 2]);
    assert_eq!(batch.columns[2].row_splits.as_deref(), Some(&[0, 0, 1, 3][..]));
    assert_eq!(batch.columns[3].row_splits.as_deref(), Some(&[0, 0, 1, 3][..]));
    assert_eq!(batch.columns[3].values.len(), 6);
    assert_eq!(batch.columns[4].row_splits.as_deref(), Some(&[0, 0, 0, 0][..]));
}

#[test]
fn refuses_what_tensorflow_refuses() {
    let mut example = ExampleWriter::new();
    example.f32s("x", &[1.0, 2.0]);
    let missing = refusal(FeatureSpec::fixed("y", FeatureKind::F32, 1), &example);
    assert_eq!(missing, r#"feature "y" (float) is missing (example 0)"#);
    let kind = refusal(FeatureSpec::variable("x", FeatureKind::I64), &example);
    assert_eq!(kind, r#"feature "x" is float, not int64 (example 0)"#);
    let length = refusal(FeatureSpec::fixed("x", FeatureKind::F32, 3), &example);
    assert_eq!(length, r#"feature "x" has 2 values, not 3 (example 0)"#);
    let inner = refusal(FeatureSpec::ragged("x", FeatureKind::F32, 3), &example);
    assert_eq!(inner, r#"feature "x" has 2 values, not a multiple of 3 (example 0)"#);
    // A list that is there but empty is not missing.
    let empty = FeatureSpec::fixed("x", FeatureKind::F32, 1).with_default(FeatureValues::F32(vec![0.0]));
    assert!(refusal(empty, ExampleWriter::new().f32s("x", &[])).contains("has 0 values"));
}

#[test]
fn a_feature_without_a_list_is_missing() {
    let record = raw(&[("x", Vec::new())]);
    let spec = FeatureSpec::fixed("x", FeatureKind::I64, 2).with_default(FeatureValues::I64(vec![4]));
    assert_eq!(parse(vec![spec], &[record]).unwrap().columns[0].values, FeatureValues::I64(vec![4, 4]));
}

#[test]
fn specifications_are_checked() {
    let twice = vec![FeatureSpec::variable("x", FeatureKind::I64), FeatureSpec::fixed("x", FeatureKind::I64, 1)];
    assert!(ExampleParser::new(twice).unwrap_err().to_string().contains("twice"));
    let default =
        |spec: FeatureSpec| ExampleParser::new(vec![spec.with_default(FeatureValues::I64(vec![1, 2]))]).is_err();
    assert!(default(FeatureSpec::fixed("x", FeatureKind::I64, 3)));
    assert!(default(FeatureSpec::fixed("x", FeatureKind::F32, 2)));
    assert!(default(FeatureSpec::variable("x", FeatureKind::I64)));
    assert!(ExampleParser::new(vec![FeatureSpec::ragged("x", FeatureKind::I64, 0)]).is_err());
}

#[test]
fn the_last_of_two_keys_counts() {
    let spec = || vec![FeatureSpec::variable("x", FeatureKind::I64)];
    let column = |entries: &[(&str, Vec<u8>)]| parse(spec(), &[raw(entries)]).unwrap().columns[0].values.clone();
    assert_eq!(column(&[("x", ints(&[1, 2])), ("y", ints(&[5])), ("x", ints(&[3]))]), FeatureValues::I64(vec![3]));
    // Even where the first one is of another type.
    assert_eq!(column(&[("x", floats(&[1.0])), ("x", ints(&[3]))]), FeatureValues::I64(vec![3]));
    assert!(parse(spec(), &[raw(&[("x", ints(&[3])), ("x", floats(&[1.0]))])]).is_err());
}

#[test]
fn the_last_of_two_kinds_counts_and_one_kind_merges() {
    let spec = || vec![FeatureSpec::variable("x", FeatureKind::I64)];
    let column =
        |feature: Vec<Vec<u8>>| parse(spec(), &[raw(&[("x", feature.concat())])]).map(|b| b.columns[0].values.clone());
    assert_eq!(column(vec![ints(&[1]), ints(&[2])]).unwrap(), FeatureValues::I64(vec![1, 2]));
    assert_eq!(column(vec![ints(&[1]), floats(&[0.5]), ints(&[2])]).unwrap(), FeatureValues::I64(vec![2]));
    assert!(column(vec![ints(&[1]), floats(&[0.5])]).is_err());
}

#[test]
fn a_refused_record_leaves_no_trace() {
    let specs = vec![FeatureSpec::variable("a", FeatureKind::I64), FeatureSpec::fixed("b", FeatureKind::F32, 1)];
    let good = raw(&[("a", ints(&[1, 2])), ("b", floats(&[0.5]))]);
    let mut parser = ExampleParser::new(specs).unwrap();
    parser.push(&good).unwrap();
    parser.push(&raw(&[("a", ints(&[9])), ("b", floats(&[]))])).unwrap_err();
    parser.push(&raw(&[("a", ints(&[9]))])).unwrap_err();
    parser.push(&good[..good.len() - 1]).unwrap_err();
    parser.push(&good).unwrap();
    let batch = parser.finish();
    assert_eq!(batch.rows, 2);
    assert_eq!(batch.columns[0].values.as_i64().unwrap(), [1, 2, 1, 2]);
    assert_eq!(batch.columns[0].row_splits.as_deref(), Some(&[0, 2, 4][..]));
    assert_eq!(parser.finish().columns[0].row_splits.as_deref(), Some(&[0][..]), "a batch starts empty");
}

#[test]
fn sequences_keep_their_steps() {
    let mut first = SequenceWriter::new();
    first.context().i64s("user", &[7]);
    first.f32s_list("point", &[[1.0, 2.0], [3.0, 4.0]]).i64s_list("ids", &[vec![1], vec![], vec![2, 3]]);
    let mut second = SequenceWriter::new();
    second.context().i64s("user", &[8]);
    second.f32s_list("point", &[[5.0, 6.0]]);
    let specs =
        || vec![FeatureSpec::fixed("point", FeatureKind::F32, 2), FeatureSpec::variable("ids", FeatureKind::I64)];
    let mut parser = SequenceParser::new(vec![FeatureSpec::fixed("user", FeatureKind::I64, 1)], specs()).unwrap();
    parser.push(&first.encode()).unwrap();
    parser.push(&SequenceWriter::new().encode()).unwrap_err();
    parser.push(&second.encode()).unwrap();
    let batch = parser.finish();
    assert_eq!((batch.rows, batch.context[0].values.as_i64().unwrap()), (2, &[7, 8][..]));
    assert_eq!(batch.lists[0].values.as_f32().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(batch.lists[0].row_splits.as_deref(), Some(&[0, 2, 3][..]));
    assert_eq!(batch.lists[1].row_splits.as_deref(), Some(&[0, 3, 3][..]));
    assert_eq!(batch.lists[1].step_splits.as_deref(), Some(&[0, 1, 1, 3][..]));

    let lists = vec![FeatureSpec::fixed("none", FeatureKind::F32, 2).allow_missing()];
    let mut parser = SequenceParser::new(Vec::new(), lists).unwrap();
    parser.push(&first.encode()).unwrap();
    assert_eq!(parser.finish().lists[0].row_splits.as_deref(), Some(&[0, 0][..]));
    let mut parser = SequenceParser::new(Vec::new(), vec![FeatureSpec::fixed("point", FeatureKind::F32, 3)]).unwrap();
    let error = parser.push(&first.encode()).unwrap_err().to_string();
    assert_eq!(error, r#"feature list "point" has 2 values, not 3 (example 0)"#);
}

#[test]
fn nested_groups_end_somewhere() {
    let deep: Vec<u8> = std::iter::repeat_n(0x0b, 100_000).collect();
    assert!(parse(Vec::new(), &[deep]).unwrap_err().to_string().contains("too deep"));
    let group = [0x13, 0x08, 0x01, 0x14];
    assert_eq!(parse(Vec::new(), &[group.to_vec()]).unwrap().rows, 1);
}

/// Features with names that meet the wanted ones often.
fn features() -> impl Strategy<Value = Vec<(String, Feature)>> {
    let values = prop_oneof![
        proptest::collection::vec(any::<f32>().prop_filter("no NaN", |x| !x.is_nan()), 0..5).prop_map(Feature::F32),
        proptest::collection::vec(any::<i64>(), 0..5).prop_map(Feature::I64),
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..4).prop_map(Feature::Bytes),
    ];
    proptest::collection::vec(("[abc]{1,2}", values), 0..8)
}

/// One feature as another writer might make it: numbers unpacked, unknown fields between.
fn odd(feature: &Feature) -> Vec<u8> {
    let (mut list, mut out) = (Vec::new(), Vec::new());
    let number = match feature {
        Feature::F32(values) => {
            for value in values {
                list.push(0x0d);
                list.extend(value.to_le_bytes());
            }
            2
        }
        Feature::I64(values) => {
            for &value in values {
                put_varint(8, &mut list);
                put_varint(value as u64, &mut list);
            }
            3
        }
        Feature::Bytes(values) => {
            values.iter().for_each(|value| put_bytes(1, value, &mut list));
            1
        }
        Feature::None => return out,
    };
    put_bytes(9, b"unknown", &mut out);
    put_bytes(number, &list, &mut out);
    out
}

fn column_of(values: &FeatureValues) -> Feature {
    match values {
        FeatureValues::F32(values) => Feature::F32(values.clone()),
        FeatureValues::I64(values) => Feature::I64(values.clone()),
        FeatureValues::Bytes(values) => Feature::Bytes(values.iter().map(<[u8]>::to_vec).collect()),
    }
}

proptest! {
    /// Our parser, prost, and what was written say the same; duplicates included.
    #[test]
    fn agrees_with_prost(features in features()) {
        let entries: Vec<_> = features.iter().map(|(name, feature)| (name.as_str(), odd(feature))).collect();
        let mut writer = ExampleWriter::new();
        for (name, feature) in &features {
            match feature {
                Feature::F32(values) => writer.f32s(name, values),
                Feature::I64(values) => writer.i64s(name, values),
                Feature::Bytes(values) => writer.bytes(name, values),
                Feature::None => &mut writer,
            };
        }
        for record in [raw(&entries), writer.encode()] {
            let whole = read_any_example(&record).unwrap();
            for (name, feature) in &whole.features {
                let last = features.iter().rfind(|(other, _)| other == name);
                prop_assert_eq!(&last.unwrap().1, feature);
                let spec = FeatureSpec::variable(name, feature.kind().unwrap());
                let batch = parse(vec![spec], &[record.clone(), record.clone()]).unwrap();
                let splits = [0, feature.len(), 2 * feature.len()];
                prop_assert_eq!(batch.columns[0].row_splits.as_deref(), Some(&splits[..]));
                let spec = FeatureSpec::fixed(name, feature.kind().unwrap(), feature.len());
                let batch = parse(vec![spec], std::slice::from_ref(&record)).unwrap();
                prop_assert_eq!(&column_of(&batch.columns[0].values), feature);
            }
        }
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        everything(&bytes);
    }

    /// A valid record with a few bytes changed: reaches deeper than noise.
    #[test]
    fn never_panics_on_damage(
        features in features(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let entries: Vec<_> = features.iter().map(|(name, feature)| (name.as_str(), odd(feature))).collect();
        let mut record = raw(&entries);
        for (at, byte) in changes {
            let at = at.index(record.len());
            record[at] = byte;
        }
        everything(&record);
        everything(&record[..end.index(record.len())]);
    }
}

fn everything(bytes: &[u8]) {
    let specs = || {
        vec![
            FeatureSpec::fixed("a", FeatureKind::F32, 1).with_default(FeatureValues::F32(vec![0.0])),
            FeatureSpec::variable("b", FeatureKind::Bytes),
            FeatureSpec::ragged("c", FeatureKind::I64, 2),
            FeatureSpec::variable("", FeatureKind::I64),
        ]
    };
    let _ = parse(specs(), &[bytes.to_vec()]);
    let _ = read_any_example(bytes);
    if let Ok(mut parser) = SequenceParser::new(specs(), vec![FeatureSpec::variable("a", FeatureKind::Bytes)]) {
        let _ = parser.push(bytes);
        parser.finish();
    }
}
