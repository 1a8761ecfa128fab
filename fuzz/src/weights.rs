//! Weights: safetensors files, the object graphs of TensorFlow's checkpoints, the graphs of SavedModels.

use crate::Rng;
use crate::mutate::{bytes, with_words};
use phalanx_base::{Result, Shape};
use phalanx_formats::object_graph::{Attribute, Child, ObjectGraph, ObjectNode};
use phalanx_formats::safetensors::{SafeTensors, SafeTensorsWriter};
use phalanx_formats::saved_model::{
    DEFAULT_SIGNATURE, GraphBuilder, SavedModel, SavedModelWriter, Signature, VariableSpec, graph_variables,
};
use std::collections::BTreeMap;

pub(crate) fn safetensors(input: &[u8]) -> Result<()> {
    let file = SafeTensors::parse(input)?;
    for entry in file.header().tensors() {
        let tensor = file.get(&entry.name)?;
        // Fails for other types than floats, which is fine.
        let _ = tensor.f32s();
    }
    Ok(())
}

pub(crate) fn safetensors_seeds() -> Vec<Vec<u8>> {
    let shape = Shape::new(vec![2, 3]).expect("a shape");
    let mut writer = SafeTensorsWriter::new();
    writer.metadata("format", "pt");
    writer.add_f32s("dense/kernel", &shape, &[0.5; 6]).expect("fits");
    writer.add_f32s("dense/bias", &Shape::new(vec![0]).expect("a shape"), &[]).expect("fits");
    let whole = writer.write(Vec::new()).expect("written to memory");
    let text = |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    vec![
        whole,
        text("{}"),
        text(r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#),
        text(&"[".repeat(3000)),
        u64::MAX.to_le_bytes().to_vec(),
    ]
}

pub(crate) fn mutate_safetensors(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let words = "\"dtype\": \"shape\": \"data_offsets\": \"__metadata__\": \"F32\" \"BF16\" [ ] { } , 0 -1 1e99 \
        18446744073709551615 \\ud800";
    with_words(rng, input, other, words);
    // Often correct the length of the header.
    if !rng.one_in(4) && input.len() > 8 {
        let length = (input.len() as u64 - 8).min(200);
        input[..8].copy_from_slice(&length.to_le_bytes());
    }
    if rng.one_in(4) {
        bytes(rng, input, other);
    }
}

pub(crate) fn object_graph(input: &[u8]) -> Result<()> {
    let graph = ObjectGraph::decode(input)?;
    let again = ObjectGraph::decode(&graph.encode()).expect("what was written is read");
    assert_eq!(again.nodes(), graph.nodes());
    Ok(())
}

pub(crate) fn object_graph_seeds() -> Vec<Vec<u8>> {
    let variable = Attribute {
        name: "VARIABLE_VALUE".into(),
        full_name: "dense/kernel".into(),
        key: "layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE".into(),
    };
    let root = ObjectNode { children: vec![Child { node: 1, name: "layer-0".into() }], ..ObjectNode::default() };
    let leaf = ObjectNode { attributes: vec![variable], ..ObjectNode::default() };
    vec![ObjectGraph::new(vec![root, leaf]).expect("a graph").encode(), Vec::new()]
}

/// The graph of a SavedModel.
pub(crate) fn saved_model(input: &[u8]) -> Result<()> {
    let found = graph_variables(input)?;
    assert!(found.iter().all(|variable| variable.shape.dims().len() < input.len()), "dims out of nothing");
    Ok(())
}

pub(crate) fn saved_model_seeds() -> Vec<Vec<u8>> {
    let mut graph = GraphBuilder::new();
    let x = graph.placeholder::<f32>("x", &[None, Some(2)]);
    let kernel = graph.variable("kernel", &Shape::new([2, 3]).expect("a shape"));
    let bias = graph.variable("bias", &Shape::new([3]).expect("a shape"));
    let y = graph.dense(x, kernel, Some(bias));
    let signature = Signature::predict().input("x", x).output_of("y", y, &[None, Some(3)]);
    let model = SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature);
    let zeros = |variable: &VariableSpec| Ok(vec![0.0_f32; variable.shape.elements()].into());
    let mut files = SavedModelWriter::new(BTreeMap::new()).write(model, zeros).expect("a model");
    vec![files.remove("saved_model.pb").expect("its graph"), Vec::new()]
}
