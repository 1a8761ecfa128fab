//! Models in the style of Keras: [`Sequential`], functional [`Model`]s, and layers.
//!
//! A layer is a description. Calling it on a [`Symbol`] adds a node to a graph; [`Model::new`] infers all shapes, names
//! the layers as Keras does and creates the weights. A [`Model`] is a Burn module whose parameters have Keras' names, such
//! as `dense/kernel` and `conv2d_1/bias`, also in a [`ParameterRegistry`](crate::ParameterRegistry) and in checkpoints.
//! Images are `[batch, height, width, channels]`, kernels `[height, width, in, out]`.
//!
//! ```
//! use phalanx_nn::burn::tensor::Tensor;
//! use phalanx_nn::model::{Dense, Dropout, Function, Mode, Sequential};
//! let model = Sequential::new()
//!     .add(Dense::new(128).activation(Function::Relu))
//!     .add(Dropout::new(0.2))
//!     .add(Dense::new(10))
//!     .build([784])?;
//! let images = Tensor::<2>::zeros([5, 784], &phalanx_nn::default_device());
//! let logits: Tensor<2> = model.forward(images, Mode::Inference)?;
//! assert_eq!(logits.dims(), [5, 10]);
//! assert_eq!(model.variables()[0].name, "dense/kernel");
//! # Ok::<(), phalanx_nn::model::Error>(())
//! ```

mod build;
mod dyn_tensor;
mod function;
mod functional;
mod graph;
mod host;
mod initializer;
mod layer;
mod layers;
mod names;
mod op;
mod random;
mod sequential;
mod summary;
mod tables;
mod topology;
mod weights;
mod window;

pub use dyn_tensor::DynTensor;
pub(crate) use functional::NamedLayer;
pub use functional::{Model, Variable};
pub use graph::{Input, InputValues, Inputs, Symbol};
pub use host::{HostCall, HostGraph, HostInput};
pub use initializer::{Distribution, Fan, Initializer};
pub use layer::{Identity, Layer, Mode, Plan, WeightPlan};
pub use layers::{
    Activation, Add, Average, AveragePooling2D, BatchNormalization, Concatenate, Conv2D, Dense, Dot, Dropout,
    Embedding, Flatten, GlobalAveragePooling2D, LayerNormalization, MaxPooling2D, Maximum, Minimum, Multiply, Reshape,
    Subtract,
};
pub use op::{LayerGraph, LayerNode, Op};
pub use phalanx_base::Error;
pub use phalanx_graph::Function;
pub use sequential::Sequential;
pub use tables::{ModelTable, RowSource};
pub use weights::{MovingAverage, Weights};
pub use window::Padding;
