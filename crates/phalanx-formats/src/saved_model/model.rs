//! A graph with its signatures, and the message that they become.

use super::proto::{self, AssetFile, Collection, Graph, MetaGraph, TensorInfo, collection, graph, meta_graph};
use super::{GraphBuilder, Signature, VariableSpec, attr};
use crate::bundle::Dtype;
use phalanx_base::{Code, Error, Result};
use prost::Message;
use std::collections::BTreeMap;

/// The version of TensorFlow whose graphs these are: it decides what an op's missing attributes mean.
const TENSORFLOW: &str = "2.15.1";
const PRODUCER: i32 = 1645;
/// TensorFlow reads no message that is larger.
const MAX_MESSAGE: usize = i32::MAX as usize;

/// A model to be served: a graph, what can be asked of it, and the variables and files that it needs.
///
/// The example is at the [module](super).
#[derive(Debug)]
pub struct SavedModel {
    graph: GraphBuilder,
    signatures: BTreeMap<String, Signature>,
}

impl SavedModel {
    /// A model that nothing can be asked yet.
    #[must_use]
    pub fn new(graph: GraphBuilder) -> Self {
        Self { graph, signatures: BTreeMap::new() }
    }

    /// Adds a signature; [`DEFAULT_SIGNATURE`](super::DEFAULT_SIGNATURE) is the one that is used when none is asked for.
    #[must_use]
    pub fn signature(mut self, name: &str, signature: Signature) -> Self {
        self.signatures.insert(name.to_owned(), signature);
        self
    }

    /// The variables, in the order in which the graph has them.
    pub fn variables(&self) -> impl Iterator<Item = &VariableSpec> {
        self.graph.variables.iter().map(|variable| &variable.spec)
    }

    /// The names of the files that the graph needs.
    pub fn assets(&self) -> impl Iterator<Item = &str> {
        self.graph.assets.keys().map(String::as_str)
    }

    /// The bytes of `saved_model.pb`.
    ///
    /// # Errors
    /// The first fault of the graph or of a signature, or that the model is too large for TensorFlow.
    pub(super) fn encode(mut self) -> Result<Vec<u8>> {
        self.graph.check()?;
        if self.signatures.is_empty() {
            return Err(Error::new(Code::BadSetting, "the model has no signature")
                .help("add one, as SavedModel::signature(DEFAULT_SIGNATURE, ...)"));
        }
        let mut signatures = BTreeMap::new();
        for (name, signature) in &self.signatures {
            let message = signature.to_proto(&self.graph).map_err(|error| error.at(format!("signature {name:?}")))?;
            signatures.insert(name.clone(), message);
        }
        let saver_def = self.graph.add_saver();
        let collection_def = collections(&mut self.graph);
        let asset_file_def = assets(&self.graph);
        // The nodes that were added last could have met a fault too.
        self.graph.check()?;
        let meta = meta_graph::MetaInfo {
            tags: vec!["serve".to_owned()],
            tensorflow_version: TENSORFLOW.to_owned(),
            stripped_default_attrs: true,
        };
        let versions = graph::Versions { producer: PRODUCER, min_consumer: 0 };
        let meta_graph = MetaGraph {
            meta_info_def: Some(meta),
            graph_def: Some(Graph { node: self.graph.nodes, versions: Some(versions) }),
            saver_def,
            collection_def,
            signature_def: signatures,
            asset_file_def,
        };
        let model = proto::SavedModel { saved_model_schema_version: 1, meta_graphs: vec![meta_graph] };
        let size = model.encoded_len();
        if size > MAX_MESSAGE {
            return Err(Error::new(Code::BadSetting, format!("the model's graph has {size} bytes"))
                .because(format!("TensorFlow reads at most {MAX_MESSAGE}"))
                .help("make large constants variables"));
        }
        Ok(model.encode_to_vec())
    }
}

fn collections(graph: &mut GraphBuilder) -> BTreeMap<String, Collection> {
    let mut collections = BTreeMap::new();
    for (name, all) in [("variables", true), ("trainable_variables", false)] {
        let wanted = graph.variables.iter().filter(|variable| all || variable.trainable);
        let value: Vec<Vec<u8>> = wanted.map(|variable| graph.variable_def(variable).encode_to_vec()).collect();
        if !value.is_empty() {
            let kind = Some(collection::Kind::BytesList(collection::BytesList { value }));
            collections.insert(name.to_owned(), Collection { kind });
        }
    }
    if !graph.initializers.is_empty() {
        let nodes = std::mem::take(&mut graph.initializers);
        let init = nodes.into_iter().fold(graph.make("NoOp"), |init, node| init.after(node)).add_as("init_all_tables");
        let value = graph.nodes.get(init).map(|node| node.name.clone()).into_iter().collect();
        let kind = Some(collection::Kind::NodeList(collection::NodeList { value }));
        collections.insert("saved_model_main_op".to_owned(), Collection { kind });
    }
    collections
}

fn assets(graph: &GraphBuilder) -> Vec<AssetFile> {
    let files = graph.assets.iter().map(|(file, &at)| AssetFile {
        tensor_info: Some(TensorInfo {
            name: graph.tensor_name(at).unwrap_or_default(),
            dtype: Dtype::String.number(),
            tensor_shape: Some(attr::known(&[])),
        }),
        filename: file.clone(),
    });
    files.collect()
}
