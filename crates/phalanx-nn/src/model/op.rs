//! What layers do, said so that others can write it down: a model as a graph of named operations.

use super::{Function, Model, Padding, Variable};

/// What a layer does when a model answers. Weights are in the order in which [`Node::weights`] lists them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Op {
    /// What the model is given.
    Input,
    /// `activation(x kernel + bias)` along the last axis.
    Dense {
        /// Whether there is a bias.
        bias: bool,
        /// What is made of the sums.
        activation: Function,
    },
    /// A function of every number.
    Activation(Function),
    /// Filters over images.
    Conv2D {
        /// How far a window is from the next.
        strides: [usize; 2],
        /// How far the pixels of a window are apart.
        dilations: [usize; 2],
        /// What happens at the borders.
        padding: Padding,
        /// In how many groups channels are taken.
        groups: usize,
        /// Whether there is a bias.
        bias: bool,
        /// What is made of the sums.
        activation: Function,
    },
    /// The largest, or the mean, of each window of images.
    Pooling2D {
        /// The mean, not the largest.
        mean: bool,
        /// Height and width of a window.
        size: [usize; 2],
        /// How far a window is from the next.
        strides: [usize; 2],
        /// What happens at the borders.
        padding: Padding,
    },
    /// The mean of each channel over an image, whose axes stay or go.
    GlobalAveragePooling2D {
        /// Whether they stay.
        keepdims: bool,
    },
    /// By moving averages; gamma and beta, if there are such, come before them.
    BatchNormalization {
        /// What is added to variances.
        epsilon: f64,
        /// Whether it is multiplied with something learnt.
        gamma: bool,
        /// Whether something learnt is added.
        beta: bool,
    },
    /// Over the last axis.
    LayerNormalization {
        /// What is added to variances.
        epsilon: f64,
        /// Whether it is multiplied with something learnt.
        gamma: bool,
        /// Whether something learnt is added.
        beta: bool,
    },
    /// The row of each id.
    Embedding,
    /// Nothing: what drops numbers drops none when a model answers.
    Identity,
    /// The same numbers with the extents of [`Node::dims`].
    Reshape,
    /// All inputs added up.
    Add,
    /// The first input less the second.
    Subtract,
    /// All inputs multiplied.
    Multiply,
    /// The mean of all inputs.
    Average,
    /// The largest of all inputs.
    Maximum,
    /// The smallest of all inputs.
    Minimum,
    /// One input behind the other along an axis, the batch's being 0; negative ones count from the end.
    Concatenate {
        /// The axis.
        axis: isize,
    },
    /// Products of two inputs along an axis of each.
    Dot {
        /// The axes, the batch's being 0; negative ones count from the end.
        axes: [isize; 2],
        /// Whether vectors are first brought to length 1.
        normalize: bool,
    },
}

/// One call of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The layer's name; several nodes have one where a layer is called several times.
    pub layer: String,
    /// What it does; `None` for a layer that is not one of ours.
    pub op: Option<Op>,
    /// The nodes whose outputs it takes.
    pub inputs: Vec<usize>,
    /// The extents of its output without the batch.
    pub dims: Vec<usize>,
    /// The weights of its layer.
    pub weights: Vec<Variable>,
}

/// A model as a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Nodes {
    /// All nodes, each behind those that it takes from.
    pub all: Vec<Node>,
    /// The nodes that the model is given, in its order.
    pub inputs: Vec<usize>,
    /// The nodes that it answers, in its order.
    pub outputs: Vec<usize>,
}

impl Model {
    /// The model as a graph, for whoever writes it in another form.
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
    pub fn nodes(&self) -> Nodes {
        let form = &*self.form;
        let node = |step: &super::functional::Step| {
            let placed = &form.layers[step.layer];
            let variable = |weight: &super::weights::Weight| Variable {
                name: format!("{}/{}", placed.name, weight.name),
                shape: weight.shape.clone(),
                trainable: weight.trainable,
            };
            Node {
                layer: placed.name.clone(),
                op: placed.layer.as_ref().map_or(Some(Op::Input), |layer| layer.op()),
                inputs: step.inputs.iter().map(|&(from, _)| from).collect(),
                dims: step.dims.clone(),
                weights: self.weights[step.layer].iter().map(variable).collect(),
            }
        };
        let all = form.steps.iter().map(node).collect();
        Nodes { all, inputs: form.inputs.clone(), outputs: form.outputs.clone() }
    }
}
