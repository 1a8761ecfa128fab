//! A two-tower retrieval model: users and items are rows on parameter servers, and a tower above each.
//!
//! ```text
//! cargo run --release --example two_tower
//! phalanx launch --ps 2 --workers 2 -- target/release/examples/two_tower
//! ```
//!
//! `--loss softmax` trains on likes only, with the other items of a batch as negatives. The chief prints one line of JSON.

#![allow(clippy::print_stdout)]

mod ratings;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Tensor, activation::sigmoid};
use clap::Parser;
use phalanx::losses::InBatchNegatives;
use phalanx::metrics::Auc;
use phalanx::prelude::*;
use ratings::ratings;
use std::process::ExitCode;

/// Learns which items users like.
#[derive(Parser)]
#[command(version, about, after_help = Flags::HELP)]
struct Args {
    /// Run directory for checkpoints and event files
    #[arg(long, default_value = "runs/two_tower")]
    model_dir: String,
    /// Steps of all trainers, including those of earlier runs
    #[arg(long, default_value_t = 3000)]
    steps: u64,
    /// sigmoid, or softmax with the other items of a batch as negatives
    #[arg(long, default_value = "sigmoid", value_parser = ["sigmoid", "softmax"])]
    loss: String,
}

#[derive(Module, Debug)]
struct TwoTower {
    user: Linear,
    item: Linear,
}

impl TwoTower {
    fn new() -> Self {
        let tower = || LinearConfig::new(8, 8).init(&default_device());
        Self { user: tower(), item: tower() }
    }

    fn logits(&self, user: Tensor<2>, item: Tensor<2>) -> Tensor<2> {
        (self.user.forward(user) * self.item.forward(item)).sum_dim(1)
    }
}

fn main() -> ExitCode {
    phalanx::job_with_args(Args::parse_from, |task, args| {
        let (device, softmax) = (default_device(), args.loss == "softmax");
        let rows = || Table::new(8).optimizer(Adam::new(1e-2));
        let mut trainer = task
            .trainer(TwoTower::new(), Adam::new(2e-3).clip(Clip::GlobalNorm(1.0)))
            .table("user", rows())
            .table("item", rows())
            .model_dir(&args.model_dir)?;
        let train = ratings(40_000, 1)?
            .filter_rows(move |rows| Ok(rows.f32("liked")?.iter().map(|liked| !softmax || *liked == 1.0).collect()));
        let trained = trainer.train(train.shuffle(40_000).repeat().batch(128), args.steps, |model, rows, batch| {
            let (user, item) = (rows.get("user")?, rows.get("item")?);
            if softmax {
                let (user, item) = (model.user.forward(user), model.item.forward(item));
                return InBatchNegatives::new().candidate_ids(batch.i64("item")?).softmax(user, item, None);
            }
            Ok(losses::sigmoid_cross_entropy(model.logits(user, item), batch.tensor("liked", &device)?))
        })?;
        let auc = trainer.evaluate(ratings(5000, 2)?.batch(500), Auc::new(), |model, rows, _| {
            Ok(sigmoid(model.logits(rows.get("user")?, rows.get("item")?)))
        })?;
        if task.is_chief() {
            println!(r#"{{"steps": {}, "auc": {auc:.4}}}"#, trained.global_step);
        }
        Ok(())
    })
}
