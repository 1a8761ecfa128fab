//! The inputs of a graph: serialized Examples, or one tensor per feature.

use super::not_in_a_graph;
use crate::columns::{FeatureColumn, make_parse_example_spec};
use phalanx_base::Result;
use phalanx_data::{FeatureKind, FeatureSpec, FeatureValues};
use phalanx_formats::example::FeatureLayout;
use phalanx_formats::saved_model::{
    AnyOutput, DenseFeature, Element, ExampleFeatures, GraphBuilder, Number, Output, Parsed, Sparse, Text,
};
use std::collections::BTreeMap;

/// A feature in a graph, with a fixed or any number of values per row.
#[derive(Clone, Copy, Debug)]
pub(super) enum GraphFeature {
    Floats(Output<f32>),
    Integers(Output<i64>),
    Texts {
        /// Without empty texts, which mark missing values.
        present: Sparse<Text>,
        /// With empty texts, for crosses.
        all: Sparse<Text>,
    },
    SparseIntegers(Sparse<i64>),
    SparseFloats(Sparse<f32>),
}

/// A text that no feature contains.
const NEVER: &str = "\u{0}\u{1}none";

/// The features that columns read, as tensors of a graph.
///
/// ```
/// use phalanx_feature::{GraphInputs, numeric_column};
/// use phalanx_formats::saved_model::GraphBuilder;
/// let (mut graph, age) = (GraphBuilder::new(), numeric_column("age"));
/// let inputs = GraphInputs::examples(&mut graph, &[age.clone()])?;
/// let age = inputs.dense(&mut graph, &age)?;
/// assert_eq!(inputs.placeholders().len(), 1);
/// # let _ = age;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct GraphInputs {
    fed: BTreeMap<String, GraphFeature>,
    placeholders: Vec<(String, AnyOutput)>,
}

/// Takes a requested feature from the parsed ones.
type FeatureRequest = Box<dyn FnOnce(&Parsed) -> GraphFeature>;

impl GraphInputs {
    /// Returns the features of serialized `tf.train.Example`s, as in Estimator's parsing input receiver.
    ///
    /// # Errors
    /// If the columns conflict, or a graph cannot express one of them.
    pub fn examples(graph: &mut GraphBuilder, columns: &[FeatureColumn]) -> Result<Self> {
        let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
        let mut features = ExampleFeatures::new();
        let mut requests = Vec::new();
        for spec in make_parse_example_spec(columns)? {
            requests.push((spec.name.clone(), request(graph, &mut features, &spec)?));
        }
        let mut fed = BTreeMap::new();
        if !requests.is_empty() {
            let parsed = graph.parse_example(serialized, &features);
            fed.extend(requests.into_iter().map(|(name, feature)| (name, feature(&parsed))));
        }
        Ok(Self { fed, placeholders: vec![("examples".to_owned(), serialized.into())] })
    }

    /// Returns one tensor `[rows, values]` per feature. In a feature with any number of values, empty texts, -1 and weights
    /// of 0 mark missing values.
    ///
    /// # Errors
    /// As [`Self::examples`].
    pub fn raw(graph: &mut GraphBuilder, columns: &[FeatureColumn]) -> Result<Self> {
        let (mut fed, mut placeholders) = (BTreeMap::new(), Vec::new());
        for spec in make_parse_example_spec(columns)? {
            let name = spec.name.clone();
            let (feature, placeholder) = match (spec.layout, spec.kind) {
                (FeatureLayout::Fixed(length), FeatureKind::F32) => {
                    let x = graph.placeholder::<f32>(&name, &[None, Some(length)]);
                    (GraphFeature::Floats(x), x.into())
                }
                (FeatureLayout::Fixed(length), FeatureKind::I64) => {
                    let x = graph.placeholder::<i64>(&name, &[None, Some(length)]);
                    (GraphFeature::Integers(x), x.into())
                }
                (FeatureLayout::Variable, FeatureKind::Bytes) => {
                    let (missing, never) = (graph.text(""), graph.text(NEVER));
                    let x = graph.placeholder::<Text>(&name, &[None, None]);
                    let (present, all) = (graph.to_sparse(x, missing), graph.to_sparse(x, never));
                    (GraphFeature::Texts { present, all }, x.into())
                }
                (FeatureLayout::Variable, FeatureKind::I64) => {
                    let missing = graph.scalar(-1_i64);
                    let (sparse, placeholder) = any_number(graph, &name, missing);
                    (GraphFeature::SparseIntegers(sparse), placeholder)
                }
                (FeatureLayout::Variable, FeatureKind::F32) => {
                    let missing = graph.scalar(0.0_f32);
                    let (sparse, placeholder) = any_number(graph, &name, missing);
                    (GraphFeature::SparseFloats(sparse), placeholder)
                }
                _ => return Err(not_in_a_graph(&name, "no column reads such a feature")),
            };
            fed.insert(name.clone(), feature);
            placeholders.push((name, placeholder));
        }
        Ok(Self { fed, placeholders })
    }

    /// Returns the placeholders of the graph, by name.
    #[must_use]
    pub fn placeholders(&self) -> &[(String, AnyOutput)] {
        &self.placeholders
    }

    pub(super) fn fed(&self, key: &str) -> Result<GraphFeature> {
        self.fed.get(key).copied().ok_or_else(|| not_in_a_graph(key, "the graph was made for other columns"))
    }
}

fn any_number<T: Element>(graph: &mut GraphBuilder, name: &str, missing: Output<T>) -> (Sparse<T>, AnyOutput) {
    let x = graph.placeholder::<T>(name, &[None, None]);
    (graph.to_sparse(x, missing), x.into())
}

fn request(graph: &mut GraphBuilder, features: &mut ExampleFeatures, spec: &FeatureSpec) -> Result<FeatureRequest> {
    let name = spec.name.as_str();
    Ok(match (spec.layout, spec.kind) {
        (FeatureLayout::Fixed(length), FeatureKind::F32) => {
            let default = match &spec.default {
                Some(FeatureValues::F32(values)) => Some(filled(graph, values, length)),
                _ => None,
            };
            let feature = fixed(features, name, length, default);
            Box::new(move |parsed: &Parsed| GraphFeature::Floats(parsed.dense(feature)))
        }
        (FeatureLayout::Fixed(length), FeatureKind::I64) => {
            let default = match &spec.default {
                Some(FeatureValues::I64(values)) => Some(filled(graph, values, length)),
                _ => None,
            };
            let feature = fixed(features, name, length, default);
            Box::new(move |parsed: &Parsed| GraphFeature::Integers(parsed.dense(feature)))
        }
        (FeatureLayout::Variable, FeatureKind::Bytes) => {
            let feature = features.sparse(name);
            Box::new(move |parsed: &Parsed| {
                let texts = parsed.sparse(feature);
                GraphFeature::Texts { present: texts, all: texts }
            })
        }
        (FeatureLayout::Variable, FeatureKind::I64) => {
            let feature = features.sparse(name);
            Box::new(move |parsed: &Parsed| GraphFeature::SparseIntegers(parsed.sparse(feature)))
        }
        (FeatureLayout::Variable, FeatureKind::F32) => {
            let feature = features.sparse(name);
            Box::new(move |parsed: &Parsed| GraphFeature::SparseFloats(parsed.sparse(feature)))
        }
        _ => return Err(not_in_a_graph(name, "no column reads such a feature")),
    })
}

/// The default of every value of a feature; a single one is repeated.
fn filled<T: Number>(graph: &mut GraphBuilder, values: &[T], length: usize) -> Output<T> {
    match values {
        &[value] => graph.constant(&[length], &vec![value; length]),
        values => graph.constant(&[length], values),
    }
}

fn fixed<T: Element>(
    features: &mut ExampleFeatures,
    name: &str,
    length: usize,
    default: Option<Output<T>>,
) -> DenseFeature<T> {
    match default {
        Some(default) => features.optional(name, &[length], default),
        None => features.required(name, &[length]),
    }
}
