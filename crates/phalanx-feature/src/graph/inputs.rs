//! What a graph is fed with: serialized Examples, or a tensor for each feature.

use super::not_in_a_graph;
use crate::columns::{FeatureColumn, make_parse_example_spec};
use phalanx_base::Result;
use phalanx_data::{FeatureKind, FeatureSpec, FeatureValues};
use phalanx_formats::example::Layout;
use phalanx_formats::saved_model::{
    AnyOutput, DenseFeature, Element, ExampleFeatures, GraphBuilder, Number, Output, Parsed, Sparse, SparseFeature,
    Text,
};
use std::collections::BTreeMap;

/// One feature in a graph: so many values for each row, or any number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fed {
    Floats(Output<f32>),
    Integers(Output<i64>),
    Texts {
        /// Without empty texts, where those stand for nothing.
        present: Sparse<Text>,
        /// With them: a cross takes them as they are.
        all: Sparse<Text>,
    },
    SparseIntegers(Sparse<i64>),
    SparseFloats(Sparse<f32>),
}

/// A text that no feature has.
const NEVER: &str = "\u{0}\u{1}none";

/// The features that columns read, in a graph.
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
    fed: BTreeMap<String, Fed>,
    placeholders: Vec<(String, AnyOutput)>,
}

/// A feature to be parsed.
enum Asked {
    Floats(DenseFeature<f32>),
    Integers(DenseFeature<i64>),
    Texts(SparseFeature<Text>),
    SparseIntegers(SparseFeature<i64>),
    SparseFloats(SparseFeature<f32>),
}

impl GraphInputs {
    /// Features out of serialized `tf.train.Example`s, as Estimator's parsing input receiver has them.
    ///
    /// # Errors
    /// When the columns do not fit together, or a graph cannot say what one reads.
    pub fn examples(graph: &mut GraphBuilder, columns: &[FeatureColumn]) -> Result<Self> {
        let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
        let mut features = ExampleFeatures::new();
        let mut asked = Vec::new();
        for spec in make_parse_example_spec(columns)? {
            asked.push((spec.name.clone(), ask(graph, &mut features, &spec)?));
        }
        let mut fed = BTreeMap::new();
        if !asked.is_empty() {
            let parsed = graph.parse_example(serialized, &features);
            fed.extend(asked.into_iter().map(|(name, asked)| (name, given(&parsed, asked))));
        }
        Ok(Self { fed, placeholders: vec![("examples".to_owned(), serialized.into())] })
    }

    /// A tensor for each feature: `[rows, values]`. Where there can be any number of values, missing ones are empty
    /// texts, -1, or weights of 0.
    ///
    /// # Errors
    /// As [`Self::examples`].
    pub fn raw(graph: &mut GraphBuilder, columns: &[FeatureColumn]) -> Result<Self> {
        let (mut fed, mut placeholders) = (BTreeMap::new(), Vec::new());
        for spec in make_parse_example_spec(columns)? {
            let name = spec.name.clone();
            let (feature, placeholder) = match (spec.layout, spec.kind) {
                (Layout::Fixed(length), FeatureKind::F32) => {
                    let x = graph.placeholder::<f32>(&name, &[None, Some(length)]);
                    (Fed::Floats(x), x.into())
                }
                (Layout::Fixed(length), FeatureKind::I64) => {
                    let x = graph.placeholder::<i64>(&name, &[None, Some(length)]);
                    (Fed::Integers(x), x.into())
                }
                (Layout::Variable, FeatureKind::Bytes) => {
                    let (missing, never) = (graph.text(""), graph.text(NEVER));
                    let x = graph.placeholder::<Text>(&name, &[None, None]);
                    let (present, all) = (graph.to_sparse(x, missing), graph.to_sparse(x, never));
                    (Fed::Texts { present, all }, x.into())
                }
                (Layout::Variable, FeatureKind::I64) => {
                    let missing = graph.scalar(-1_i64);
                    let (sparse, placeholder) = any_number(graph, &name, missing);
                    (Fed::SparseIntegers(sparse), placeholder)
                }
                (Layout::Variable, FeatureKind::F32) => {
                    let missing = graph.scalar(0.0_f32);
                    let (sparse, placeholder) = any_number(graph, &name, missing);
                    (Fed::SparseFloats(sparse), placeholder)
                }
                _ => return Err(not_in_a_graph(&name, "no column reads such a feature")),
            };
            fed.insert(name.clone(), feature);
            placeholders.push((name, placeholder));
        }
        Ok(Self { fed, placeholders })
    }

    /// What the graph must be given, by name.
    #[must_use]
    pub fn placeholders(&self) -> &[(String, AnyOutput)] {
        &self.placeholders
    }

    pub(super) fn fed(&self, key: &str) -> Result<Fed> {
        self.fed.get(key).copied().ok_or_else(|| not_in_a_graph(key, "the graph was made for other columns"))
    }
}

fn any_number<T: Element>(graph: &mut GraphBuilder, name: &str, missing: Output<T>) -> (Sparse<T>, AnyOutput) {
    let x = graph.placeholder::<T>(name, &[None, None]);
    (graph.to_sparse(x, missing), x.into())
}

fn ask(graph: &mut GraphBuilder, features: &mut ExampleFeatures, spec: &FeatureSpec) -> Result<Asked> {
    let name = spec.name.as_str();
    Ok(match (spec.layout, spec.kind) {
        (Layout::Fixed(length), FeatureKind::F32) => {
            let default = match &spec.default {
                Some(FeatureValues::F32(values)) => Some(filled(graph, values, length)),
                _ => None,
            };
            Asked::Floats(fixed(features, name, length, default))
        }
        (Layout::Fixed(length), FeatureKind::I64) => {
            let default = match &spec.default {
                Some(FeatureValues::I64(values)) => Some(filled(graph, values, length)),
                _ => None,
            };
            Asked::Integers(fixed(features, name, length, default))
        }
        (Layout::Variable, FeatureKind::Bytes) => Asked::Texts(features.sparse(name)),
        (Layout::Variable, FeatureKind::I64) => Asked::SparseIntegers(features.sparse(name)),
        (Layout::Variable, FeatureKind::F32) => Asked::SparseFloats(features.sparse(name)),
        _ => return Err(not_in_a_graph(name, "no column reads such a feature")),
    })
}

/// A default for every value of a feature: one stands for all.
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

fn given(parsed: &Parsed, asked: Asked) -> Fed {
    match asked {
        Asked::Floats(feature) => Fed::Floats(parsed.dense(feature)),
        Asked::Integers(feature) => Fed::Integers(parsed.dense(feature)),
        Asked::Texts(feature) => {
            let texts = parsed.sparse(feature);
            Fed::Texts { present: texts, all: texts }
        }
        Asked::SparseIntegers(feature) => Fed::SparseIntegers(parsed.sparse(feature)),
        Asked::SparseFloats(feature) => Fed::SparseFloats(parsed.sparse(feature)),
    }
}
