//! The models that are measured: those of the peers.

mod batches;
mod input_file;
mod net;

pub(crate) use batches::{Batches, numbers_below};
pub(crate) use input_file::{InputArgs, InputFile};
pub(crate) use net::Net;

use phalanx::Result;
use phalanx::prelude::*;

/// Ids of an example, where the model has a table.
pub(crate) const IDS: usize = 26;
/// Numbers of an example, where the model has a table.
pub(crate) const NUMBERS: usize = 13;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Kind {
    /// 784 → 10
    Softmax,
    /// 512 → 1024 → 512 → 256 → 2
    Dnn,
    /// 26 ids of one table of 100,000 × 16 and 13 numbers → 400 → 400 → 2
    Embed,
    /// 26 ids of one table of 1,000,001 × 10 and 13 numbers → 400 → 400 → 400 → 2, Adam
    Click,
    /// 26 columns of 10,000 ids × 64 and 13 numbers → 1024 → 512 → 256 → 1, Adagrad; beside it a weight for each id, FTRL
    WideDeep,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Softmax, Self::Dnn, Self::Embed, Self::Click, Self::WideDeep];

    /// Examples in a worker's batch.
    pub(crate) fn batch(self) -> usize {
        match self {
            Self::Softmax | Self::Dnn | Self::Embed => 128,
            Self::Click => 1000,
            Self::WideDeep => 2048,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Softmax => "softmax",
            Self::Dnn => "dnn",
            Self::Embed => "embed",
            Self::Click => "click",
            Self::WideDeep => "wide-deep",
        })
    }
}

/// What a model is made of.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    /// The widths of the dense layers, the input's first.
    pub(crate) layers: Vec<usize>,
    /// Rows and width of the table, if there is one.
    pub(crate) table: Option<(usize, usize)>,
    /// Whether there is a linear part beside the layers: a weight for each id.
    pub(crate) wide: bool,
    optimizer: Optimizer,
}

impl Sizes {
    pub(crate) fn new(kind: Kind) -> Self {
        let adagrad = Adagrad::new(0.05).initial_accumulator_value(0.1).epsilon(1e-7).into();
        let dense = |layers: &[usize]| Self { layers: layers.to_vec(), table: None, wide: false, optimizer: adagrad };
        match kind {
            Kind::Softmax => dense(&[784, 10]),
            Kind::Dnn => dense(&[512, 1024, 512, 256, 2]),
            Kind::Embed => dense(&[400, 400, 2]).with_table(100_000, 16),
            Kind::Click => {
                let optimizer = Adam::new(1e-4).into();
                Self { optimizer, ..dense(&[400, 400, 400, 2]).with_table(1_000_001, 10) }
            }
            Kind::WideDeep => {
                let optimizer = Adagrad::new(0.01).initial_accumulator_value(0.1).epsilon(1e-7).into();
                Self { optimizer, wide: true, ..dense(&[1024, 512, 256, 1]).with_table(IDS * 10_000, 64) }
            }
        }
    }

    /// Puts a table before the layers.
    fn with_table(mut self, rows: usize, dim: usize) -> Self {
        self.layers.insert(0, IDS * dim + NUMBERS);
        self.table = Some((rows, dim));
        self
    }

    /// The same with another table or other hidden layers.
    pub(crate) fn changed(mut self, rows: Option<usize>, dim: Option<usize>, hidden: &[usize]) -> Self {
        if let Some((old_rows, old_dim)) = self.table {
            let (rows, dim) = (rows.unwrap_or(old_rows), dim.unwrap_or(old_dim));
            self.table = Some((rows, dim));
            self.layers[0] = IDS * dim + NUMBERS;
        }
        if !hidden.is_empty() {
            let last = self.layers.len() - 1;
            self.layers.splice(1..last, hidden.iter().copied());
        }
        self
    }

    /// How many numbers of an example are no ids.
    pub(crate) fn numbers(&self) -> usize {
        if self.table.is_some() { NUMBERS } else { self.layers[0] }
    }

    /// How many classes a label may name.
    pub(crate) fn classes(&self) -> usize {
        self.layers.last().copied().unwrap_or(2).max(2)
    }

    /// The matrix products of a step on `batch` examples, as `[m, k, n]` each: forward, gradient of the weights, and that of
    /// the inputs, which the first layer needs only where a table is before it.
    pub(crate) fn products(&self, batch: usize) -> Vec<[usize; 3]> {
        let mut products = Vec::new();
        for (at, pair) in self.layers.windows(2).enumerate() {
            let &[inputs, outputs] = pair else { continue };
            products.push([batch, inputs, outputs]);
            products.push([inputs, batch, outputs]);
            if at > 0 || self.table.is_some() {
                products.push([batch, outputs, inputs]);
            }
        }
        products
    }

    /// Additions and multiplications of those.
    pub(crate) fn flops(&self, batch: usize) -> f64 {
        self.products(batch).iter().map(|[m, k, n]| 2.0 * (m * k * n) as f64).sum()
    }

    /// A supervisor with the model's optimizers and tables.
    pub(crate) fn supervisor(&self, server: &Server) -> Result<Supervisor> {
        // As many bytes on each server, as the peers have them: their kernels come first, ours and biases by turns.
        let mut supervisor = Supervisor::new(server, self.optimizer).placement(Placement::greedy_by_bytes());
        if let Some((_, dim)) = self.table {
            let (name, initializer) = ("table".to_owned(), RowInitializer::normal(0.0, 0.01, 1));
            supervisor.table(TableSpec { name, dim, initializer, optimizer: self.optimizer })?;
        }
        if self.wide {
            let (name, initializer, optimizer) =
                ("wide".to_owned(), RowInitializer::constant(0.0), Ftrl::new(0.2).into());
            supervisor.table(TableSpec { name, dim: 1, initializer, optimizer })?;
            supervisor = supervisor.optimizer_of("wide_bias", optimizer);
        }
        Ok(supervisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_counts_the_products_it_computes() {
        let softmax = Sizes::new(Kind::Softmax);
        assert_eq!(softmax.flops(128), 2.0 * 2.0 * 128.0 * 7840.0);
        let embed = Sizes::new(Kind::Embed);
        assert_eq!(embed.layers, [429, 400, 400, 2]);
        assert_eq!(embed.flops(1), 6.0 * (429.0 * 400.0 + 400.0 * 400.0 + 400.0 * 2.0));
    }

    #[test]
    fn sizes_can_be_changed() {
        let sizes = Sizes::new(Kind::Embed).changed(Some(7), Some(10), &[5]);
        assert_eq!((sizes.table, sizes.layers), (Some((7, 10)), vec![273, 5, 2]));
        assert_eq!(Sizes::new(Kind::Click).layers, [273, 400, 400, 400, 2]);
        assert_eq!(Sizes::new(Kind::WideDeep).layers, [26 * 64 + 13, 1024, 512, 256, 1]);
    }
}
