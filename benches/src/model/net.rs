//! The dense part of a model, and its loss.

use super::{IDS, Sizes};
use burn::module::{Module, Param};
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::{Int, Tensor};
use phalanx::losses::Labels;
use phalanx::prelude::*;
use phalanx::{Precision, fused_dense};

#[derive(Module, Debug)]
pub(crate) struct Net {
    layers: Vec<Linear>,
    wide_bias: Option<Param<Tensor<1>>>,
}

impl Net {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let (device, initializer) = (default_device(), Initializer::Normal { mean: 0.0, std: 0.05 });
        let layer = |pair: &[usize]| {
            let config = LinearConfig::new(pair[0], pair[1]).with_initializer(initializer.clone());
            // The peers' biases start at zero.
            let linear = config.with_bias(false).init(&device);
            Linear { bias: Some(Initializer::Zeros.init([pair[1]], &device)), ..linear }
        };
        let wide_bias = sizes.wide.then(|| Initializer::Zeros.init([1], &device));
        Self { layers: sizes.layers.windows(2).map(layer).collect(), wide_bias }
    }

    /// The mean loss of a batch: `embedded` are its rows of the table, `wide` the weights of its ids.
    pub(super) fn loss(
        &self,
        numbers: Tensor<2>,
        labels: Tensor<1, Int>,
        embedded: Option<&Rows>,
        wide: Option<&Rows>,
        precision: Precision,
    ) -> Tensor<1> {
        let examples = numbers.dims()[0] as i32;
        let input = match embedded {
            Some(rows) => rows.concat(numbers).expect("every example has the same number of ids"),
            None => numbers,
        };
        let (last, hidden) = self.layers.split_last().expect("a net has layers");
        let hidden = hidden.iter().fold(input, |x, layer| sums(layer, x, true, precision));
        let mut logits = sums(last, hidden, false, Precision::F32);
        if let (Some(rows), Some(bias)) = (wide, &self.wide_bias) {
            logits = logits + rows.lookup().reshape([examples, IDS as i32]).sum_dim(1) + bias.val().unsqueeze();
        }
        if logits.dims()[1] > 1 {
            return losses::sparse_softmax_cross_entropy(logits, labels);
        }
        let loss = Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 };
        loss.forward(Labels::Ids(labels), logits).expect("a label for each logit").mean()
    }
}

fn sums(of: &Linear, x: Tensor<2>, relu: bool, precision: Precision) -> Tensor<2> {
    let bias = of.bias.as_ref().expect("every layer has a bias");
    fused_dense(x, of.weight.val(), bias.val(), relu, precision)
}
