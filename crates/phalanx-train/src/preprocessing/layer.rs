//! A preprocessing layer as a layer of a model.

use phalanx_base::{Code, Error, Result};
use phalanx_feature::PreprocessingLayer;
use phalanx_nn::model::{DynTensor, Identity, Layer, Mode, Plan, Weights};
use std::any::Any;
use std::sync::Arc;

/// A layer that is computed on the host, before the differentiable part of a model: a `StringLookup`, `IntegerLookup`,
/// `Normalization`, `Hashing`, `Discretization`, `CategoryEncoding`, or your own [`PreprocessingLayer`].
///
/// It takes an [`Input`](phalanx_nn::model::Input) or another such layer, so that the model takes raw features: in `fit`,
/// `evaluate` and `predict` under every strategy, and when its SavedModel is served.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// use phalanx_feature::StringLookup;
/// use phalanx_nn::model::{Dense, Embedding, Flatten, Input, Layer, Model};
/// use phalanx_train::Preprocess;
/// use phalanx_train::fit::{Compile, Fit, Verbose};
/// let city = Input::texts("city", [1]);
/// let cities = StringLookup::new().vocabulary(["Paris", "Rome"])?;
/// let rows = cities.vocabulary_size();
/// let ids = Preprocess::new(cities).call(&city);
/// let vector = Flatten::new().call(&Embedding::new(rows, 4).call(&ids));
/// let mut model = Model::new(&city, &Dense::new(1).call(&vector))?.compile("adam", "mse", ["mae"])?;
/// let columns = [("city", Column::text(["Rome", "Oslo"])), ("rent", Column::f32(vec![1.0, 2.0]))];
/// model.fit(Batch::new(columns)?.with_label("rent")?, Fit::epochs(1).verbose(Verbose::Silent))?;
/// assert_eq!(model.predict(Column::text(["Paris"]))?.rows(), 1);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Preprocess {
    identity: Identity,
    layer: Arc<dyn PreprocessingLayer>,
}

impl Preprocess {
    /// Returns a layer of a model that computes `layer`.
    #[must_use]
    pub fn new(layer: impl PreprocessingLayer + 'static) -> Self {
        Self { identity: Identity::default(), layer: Arc::new(layer) }
    }

    /// Sets the name of the layer.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.identity.rename(name);
        self
    }
}

impl Layer for Preprocess {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kind(&self) -> &'static str {
        self.layer.kind()
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        match inputs {
            [input] => self.layer.output_shape(input).map(Plan::output),
            _ => Err(Error::new(Code::ShapeMismatch, "a preprocessing layer takes exactly one input")),
        }
    }

    fn forward(&self, _: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        Err(Error::new(Code::Internal, "a preprocessing layer was given tensors"))
    }

    fn on_host(&self) -> Option<&(dyn Any + Send + Sync)> {
        Some(&self.layer)
    }
}

/// Returns the function of a layer of [`Layer::on_host`].
///
/// # Errors
/// Fails if it is not a [`Preprocess`].
pub(crate) fn function(layer: &dyn Layer) -> Result<&Arc<dyn PreprocessingLayer>> {
    let function = layer.on_host().and_then(|function| function.downcast_ref());
    function.ok_or_else(|| {
        Error::new(Code::BadSetting, format!("a {} layer on the host is unknown", layer.kind()))
            .help("implement PreprocessingLayer, and add it to the model as a Preprocess")
    })
}
