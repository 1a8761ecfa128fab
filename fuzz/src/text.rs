//! Texts: the file `checkpoint`, TF_CONFIG, slices and addresses.

use crate::Rng;
use crate::mutate::with_words;
use phalanx_base::Result;
use phalanx_cluster::{DistributeConfig, EstimatorConfig, TaskConfig};
use phalanx_formats::bundle::{CheckpointState, TensorSlice};
use phalanx_wire::Address;

fn all(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn state(input: &[u8]) -> Result<()> {
    let state = CheckpointState::parse(input)?;
    let again = CheckpointState::parse(state.to_string().as_bytes()).expect("what was written is read");
    assert_eq!(again.to_string(), state.to_string());
    Ok(())
}

pub(crate) fn state_seeds() -> Vec<Vec<u8>> {
    let mut seeds = all(&[
        "model_checkpoint_path: \"model.ckpt-7\"\nall_model_checkpoint_paths: \"model.ckpt-5\"\n",
        "all_model_checkpoint_timestamps: 1.7e9\nlast_preserved_timestamp: 1.6e9\n",
        "unknown { a: 1 b < c: 'x' > } [some.extension]: 5 list: [1, 2, \"x\"] # comment",
        "model_checkpoint_path: \"\\303\\251\\x41\\u00e9\\n\" 'joined'",
    ]);
    seeds.push(format!("a{}", "{a".repeat(3000)).into_bytes());
    seeds
}

pub(crate) fn mutate_state(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let words = "model_checkpoint_path: all_model_checkpoint_paths: all_model_checkpoint_timestamps: { } < > [ ] \" ' \
        \\ \\x \\u \\U0010ffff \\777 : , ; # \n nan -inf 1e999 last_preserved_timestamp:";
    with_words(rng, input, other, words);
}

pub(crate) fn slice(input: &[u8]) -> Result<()> {
    let slice: TensorSlice = String::from_utf8_lossy(input).parse()?;
    assert_eq!(slice.to_string().parse::<TensorSlice>().expect("what was written is read"), slice);
    Ok(())
}

pub(crate) fn slice_seeds() -> Vec<Vec<u8>> {
    all(&["", "-", "0,5:-", "1,2:3,4:-:-", "18446744073709551615,1"])
}

pub(crate) fn mutate_slice(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    with_words(rng, input, other, "- : , 0,1 18446744073709551615 +1 -1");
}

pub(crate) fn tf_config(input: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(input);
    let readings = EstimatorConfig::read(Some(&text), Some("dir")).map(drop);
    let readings = readings.and(DistributeConfig::read(Some(&text)).map(drop));
    let config = TaskConfig::from_tf_config(Some(&text))?;
    assert!(config.chief().is_none() || !config.tasks().is_empty(), "a chief without tasks");
    assert_eq!(config.job_id(), config.job_id());
    readings
}

pub(crate) fn tf_config_seeds() -> Vec<Vec<u8>> {
    let mut seeds = all(&[
        r#"{"cluster":{"chief":["a:1"],"worker":["b:2","c:3"],"ps":["d:4"],"evaluator":["e:5"]},"task":{"type":"worker","index":1}}"#,
        r#"{"cluster":{"worker":{"0":"a:1","7":"b:2"},"ps":["c:3"]},"task":{"type":"ps","index":"0"},"environment":"cloud"}"#,
        r#"{"cluster":{"master":["h:1"]},"task":{"type":"master","index":0.0},"model_dir":"s3://x","session_master":"","rpc_layer":"grpc"}"#,
        r#"{"task":{"type":"chief"},"service":{"a":[1,null,true,"\u00e9\ud83d\ude00"]},"job":{}}"#,
        "{}",
    ]);
    seeds.push("[".repeat(3000).into_bytes());
    seeds.push([b"{\"cluster\":{\"worker\":{\"9223372036854775807\":\"a:1\"}}}".to_vec()].concat());
    seeds
}

pub(crate) fn mutate_tf_config(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let words = "\"cluster\": \"task\": \"type\": \"index\": \"worker\": \"chief\": \"ps\": \"evaluator\" { } [ ] , : \
        \" \\u \\ud800 null NaN -Infinity 1e999 -1 99999999999999999999 true \"a:1\" [] {} \"job\": \
        \"master\"";
    with_words(rng, input, other, words);
}

pub(crate) fn address(input: &[u8]) -> Result<()> {
    let address: Address = String::from_utf8_lossy(input).parse()?;
    assert_eq!(address.listen_on().port(), address.port());
    let again: Address = address.to_string().parse().expect("what was written is read");
    assert_eq!(again.to_string(), address.to_string());
    Ok(())
}

pub(crate) fn address_seeds() -> Vec<Vec<u8>> {
    all(&["localhost:2222", "10.0.0.1:80", "[::1]:65535", "host.example:1", "a:0", ":1", "[::1%lo]:2"])
}

pub(crate) fn mutate_address(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    with_words(rng, input, other, ": [ ] :: 65536 0 . % localhost 127.0.0.1 é");
}
