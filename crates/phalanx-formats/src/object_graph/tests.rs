use super::*;
use crate::bundle::{BundleReader, BundleWriter};
use phalanx_base::{Result, Shape};
use proptest::prelude::*;

/// The graph that TensorFlow 2.15.1 saved with this, as hexadecimal digits:
///
/// ```text
/// model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), name="dense_2")])
/// prefix = tf.train.Checkpoint(model=model).save("ck")
/// tf.train.load_checkpoint(prefix).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH").hex()
/// ```
const THEIRS: &str = "\
    0a210a09080112056d6f64656c0a100802120c736176655f636f756e7465722a0208010a2b0a18080312146c617965725f776974685f\
    776569676874732d300a0b080312076c617965722d302a0208010a4d12470a0e5641524941424c455f56414c5545120c736176655f63\
    6f756e7465721a27736176655f636f756e7465722f2e415454524942555445532f5641524941424c455f56414c55452a0208010a1a0a\
    0a080412066b65726e656c0a0808051204626961732a0208010a64125e0a0e5641524941424c455f56414c5545120e64656e73655f32\
    2f6b65726e656c1a3c6d6f64656c2f6c617965725f776974685f776569676874732d302f6b65726e656c2f2e41545452494255544553\
    2f5641524941424c455f56414c55452a0208010a60125a0a0e5641524941424c455f56414c5545120c64656e73655f322f626961731a\
    3a6d6f64656c2f6c617965725f776974685f776569676874732d302f626961732f2e415454524942555445532f5641524941424c455f\
    56414c55452a020801";

fn theirs() -> Vec<u8> {
    THEIRS
        .as_bytes()
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn reader(weights: &KerasWeights<'_>) -> BundleReader<Vec<Vec<u8>>> {
    let (data, index) = weights.write(Vec::new()).unwrap();
    BundleReader::new(index, vec![data]).unwrap()
}

/// What is read of a checkpoint that has this graph and one tensor `key` of one number.
fn read(nodes: Vec<ObjectNode>) -> Result<Vec<KerasWeight>> {
    let mut bundle = BundleWriter::new(Vec::new());
    bundle.add_f32s("key", &Shape::new([])?, &[1.0])?;
    bundle.add_strings(OBJECT_GRAPH_KEY, &Shape::new([])?, [ObjectGraph::new(nodes)?.encode()])?;
    let (data, index) = bundle.finish()?;
    read_keras_weights(&BundleReader::new(index, vec![data])?)
}

fn object(children: &[(&str, usize)], key: &str) -> ObjectNode {
    let children = children.iter().map(|&(name, node)| Child { name: name.to_owned(), node }).collect();
    let attributes = if key.is_empty() { Vec::new() } else { vec![Attribute::variable("v", key)] };
    ObjectNode { children, attributes, ..ObjectNode::default() }
}

#[test]
fn tensorflows_graph_comes_back_byte_for_byte() {
    let graph = ObjectGraph::decode(&theirs()).unwrap();
    assert_eq!(graph.nodes().len(), 6);
    assert_eq!(
        (graph.child(0, "model"), graph.child(0, "save_counter"), graph.child(0, "none")),
        (Some(1), Some(2), None)
    );
    let kernel = &graph.nodes()[4].attributes[0];
    assert_eq!(
        *kernel,
        Attribute::variable("dense_2/kernel", "model/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    );
    assert!(graph.nodes().iter().all(|node| node.has_values == Some(true)));
    assert_eq!(graph.encode(), theirs());
}

#[test]
fn we_make_the_graph_that_tensorflow_makes() {
    let (two, one) = (Shape::new([2, 1]).unwrap(), Shape::new([1]).unwrap());
    let layer = KerasLayer::new("dense_2").weight("kernel", &two, &[0.0; 2]).weight("bias", &one, &[0.0]);
    let ours = reader(&KerasWeights::new([layer]).under("model").save_counter(1));
    let ours = ObjectGraph::read(&ours).unwrap();
    let theirs = ObjectGraph::decode(&theirs()).unwrap();
    // The same objects; TensorFlow numbers them as it finds them.
    let sorted = |graph: &ObjectGraph| {
        let mut nodes: Vec<String> = graph
            .nodes()
            .iter()
            .map(|node| {
                let names: Vec<&str> = node.children.iter().map(|child| &*child.name).collect();
                format!("{names:?} {:?} {:?}", node.attributes, node.has_values)
            })
            .collect();
        nodes.sort();
        nodes
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
}

#[test]
fn nested_parts_and_layers_without_weights_come_back() {
    let (two, one) = (Shape::new([2]).unwrap(), Shape::new([1]).unwrap());
    let layers = vec![
        KerasLayer::new("input_1"),
        KerasLayer::new("lstm").weight("cell/kernel", &two, &[1.0, 2.0]).weight("cell/bias", &one, &[3.0]),
        KerasLayer::new("dropout"),
        KerasLayer::new("bn").weight("moving_mean", &one, &[4.0]),
    ];
    for weights in [KerasWeights::new(layers.clone()), KerasWeights::new(layers).under("net").save_counter(7)] {
        let checkpoint = reader(&weights);
        checkpoint.verify().unwrap();
        let found: Vec<_> = read_keras_weights(&checkpoint).unwrap();
        let found: Vec<_> =
            found.iter().map(|w| (w.layer, &*w.attribute, &*w.name, w.tensor.f32s().unwrap())).collect();
        assert_eq!(
            found,
            [
                (1, "cell/kernel", "lstm/cell/kernel", vec![1.0, 2.0]),
                (1, "cell/bias", "lstm/cell/bias", vec![3.0]),
                (3, "moving_mean", "bn/moving_mean", vec![4.0]),
            ]
        );
    }
}

#[test]
fn the_writer_refuses_weights_that_cannot_be_told_apart() {
    let one = Shape::new([1]).unwrap();
    let layer = |a: &str, b: &str| KerasLayer::new("x").weight(a, &one, &[1.0]).weight(b, &one, &[1.0]);
    for (layer, code) in [
        (layer("kernel", "kernel"), Code::VariableConflict),
        (layer("kernel", ""), Code::BadSetting),
        (layer("kernel", "a//b"), Code::BadSetting),
        (KerasLayer::new("x").weight("kernel", &one, &[1.0, 2.0]), Code::ShapeMismatch),
    ] {
        assert_eq!(KerasWeights::new([layer]).write(Vec::new()).unwrap_err().code(), code);
    }
}

#[test]
fn checkpoints_without_a_model_say_so() {
    let (data, index) = BundleWriter::new(Vec::new()).finish().unwrap();
    let error = read_keras_weights(&BundleReader::new(index, vec![data]).unwrap()).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointMismatch);
    assert!(error.next().unwrap().contains("by name"));
    let error = read(vec![object(&[("step", 1)], ""), object(&[], "key")]).unwrap_err();
    assert!(error.to_string().contains("no Keras model"), "{error}");
    let model = || object(&[("layer-0", 3)], "");
    let two = vec![object(&[("a", 1), ("b", 2)], ""), model(), model(), object(&[], "")];
    let error = read(two).unwrap_err();
    assert!(error.to_string().contains("more than one Keras model: a, b"), "{error}");
    let same = vec![
        object(&[("a", 1), ("x", 2), ("b", 1)], ""),
        object(&[("layer-0", 2)], ""),
        object(&[("v", 3)], ""),
        object(&[], "key"),
    ];
    assert_eq!(read(same).unwrap()[0].attribute, "v");
}

#[test]
fn hostile_graphs_end() {
    // Circles, and a way back to the model.
    let circle = vec![
        object(&[("layer-0", 1), ("root", 0)], ""),
        object(&[("model", 0), ("self", 1), ("v", 2)], ""),
        object(&[("layer", 1)], "key"),
    ];
    assert_eq!(read(circle).unwrap().len(), 1);
    // One tensor asked for often.
    let often =
        vec![object(&[("layer-0", 1)], ""), object(&[("a", 2), ("b", 3)], ""), object(&[], "key"), object(&[], "key")];
    assert!(read(often).unwrap_err().to_string().contains("two variables have the tensor \"key\""));
    // Deeper than any stack.
    let mut deep: Vec<ObjectNode> = (1..100_000).map(|next| object(&[("a", next)], "")).collect();
    deep[0].children[0].name = "layer-0".to_owned();
    deep.push(object(&[], "key"));
    assert!(read(deep).unwrap_err().to_string().contains("more than 1024 bytes"));
    let missing = vec![object(&[("layer-0", 1)], ""), object(&[], "kex")];
    assert_eq!(read(missing).unwrap_err().code(), Code::NoSuchVariable);
    assert!(ObjectGraph::new(Vec::new()).is_err());
    assert!(ObjectGraph::new(vec![object(&[("a", 1)], "")]).is_err());
    let slot = SlotVariable { name: "m".to_owned(), variable: 0, slot: 9 };
    assert!(ObjectGraph::new(vec![ObjectNode { slots: vec![slot], ..ObjectNode::default() }]).is_err());
    assert!(ObjectGraph::decode(&[0x0a, 0].repeat((1 << 20) + 1)).is_err());
    // An object with the number -1, as protobuf writes it.
    assert!(ObjectGraph::decode(b"\x0a\x0d\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").is_err());
}

prop_compose! {
    fn nodes()(count in 1..6_usize)(nodes in proptest::collection::vec((
        proptest::collection::vec((".{0,5}", 0..count), 0..4),
        proptest::collection::vec([".{0,5}", ".{0,5}", ".{0,5}"], 0..3),
        proptest::collection::vec((".{0,5}", 0..count, 0..count), 0..3),
        proptest::option::of([".{0,5}", ".{0,5}"]),
        proptest::option::of(any::<bool>()),
    ), count)) -> Vec<ObjectNode> {
        nodes.into_iter().map(|(children, attributes, slots, saver, has_values)| ObjectNode {
            children: children.into_iter().map(|(name, node)| Child { name, node }).collect(),
            attributes: attributes.into_iter().map(|[name, full_name, key]| Attribute { name, full_name, key }).collect(),
            slots: slots.into_iter().map(|(name, variable, slot)| SlotVariable { name, variable, slot }).collect(),
            saver: saver.map(|[name, object]| Saver { name, object }),
            has_values,
        }).collect()
    }
}

proptest! {
    #[test]
    fn any_graph_comes_back(nodes in nodes()) {
        let graph = ObjectGraph::new(nodes).unwrap();
        prop_assert_eq!(ObjectGraph::decode(&graph.encode()).unwrap(), graph);
    }

    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..100),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6))
    {
        let _ = ObjectGraph::decode(&bytes);
        let mut changed = theirs();
        for (at, byte) in changes {
            let at = usize::from(at) % changed.len();
            changed[at] = byte;
        }
        if let Ok(graph) = ObjectGraph::decode(&changed) {
            let _ = read(graph.nodes().to_vec());
        }
    }
}
