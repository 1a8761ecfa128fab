//! Orders of elements beside those of tf.data 2.15; `fixtures/make.py` wrote them.

use crate::common::{Op, all, apply, nested};
use phalanx_data::Dataset;
use serde_json::Value;

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

fn size(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn sizes(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(size).collect()
}

fn op(stage: &[Value]) -> Op {
    let flag = |index: usize| stage[index].as_bool().unwrap();
    match stage[0].as_str().unwrap() {
        "map" => Op::Map,
        "filter" => Op::Filter(number(&stage[1])),
        "repeat" => Op::Repeat(size(&stage[1]) as u64),
        "batch" => Op::Batch(size(&stage[1]), flag(2)),
        "fill" => Op::Fill,
        "padded_batch" => Op::PaddedBatch(
            size(&stage[1]),
            stage[2].as_u64().map(|extent| extent as usize),
            stage[3].as_i64(),
            flag(4),
        ),
        "unbatch" => Op::Unbatch,
        "rebatch" => Op::Rebatch(sizes(&stage[1])),
        "take" => Op::Take(size(&stage[1]) as u64),
        "skip" => Op::Skip(size(&stage[1]) as u64),
        "shard" => Op::Shard(size(&stage[1]), size(&stage[2])),
        "cache" => Op::Cache,
        "prefetch" => Op::Prefetch(size(&stage[1])),
        "enumerate" => Op::Enumerate(number(&stage[1])),
        "flat_map" => Op::FlatMap(sizes(&stage[1])),
        "interleave" => Op::Interleave(sizes(&stage[1]), size(&stage[2]), size(&stage[3]), size(&stage[4])),
        "concatenate" => Op::Concatenate(number(&stage[1]), number(&stage[2])),
        "zip" => Op::Zip(number(&stage[1]), number(&stage[2])),
        other => panic!("the fixture has a stage {other:?} that this test does not know"),
    }
}

fn build(stages: &[Value]) -> Dataset {
    let stage = |index: usize| stages[index].as_array().unwrap();
    let range = stage(0);
    let start = Dataset::range(number(&range[1]), number(&range[2]), number(&range[3]));
    (1..stages.len()).fold(start, |data, index| apply(data, &op(stage(index))))
}

#[test]
fn elements_come_in_the_order_of_tensorflow() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../fixtures/orders.json")).unwrap();
    assert!(cases.len() > 150);
    let (mut compared, mut errors) = (0, 0);
    for case in &cases {
        let data = build(case["stages"].as_array().unwrap());
        let got = all(&data);
        match (&case["elements"], got) {
            (Value::Array(want), Ok(got)) => {
                let got: Vec<Value> = got.iter().map(|element| nested(element, data.is_batched())).collect();
                assert_eq!(&got, want, "{}", case["stages"]);
                compared += 1;
            }
            (Value::Null, Err(_)) => errors += 1,
            (want, got) => panic!("{}: TensorFlow {want} {}, we {got:?}", case["stages"], case["error"]),
        }
    }
    assert!(compared > 140 && errors >= 7, "{compared} orders, {errors} errors");
}
