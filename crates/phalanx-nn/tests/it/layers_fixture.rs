//! Reads `fixtures/layers.txt` and builds its models.

use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::default_device;
use phalanx_nn::model::*;

/// A model, a batch and Keras' results.
#[derive(Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) training: bool,
    pub(crate) inputs: Vec<Array>,
    pub(crate) weights: Vec<(String, bool, Array)>,
    pub(crate) outputs: Vec<Array>,
    pub(crate) gradients: Vec<(String, Vec<f32>)>,
    pub(crate) after: Vec<(String, Vec<f32>)>,
}

#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) dims: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
}

impl Array {
    fn parse(dims: &str, text: &str) -> Self {
        let dims = dims.split(',').map(|d| d.parse().unwrap()).collect();
        Self { dims, numbers: numbers(text) }
    }

    /// A leaf with one axis, which has a gradient.
    pub(crate) fn leaf(&self) -> Tensor<1> {
        let data = TensorData::new(self.numbers.clone(), [self.numbers.len()]);
        Tensor::from_data(data, &default_device()).require_grad()
    }
}

fn numbers(text: &str) -> Vec<f32> {
    text.split(',').map(|x| x.parse().unwrap()).collect()
}

/// Returns the cases, and the summaries by name and width.
pub(crate) fn fixture() -> (Vec<Case>, Vec<(String, usize, String)>) {
    let (mut cases, mut summaries): (Vec<Case>, Vec<(String, usize, String)>) = (Vec::new(), Vec::new());
    for line in include_str!("../fixtures/layers.txt").lines() {
        if let Some(line) = line.strip_prefix('|') {
            let text = &mut summaries.last_mut().unwrap().2;
            *text += line;
            text.push('\n');
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["case", name, mode] => {
                cases.push(Case { name: name.to_owned(), training: mode == "training", ..Case::default() })
            }
            ["summary", name, width] => summaries.push((name.to_owned(), width.parse().unwrap(), String::new())),
            ["input", dims, text] => cases.last_mut().unwrap().inputs.push(Array::parse(dims, text)),
            ["output", dims, text] => cases.last_mut().unwrap().outputs.push(Array::parse(dims, text)),
            ["weight", name, dims, trainable, text] => {
                let weight = (name.to_owned(), trainable == "1", Array::parse(dims, text));
                cases.last_mut().unwrap().weights.push(weight);
            }
            ["gradient", name, text] => cases.last_mut().unwrap().gradients.push((name.to_owned(), numbers(text))),
            ["after", name, text] => cases.last_mut().unwrap().after.push((name.to_owned(), numbers(text))),
            _ => panic!("a line of the fixture: {line}"),
        }
    }
    (cases, summaries)
}

/// The model of a case.
pub(crate) fn model(name: &str, inputs: &[Array]) -> Model {
    let symbols: Vec<Symbol> = inputs.iter().map(|input| Input::new(&input.dims[1..])).collect();
    let output = match name {
        "convolutional" => return convolutional(),
        "towers" => return towers(),
        "chain" => return chain(),
        _ => layer(name, &symbols),
    };
    Model::new(&symbols, &output).unwrap()
}

fn layer(name: &str, x: &Vec<Symbol>) -> Symbol {
    let plain = || BatchNormalization::new().scale(false).center(false);
    match name {
        "dense" => Dense::new(4).activation(Function::Relu).call(x),
        "dense_three_axes" => Dense::new(4).use_bias(false).activation(Function::Softmax).call(x),
        "embedding" => Embedding::new(7, 3).call(x),
        "conv_valid" => Conv2D::new(3, [3, 3]).activation(Function::Tanh).call(x),
        "conv_same" => Conv2D::new(3, [3, 2]).padding(Padding::Same).call(x),
        "conv_same_strides" => Conv2D::new(3, [3, 2]).strides([2, 2]).padding(Padding::Same).call(x),
        "conv_dilated" => Conv2D::new(2, [2, 2]).dilation_rate([2, 2]).padding(Padding::Same).use_bias(false).call(x),
        "conv_groups" => Conv2D::new(4, [2, 2]).groups(2).call(x),
        "max_pool" => MaxPooling2D::default().call(x),
        "max_pool_same" => MaxPooling2D::new([3, 3]).strides([2, 2]).padding(Padding::Same).call(x),
        "average_pool" => AveragePooling2D::default().call(x),
        "average_pool_same" => AveragePooling2D::new([2, 3]).strides([1, 2]).padding(Padding::Same).call(x),
        "global_pool" => GlobalAveragePooling2D::new().call(x),
        "global_pool_keep" => GlobalAveragePooling2D::new().keepdims(true).call(x),
        "flatten" => Flatten::new().call(x),
        "reshape" => Reshape::new([4, -1]).call(x),
        "dropout" => Dropout::new(0.5).call(x),
        "layer_norm" => LayerNormalization::new().call(x),
        "layer_norm_three_axes" => LayerNormalization::new().epsilon(0.01).center(false).call(x),
        "batch_norm" | "batch_norm_training" => BatchNormalization::new().call(x),
        "batch_norm_image" | "batch_norm_image_training" => BatchNormalization::new().momentum(0.8).call(x),
        "batch_norm_plain" => plain().call(x),
        "add" => Add::new().call(x),
        "subtract" => Subtract::new().call(x),
        "multiply" => Multiply::new().call(x),
        "average" => Average::new().call(x),
        "maximum" => Maximum::new().call(x),
        "minimum" => Minimum::new().call(x),
        "concatenate" => Concatenate::new().call(x),
        "concatenate_axis" => Concatenate::new().axis(1).call(x),
        "dot" => Dot::new([1, 1]).call(x),
        "dot_cosine" => Dot::new([-1, -1]).normalize(true).call(x),
        "dot_matrices" => Dot::new([1, 2]).call(x),
        "dot_matrix_vector" => Dot::new([2, 1]).call(x),
        _ => Activation::new(name.strip_prefix("activation_").unwrap().parse().unwrap()).call(x),
    }
}

pub(crate) fn convolutional() -> Model {
    Sequential::new()
        .add(Conv2D::new(4, [3, 3]).activation(Function::Relu))
        .add(BatchNormalization::new())
        .add(MaxPooling2D::default())
        .add(Conv2D::new(6, [3, 3]).padding(Padding::Same).activation(Function::Relu))
        .add(BatchNormalization::new())
        .add(GlobalAveragePooling2D::new())
        .add(Dropout::new(0.3))
        .add(Dense::new(8).activation(Function::Gelu))
        .add(Dense::new(3).activation(Function::Softmax))
        .build([8, 8, 1])
        .unwrap()
}

pub(crate) fn towers() -> Model {
    let (user, item) = (Input::new([4]), Input::new([4]));
    let shared = Dense::new(5).activation(Function::Relu).name("tower_shared_by_both");
    let (u, i) = (shared.call(&user), shared.call(&item));
    let u = Dense::new(5).call(&u);
    let score = Dot::new([1, 1]).call([&u, &i]);
    let both = Concatenate::new().call([&u, &i, &score]);
    let h = LayerNormalization::new().call(&both);
    let rating = Dense::new(1).name("rating").call(&h);
    let click = Dense::new(1).activation(Function::Sigmoid).call(&Add::new().call([&both, &h]));
    Model::new([&user, &item], [&rating, &click]).unwrap()
}

fn chain() -> Model {
    let x = Input::new([6]);
    let h = Dense::new(6).activation(Function::Swish).call(&x);
    Model::new(&x, &Dense::new(2).call(&Activation::new(Function::Tanh).call(&h))).unwrap()
}
