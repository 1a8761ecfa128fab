//! Serialized `tf.train.Example`s as the input of a model.

use super::output::NodeOutput;
use super::proto::Shape;
use super::{Element, GraphBuilder, Output, Sparse, Text, attr};
use crate::bundle::Dtype;
use phalanx_base::{Code, Error};
use std::marker::PhantomData;

/// Which features a model takes out of serialized Examples; each must be `f32`, `i64` or [`Text`].
///
/// ```
/// use phalanx_formats::saved_model::{ExampleFeatures, GraphBuilder, Text};
/// let mut graph = GraphBuilder::new();
/// let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
/// let mut features = ExampleFeatures::new();
/// let age = features.required::<f32>("age", &[1]);
/// let tags = features.sparse::<Text>("tags");
/// let parsed = graph.parse_example(serialized, &features);
/// let (age, tags) = (parsed.dense(age), parsed.sparse(tags));
/// # let _ = (age, tags);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExampleFeatures {
    dense: Vec<Dense>,
    sparse: Vec<(String, Dtype)>,
}

#[derive(Clone, Debug)]
struct Dense {
    name: String,
    dtype: Dtype,
    shape: Shape,
    /// A constant of the graph; `None`: every Example must have the feature.
    default: Option<NodeOutput>,
}

/// A feature of which every Example has as many values as the shape wants.
#[derive(Debug)]
pub struct DenseFeature<T>(usize, PhantomData<fn() -> T>);

/// A feature of which an Example has any number of values.
#[derive(Debug)]
pub struct SparseFeature<T>(usize, PhantomData<fn() -> T>);

/// The tensors of parsed Examples.
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    node: usize,
    sparse: usize,
}

impl ExampleFeatures {
    /// No features.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A feature that every Example must have, with as many values as this shape.
    pub fn required<T: Element>(&mut self, name: &str, dims: &[usize]) -> DenseFeature<T> {
        self.dense_feature::<T>(name, dims, None)
    }

    /// A feature that is `default`, a constant of the same shape, where an Example lacks it.
    pub fn optional<T: Element>(&mut self, name: &str, dims: &[usize], default: Output<T>) -> DenseFeature<T> {
        self.dense_feature::<T>(name, dims, Some(default.at))
    }

    fn dense_feature<T: Element>(
        &mut self,
        name: &str,
        dims: &[usize],
        default: Option<NodeOutput>,
    ) -> DenseFeature<T> {
        self.dense.push(Dense { name: name.to_owned(), dtype: T::DTYPE, shape: attr::known(dims), default });
        DenseFeature(self.dense.len() - 1, PhantomData)
    }

    /// A feature with any number of values, also none.
    pub fn sparse<T: Element>(&mut self, name: &str) -> SparseFeature<T> {
        self.sparse.push((name.to_owned(), T::DTYPE));
        SparseFeature(self.sparse.len() - 1, PhantomData)
    }

    /// What TensorFlow would refuse only when it loads the graph.
    fn fault(&self) -> Option<Error> {
        let dense = self.dense.iter().map(|feature| (&feature.name, feature.dtype));
        let sparse = self.sparse.iter().map(|(name, dtype)| (name, *dtype));
        let mut names = std::collections::BTreeSet::new();
        for (name, dtype) in dense.chain(sparse) {
            if !matches!(dtype, Dtype::F32 | Dtype::I64 | Dtype::String) {
                return Some(
                    Error::new(Code::BadSetting, format!("feature {name:?} cannot be of type {dtype}"))
                        .because("an Example has float32, int64 and bytes only")
                        .help("take one of these and cast it"),
                );
            }
            if !names.insert(name) {
                return Some(Error::new(Code::BadSetting, format!("feature {name:?} comes twice")));
            }
        }
        None
    }
}

impl Parsed {
    /// The values of a feature: `[rows, shape of the feature...]`.
    #[must_use]
    pub fn dense<T: Element>(&self, feature: DenseFeature<T>) -> Output<T> {
        Output::new(self.node, 3 * self.sparse + feature.0)
    }

    /// The values of a feature with any number of them per row.
    #[must_use]
    pub fn sparse<T: Element>(&self, feature: SparseFeature<T>) -> Sparse<T> {
        let output = |group: usize| group * self.sparse + feature.0;
        Sparse {
            indices: Output::new(self.node, output(0)),
            values: Output::new(self.node, output(1)),
            dense_shape: Output::new(self.node, output(2)),
        }
    }
}

impl GraphBuilder {
    /// Takes features out of serialized Examples, one per row. The keys of the features belong to these features only.
    pub fn parse_example(&mut self, serialized: Output<Text>, features: &ExampleFeatures) -> Parsed {
        if let Some(error) = features.fault() {
            self.fault(error);
        }
        let none: [&str; 0] = [];
        let names = self.texts(&[0], &none);
        let sparse_keys: Vec<&str> = features.sparse.iter().map(|(name, _)| &**name).collect();
        let dense_keys: Vec<&str> = features.dense.iter().map(|feature| &*feature.name).collect();
        let sparse_keys = self.texts(&[sparse_keys.len()], &sparse_keys);
        let dense_keys = self.texts(&[dense_keys.len()], &dense_keys);
        let mut defaults = Vec::new();
        for feature in &features.dense {
            let missing = |graph: &mut Self| NodeOutput { node: graph.nothing(feature.dtype), output: 0 };
            defaults.push(feature.default.unwrap_or_else(|| missing(self)));
        }
        let parse = self.make("ParseExampleV2").input(serialized).input(names);
        let parse = parse.input(sparse_keys).input(dense_keys).input(names);
        let parse = defaults.into_iter().fold(parse, |parse, default| parse.place(default));
        let node = parse
            .attr("Tdense", attr::dtypes(features.dense.iter().map(|feature| feature.dtype)))
            .attr("num_sparse", attr::int(features.sparse.len() as i64))
            .attr("sparse_types", attr::dtypes(features.sparse.iter().map(|(_, dtype)| *dtype)))
            .attr("ragged_value_types", attr::dtypes([]))
            .attr("ragged_split_types", attr::dtypes([]))
            .attr("dense_shapes", attr::shapes(features.dense.iter().map(|feature| feature.shape.clone()).collect()))
            .add_node();
        Parsed { node, sparse: features.sparse.len() }
    }
}
