use super::*;
use crate::bundle::{BundleReader, Dtype};
use phalanx_base::{Code, Error, Result, Shape};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

type Files = BTreeMap<String, Vec<u8>>;

fn zeros(variable: &VariableSpec) -> Result<VariableValues<'static>> {
    let count = variable.shape.elements();
    Ok(if variable.dtype == Dtype::I64 { vec![7_i64; count].into() } else { vec![0.25_f32; count].into() })
}

fn written(model: SavedModel) -> Result<Files> {
    SavedModelWriter::new(Files::new()).write(model, zeros)
}

fn meta(files: &Files) -> proto::MetaGraph {
    let model = proto::SavedModel::decode(&*files["saved_model.pb"]).unwrap();
    assert_eq!((model.saved_model_schema_version, model.meta_graphs.len()), (1, 1));
    model.meta_graphs.into_iter().next().unwrap()
}

/// A model with one of most things.
fn model() -> SavedModel {
    let mut graph = GraphBuilder::new();
    let serialized = graph.placeholder::<Text>("examples", &[None]);
    let mut features = ExampleFeatures::new();
    let zero = graph.constant(&[2], &[0.0_f32, 0.0]);
    let point = features.optional("point", &[2], zero);
    let word = features.sparse::<Text>("word");
    let parsed = graph.parse_example(serialized, &features);
    let (keys, values) = (graph.texts(&[1], &["a"]), graph.constant(&[1], &[0_i64]));
    let table = graph.table(keys, values);
    let word = parsed.sparse(word);
    let ids = graph.lookup_or_hash(table, word.values, 1, 4);
    let words = graph.variable("words", &Shape::new([5, 2]).unwrap());
    let words = graph.embedding_bag(words, word.with_values(ids), Combiner::Mean);
    let sum = graph.add(words, parsed.dense(point));
    graph.untrained_variable::<i64>("global_step", &Shape::new([]).unwrap());
    let signature = Signature::predict().input("examples", serialized).output("sum", sum);
    SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature)
}

/// The fault of a graph that is otherwise sound.
fn fault(build: impl FnOnce(&mut GraphBuilder)) -> Error {
    let mut graph = GraphBuilder::new();
    let x = graph.placeholder::<f32>("x", &[None]);
    build(&mut graph);
    let y = graph.relu(x);
    let signature = Signature::predict().input("x", x).output("y", y);
    let mut files = Files::new();
    let model = SavedModel::new(graph).signature("s", signature);
    let error = SavedModelWriter::new(&mut files).write(model, zeros).unwrap_err();
    assert!(files.is_empty(), "nothing is written of a model with a fault");
    error
}

#[test]
fn every_input_is_an_output_of_an_earlier_node_and_names_are_unique() {
    let files = written(model()).unwrap();
    let graph = meta(&files).graph_def.unwrap();
    let mut names = BTreeSet::new();
    for node in &graph.node {
        for input in &node.input {
            let name = input.trim_start_matches('^').split(':').next().unwrap();
            assert!(names.contains(name), "{} of {}", input, node.name);
        }
        assert!(names.insert(node.name.clone()), "{} comes twice", node.name);
    }
    assert_eq!(graph.versions.unwrap().producer, 1645);
}

#[test]
fn the_saver_the_collections_and_the_checkpoint_know_the_same_variables() {
    let files = written(model()).unwrap();
    let meta = meta(&files);
    assert_eq!(meta.meta_info_def.unwrap().tags, ["serve"]);
    let saver = meta.saver_def.unwrap();
    assert_eq!(
        [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name],
        ["save/Const:0", "save/control_dependency:0", "save/restore_all"]
    );
    let collection = |name: &str| match meta.collection_def[name].kind.clone().unwrap() {
        proto::collection::Kind::BytesList(list) => {
            let names = list.value.iter().map(|bytes| proto::Variable::decode(&**bytes).unwrap().variable_name);
            names.collect()
        }
        proto::collection::Kind::NodeList(list) => list.value,
    };
    assert_eq!(collection("variables"), ["words:0", "global_step:0"]);
    assert_eq!(collection("trainable_variables"), ["words:0"]);
    assert_eq!(collection("saved_model_main_op"), ["init_all_tables"]);
    let data = files["variables/variables.data-00000-of-00001"].clone();
    let bundle = BundleReader::open(&files["variables/variables.index"], vec![data]).unwrap();
    assert_eq!(bundle.read("global_step").unwrap().i64s().unwrap(), [7]);
    assert_eq!(bundle.read("words").unwrap().f32s().unwrap(), [0.25; 10]);
    assert_eq!(bundle.index().tensors().len(), 2);
}

#[test]
fn the_same_model_is_the_same_bytes() {
    assert_eq!(written(model()).unwrap(), written(model()).unwrap());
}

#[test]
fn a_model_without_variables_has_no_checkpoint() {
    let mut graph = GraphBuilder::new();
    let x = graph.placeholder::<f32>("x", &[None, Some(3)]);
    let y = graph.softmax(x);
    let signature = Signature::predict().input("x", x).output_of("y", y, &[None, Some(3)]);
    let files = written(SavedModel::new(graph).signature("s", signature)).unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["saved_model.pb"]);
    let meta = meta(&files);
    assert!(meta.saver_def.is_none() && meta.collection_def.is_empty());
    let signature = &meta.signature_def["s"];
    assert_eq!(signature.method_name, "tensorflow/serving/predict");
    let sizes = |info: &proto::TensorInfo| -> Vec<i64> {
        info.tensor_shape.as_ref().unwrap().dim.iter().map(|dim| dim.size).collect()
    };
    assert_eq!((&*signature.inputs["x"].name, sizes(&signature.inputs["x"])), ("x:0", vec![-1, 3]));
    assert_eq!((&*signature.outputs["y"].name, sizes(&signature.outputs["y"])), ("Softmax:0", vec![-1, 3]));
}

#[test]
fn nodes_are_named_after_what_they_do_and_where() {
    let mut graph = GraphBuilder::new();
    let x = graph.placeholder::<f32>("x", &[]);
    let mut names = Vec::new();
    let mut note = |graph: &GraphBuilder, y: Output<f32>| names.push(graph.reference(y.at).unwrap());
    for _ in 0..2 {
        let y = graph.relu(x);
        note(&graph, y);
        let y = graph.scope("tower", |graph| graph.scope("inner", |graph| graph.relu(x)));
        note(&graph, y);
    }
    let y = graph.named("Relu_2", x);
    note(&graph, y);
    let y = graph.relu(x);
    note(&graph, y);
    assert_eq!(names, ["Relu", "tower/inner/Relu", "Relu_1", "tower_1/inner/Relu", "Relu_2", "Relu_3"]);
    assert!(graph.check().is_ok());
}

#[test]
fn faults_of_the_graph_come_out_when_it_is_written() {
    let conflict = fault(|graph| {
        graph.placeholder::<i64>("x", &[]);
    });
    assert_eq!((conflict.code(), conflict.what()), (Code::VariableConflict, "the graph has two nodes \"x\""));
    let one = Shape::new([1]).unwrap();
    let conflict = fault(|graph| {
        graph.variable::<f32>("v", &one);
        graph.variable::<f32>("v", &one);
    });
    assert_eq!(conflict.code(), Code::VariableConflict);
    for name in ["", "_v", "a b", "/a", "é", "a:0"] {
        let error = fault(|graph| {
            graph.variable::<f32>(name, &one);
        });
        assert_eq!(error.code(), Code::BadSetting, "{name}");
        fault(|graph| graph.scope(name, |_| {}));
    }
    let few = fault(|graph| {
        graph.constant(&[2, 2], &[1.0_f32]);
    });
    assert_eq!((few.code(), few.what()), (Code::ShapeMismatch, "1 values for a constant of shape [2, 2]"));
    assert_eq!(
        fault(|graph| {
            graph.texts(&[usize::MAX, 2], &["a"]);
        })
        .code(),
        Code::ShapeMismatch
    );
    let foreign = fault(|graph| {
        let mut other = GraphBuilder::new();
        let names: Vec<_> = (0..9).map(|i| other.placeholder::<f32>(&format!("p{i}"), &[])).collect();
        graph.exp(names[8]);
    });
    assert!(foreign.what().contains("an input of Exp is a tensor of another graph"), "{foreign}");
    for file in ["", "..", "a/b", "a\\b"] {
        assert_eq!(
            fault(|graph| {
                graph.asset(file);
            })
            .code(),
            Code::BadSetting
        );
    }
    // The first of several is told.
    let first = fault(|graph| {
        graph.constant(&[1], &[1_i64, 2]);
        graph.variable::<f32>("x", &one);
    });
    assert_eq!(first.code(), Code::ShapeMismatch);
}

#[test]
fn examples_have_three_types_of_features_and_no_name_twice() {
    let parse = |features: &ExampleFeatures| {
        fault(|graph| {
            let serialized = graph.placeholder("s", &[None]);
            graph.parse_example(serialized, features);
        })
    };
    let mut features = ExampleFeatures::new();
    features.required::<i32>("a", &[]);
    assert!(parse(&features).what().contains("feature \"a\" cannot be of type int32"));
    let mut features = ExampleFeatures::new();
    features.required::<i64>("a", &[]);
    features.sparse::<i64>("a");
    assert!(parse(&features).what().contains("feature \"a\" comes twice"));
}

#[test]
fn signatures_are_what_their_method_wants() {
    let mut graph = GraphBuilder::new();
    let text = graph.placeholder::<Text>("text", &[None]);
    let number = graph.placeholder::<f32>("number", &[None]);
    let check = |signature: &Signature| signature.to_proto(&graph).map(|found| found.method_name);
    let classify = || Signature::classify().input("inputs", text);
    let regress = || Signature::regress().input("inputs", text);
    assert_eq!(check(&classify().output("scores", number)).unwrap(), "tensorflow/serving/classify");
    assert_eq!(
        check(&classify().output("classes", text).output("scores", number)).unwrap(),
        "tensorflow/serving/classify"
    );
    assert_eq!(check(&regress().output("outputs", number)).unwrap(), "tensorflow/serving/regress");
    for wrong in [
        Signature::predict().input("x", number),
        Signature::predict().output("x", number),
        Signature::classify().input("examples", text).output("scores", number),
        Signature::classify().input("inputs", number).output("scores", number),
        classify().input("more", text).output("scores", number),
        classify().output("classes", number),
        classify().output("scores", text),
        classify().output("logits", number),
        regress().output("outputs", text),
        regress().output("scores", number),
    ] {
        assert_eq!(check(&wrong).unwrap_err().code(), Code::BadSetting, "{wrong:?}");
    }
    let nothing = written(SavedModel::new(GraphBuilder::new())).unwrap_err();
    assert_eq!(nothing.what(), "the model has no signature");
}

#[test]
fn values_must_fit_their_variables() {
    let write = |values: VariableValues<'static>| {
        let mut graph = GraphBuilder::new();
        let x = graph.placeholder::<f32>("x", &[Some(2)]);
        let w = graph.variable("w", &Shape::new([2]).unwrap());
        let y = graph.mul(x, w);
        let model = SavedModel::new(graph).signature("s", Signature::predict().input("x", x).output("y", y));
        SavedModelWriter::new(Files::new()).write(model, |_| Ok(values.clone()))
    };
    assert!(write(vec![1.0_f32, 2.0].into()).is_ok());
    assert_eq!(write(VariableValues::Bytes(vec![0; 8].into())).unwrap(), write(vec![0.0_f32; 2].into()).unwrap());
    for wrong in [vec![1.0_f32].into(), vec![1_i64, 2].into(), VariableValues::Bytes(vec![0; 7].into())] {
        assert_eq!(write(wrong).unwrap_err().code(), Code::ShapeMismatch);
    }
}

#[test]
fn assets_are_written_once_and_must_be_there() {
    let model = || {
        let mut graph = GraphBuilder::new();
        let words = graph.placeholder("words", &[None]);
        let (file, again) = (graph.asset("v.txt"), graph.asset("v.txt"));
        assert_eq!(file.at, again.at);
        let table = graph.vocabulary_table(file);
        let missing = graph.scalar(-1);
        let ids = graph.lookup(table, words, missing);
        SavedModel::new(graph).signature("s", Signature::predict().input("words", words).output("ids", ids))
    };
    let error = written(model()).unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::DataMissing, "the model's asset \"v.txt\" is missing"));
    let mut writer = SavedModelWriter::new(Files::new());
    writer.asset("v.txt", &b"a\nb\n"[..]).unwrap();
    let files = writer.write(model(), zeros).unwrap();
    assert_eq!(files["assets/v.txt"], b"a\nb\n");
    let assets = meta(&files).asset_file_def;
    assert_eq!((assets.len(), &*assets[0].filename), (1, "v.txt"));
}

/// A folder on a disk that is full after this many bytes.
struct Full(usize);

impl Write for &mut Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Directory for Full {
    type File<'a> = &'a mut Full;

    fn create(&mut self, _: &str) -> Result<&mut Full> {
        Ok(self)
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_comes() {
    let total: usize = written(model()).unwrap().values().map(Vec::len).sum();
    let write = |room| SavedModelWriter::new(Full(room)).write(model(), zeros).map(drop);
    assert!(write(total).is_ok());
    for room in (0..total).step_by(7) {
        let error = write(room).unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error}");
    }
    assert!(SavedModelWriter::new(Full(2)).asset("a", &b"abc"[..]).is_err());
}
