//! A model as a graph of named operations, for exports.

use super::{Function, Model, Padding, Variable};

/// The operation of a layer in inference. Weights are in the order of [`LayerNode::weights`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// An input of the model.
    Input,
    /// A layer that is computed on the host: [`HostGraph`](super::HostGraph) has it.
    Host,
    /// `activation(x kernel + bias)` along the last axis.
    Dense {
        /// Whether there is a bias.
        bias: bool,
        /// The activation function.
        activation: Function,
    },
    /// An activation function.
    Activation(Function),
    /// A convolution of images.
    Conv2D {
        /// The stride.
        strides: [usize; 2],
        /// The dilation.
        dilations: [usize; 2],
        /// The padding.
        padding: Padding,
        /// The number of groups.
        groups: usize,
        /// Whether there is a bias.
        bias: bool,
        /// The activation function.
        activation: Function,
    },
    /// The maximum or the mean of each window of images.
    Pooling2D {
        /// Whether it is the mean.
        mean: bool,
        /// Height and width of a window.
        size: [usize; 2],
        /// The stride.
        strides: [usize; 2],
        /// The padding.
        padding: Padding,
    },
    /// The mean of each channel over an image.
    GlobalAveragePooling2D {
        /// Whether to keep the axes of height and width.
        keepdims: bool,
    },
    /// Normalization by moving averages, which follow gamma and beta among the weights.
    BatchNormalization {
        /// The addend of variances.
        epsilon: f64,
        /// Whether there is a trained factor.
        gamma: bool,
        /// Whether there is a trained addend.
        beta: bool,
    },
    /// Normalization over the last axis.
    LayerNormalization {
        /// The addend of variances.
        epsilon: f64,
        /// Whether there is a trained factor.
        gamma: bool,
        /// Whether there is a trained addend.
        beta: bool,
    },
    /// The row of each id.
    Embedding,
    /// The input, unchanged; dropout in inference.
    Identity,
    /// The input with the shape [`LayerNode::dims`].
    Reshape,
    /// The sum of all inputs.
    Add,
    /// The first input minus the second.
    Subtract,
    /// The product of all inputs.
    Multiply,
    /// The mean of all inputs.
    Average,
    /// The largest of all inputs.
    Maximum,
    /// The smallest of all inputs.
    Minimum,
    /// The concatenation of all inputs along an axis.
    Concatenate {
        /// The axis: the batch is 0, negative axes count from the end.
        axis: isize,
    },
    /// The dot products of two inputs along an axis of each.
    Dot {
        /// The axes: the batch is 0, negative axes count from the end.
        axes: [isize; 2],
        /// Whether to normalize vectors to length 1 first.
        normalize: bool,
    },
}

/// A call of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNode {
    /// The layer's name, which all calls of a layer share.
    pub layer: String,
    /// The operation; `None` for a custom layer.
    pub op: Option<Op>,
    /// The nodes whose outputs it takes.
    pub inputs: Vec<usize>,
    /// The shape of its output without the batch.
    pub dims: Vec<usize>,
    /// The weights of its layer.
    pub weights: Vec<Variable>,
}

/// A model as a graph of layer calls.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerGraph {
    /// All nodes in topological order.
    pub all: Vec<LayerNode>,
    /// The inputs of the model, in order.
    pub inputs: Vec<usize>,
    /// The outputs of the model, in order.
    pub outputs: Vec<usize>,
}

impl Model {
    /// Returns the model as a graph, for exports.
    ///
    /// ```
    /// use phalanx_nn::model::{Dense, Flatten, Op, Sequential};
    /// let model = Sequential::new().add(Flatten::new()).add(Dense::new(3)).build([4, 4])?;
    /// let nodes = model.nodes();
    /// assert_eq!(nodes.all[nodes.inputs[0]].op, Some(Op::Input));
    /// assert_eq!(nodes.all[nodes.outputs[0]].dims, [3]);
    /// # Ok::<(), phalanx_nn::model::Error>(())
    /// ```
    #[must_use]
    pub fn nodes(&self) -> LayerGraph {
        let form = &*self.form;
        let node = |step: &super::functional::LayerCall| {
            let placed = &form.layers[step.layer];
            LayerNode {
                layer: placed.name.clone(),
                op: placed.layer.as_ref().map_or(Some(Op::Input), |layer| match layer.on_host() {
                    Some(_) => Some(Op::Host),
                    None => layer.op(),
                }),
                inputs: step.inputs.iter().map(|&(from, _)| from).collect(),
                dims: step.dims.clone(),
                weights: self.variables_of(step.layer),
            }
        };
        let all = form.steps.iter().map(node).collect();
        LayerGraph { all, inputs: form.inputs.clone(), outputs: form.outputs.clone() }
    }
}
