//! The settings of a canned model.

use crate::data_sources::no_such;
use crate::error::Raise;
use crate::feature_column::{PyFeatureColumn, combiner};
use crate::optimizer::Optimizer;
use phalanx::Precision;
use phalanx::estimator::{
    BaselineClassifier, BaselineRegressor, Canned, DeepFmClassifier, DlrmClassifier, DnnClassifier, DnnRegressor,
    EvalMetric, FmClassifier, FmRegressor, Head as HeadOfModel, IntoModel, LinearClassifier, LinearRegressor,
    MfRegressor, Reduction, WideDeepClassifier, WideDeepRegressor,
};
use phalanx::feature_column::{Combiner, FeatureColumn};
use phalanx::model::Function;
use phalanx_base::{Code, Error, Result};
use pyo3::prelude::*;

/// A canned model and its settings. The classes of `phalanx.estimator` make one.
#[pyclass(frozen, module = "phalanx._phalanx", name = "Model", from_py_object)]
#[derive(Clone)]
pub(crate) struct PyModel {
    kind: String,
    /// Those of the linear part, and those of the network.
    columns: [Vec<FeatureColumn>; 2],
    head: Head,
    layers: Layers,
    optimizers: Optimizers,
    rest: Rest,
}

/// The loss, metrics and predictions.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Head {
    n_classes: usize,
    label_dimension: usize,
    label_vocabulary: Option<Vec<String>>,
    weight_column: Option<String>,
    loss_reduction: String,
    thresholds: Vec<f32>,
    eval_metrics: Vec<String>,
    group_by: Option<String>,
    poisson: bool,
}

/// Hidden layers.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Layers {
    hidden_units: Vec<usize>,
    bottom_units: Vec<usize>,
    activation: String,
    dropout: Option<f64>,
    batch_norm: bool,
    precision: String,
}

/// Optimizers; `None` is the model's own.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Optimizers {
    optimizer: Option<Optimizer>,
    linear_optimizer: Option<Optimizer>,
    dnn_optimizer: Option<Optimizer>,
}

#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Rest {
    sparse_combiner: String,
    l2: f32,
    embedding_l2: f32,
    dimension: usize,
    global_mean: f32,
}

#[pymethods]
impl PyModel {
    #[new]
    fn new(
        py: Python<'_>,
        kind: String,
        linear: Vec<PyFeatureColumn>,
        deep: Vec<PyFeatureColumn>,
        settings: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let columns = [linear, deep].map(|columns| columns.into_iter().map(|column| column.0).collect());
        let (head, layers) = (settings.extract()?, settings.extract()?);
        let made = Self { kind, columns, head, layers, optimizers: settings.extract()?, rest: settings.extract()? };
        // Wrong settings are reported where they are given.
        made.to_model(0).or_raise(py)?;
        Ok(made)
    }
}

/// Calls a builder's setters for the values that are given.
macro_rules! set {
    ($builder:expr, $($setter:ident: $value:expr),* $(,)?) => {{
        let mut builder = $builder;
        $(if let Some(value) = $value {
            builder = builder.$setter(value);
        })*
        builder
    }};
}

/// Applies the head's settings to a model, and makes it.
macro_rules! made {
    (classifier $model:expr, $head:expr, $seed:expr) => {
        made!(binary $model.n_classes($head.n_classes), $head, $seed)
    };
    (binary $model:expr, $head:expr, $seed:expr) => {{
        let model = $model.thresholds($head.thresholds.clone());
        made!(common set!(model, label_vocabulary: $head.label_vocabulary.clone()), $head, $seed)
    }};
    (regressor $model:expr, $head:expr, $seed:expr) => {{
        let numbers = $head.label_dimension;
        let head = if $head.poisson { HeadOfModel::poisson(numbers) } else { HeadOfModel::regression(numbers) };
        made!(common $model.head(head), $head, $seed)
    }};
    (common $model:expr, $head:expr, $seed:expr) => {{
        let metrics = $head.eval_metrics.iter().map(|name| EvalMetric::parse(name)).collect::<Result<Vec<_>>>()?;
        let model = $model.eval_metrics(metrics).loss_reduction(reduction(&$head.loss_reduction)?);
        set!(model, weight_column: $head.weight_column.clone(), group_by: $head.group_by.clone()).to_model($seed)
    }};
}

impl IntoModel for PyModel {
    type Model = Canned;

    fn to_model(&self, seed: u64) -> Result<Canned> {
        let Self { kind, columns: [wide, deep], head, layers, optimizers, rest } = self;
        let (wide, deep) = (wide.clone(), deep.clone());
        let (activation, precision) = (layers.activation()?, layers.precision()?);
        let one = || optimizers.optimizer.map(Optimizer::inner);
        macro_rules! regularized {
            ($model:expr) => {
                $model.l2(rest.l2).embedding_l2(rest.embedding_l2)
            };
        }
        macro_rules! linear {
            ($type:ident) => {
                set!(regularized!($type::new(wide).sparse_combiner(rest.combiner()?)), optimizer: one())
            };
        }
        macro_rules! layered {
            ($model:expr) => {
                set!(regularized!($model).hidden_units(layers.hidden_units.clone()).activation_fn(activation)
                    .batch_norm(layers.batch_norm).precision(precision), dropout: layers.dropout)
            };
        }
        macro_rules! two {
            ($model:expr) => {
                set!($model, linear_optimizer: optimizers.linear_optimizer.map(Optimizer::inner),
                    dnn_optimizer: optimizers.dnn_optimizer.map(Optimizer::inner))
            };
        }
        macro_rules! combined {
            ($type:ident) => {
                two!(layered!($type::new(wide, deep)).linear_sparse_combiner(rest.combiner()?))
            };
        }
        macro_rules! dnn {
            ($type:ident) => {
                set!(layered!($type::new(deep)), optimizer: one())
            };
        }
        match kind.as_str() {
            "LinearClassifier" => made!(classifier linear!(LinearClassifier), head, seed),
            "LinearRegressor" => made!(regressor linear!(LinearRegressor), head, seed),
            "DNNClassifier" => made!(classifier dnn!(DnnClassifier), head, seed),
            "DNNRegressor" => made!(regressor dnn!(DnnRegressor), head, seed),
            "DNNLinearCombinedClassifier" => made!(classifier combined!(WideDeepClassifier), head, seed),
            "DNNLinearCombinedRegressor" => made!(regressor combined!(WideDeepRegressor), head, seed),
            "BaselineClassifier" => made!(classifier set!(BaselineClassifier::new(), optimizer: one()), head, seed),
            "BaselineRegressor" => made!(regressor set!(BaselineRegressor::new(), optimizer: one()), head, seed),
            "DeepFMClassifier" => made!(binary two!(layered!(DeepFmClassifier::new(deep))), head, seed),
            "FMClassifier" => made!(binary set!(regularized!(FmClassifier::new(deep)), optimizer: one()), head, seed),
            "FMRegressor" => made!(common set!(regularized!(FmRegressor::new(deep)), optimizer: one()), head, seed),
            "DLRMClassifier" => {
                let model = regularized!(DlrmClassifier::new(deep)).bottom_units(layers.bottom_units.clone());
                let model = model.top_units(layers.hidden_units.clone());
                made!(classifier set!(model, optimizer: one(), dropout: layers.dropout), head, seed)
            }
            "MFRegressor" => {
                let [user, item] = <[FeatureColumn; 2]>::try_from(deep).map_err(|_| {
                    Error::new(Code::BadSetting, "a matrix factorization has two columns: the user's and the item's")
                })?;
                let model = regularized!(MfRegressor::new(user, item, rest.dimension)).global_mean(rest.global_mean);
                made!(common set!(model, optimizer: one()), head, seed)
            }
            other => Err(Error::new(Code::Internal, format!("nothing makes a model of kind {other}"))),
        }
    }
}

impl Layers {
    fn activation(&self) -> Result<Function> {
        self.activation.parse()
    }

    fn precision(&self) -> Result<Precision> {
        match self.precision.as_str() {
            "float32" => Ok(Precision::F32),
            "bfloat16" => Ok(Precision::Bf16),
            other => Err(no_such("precision", other, &["float32", "bfloat16"])),
        }
    }
}

impl Rest {
    fn combiner(&self) -> Result<Combiner> {
        combiner(&self.sparse_combiner)
    }
}

/// Returns the reduction of this name in TensorFlow.
fn reduction(name: &str) -> Result<Reduction> {
    match name {
        "sum_over_batch_size" | "auto" => Ok(Reduction::SumOverBatchSize),
        "sum" => Ok(Reduction::Sum),
        other => Err(no_such("loss_reduction", other, &["sum_over_batch_size", "sum"])),
    }
}
