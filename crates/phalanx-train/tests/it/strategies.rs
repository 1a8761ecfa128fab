//! Several replicas learn what one learns: every strategy, every optimizer, several models, an uneven last batch.

use crate::support::{quiet, workers};
use phalanx_base::Result;
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::metrics::Loss;
use phalanx_nn::model::{Conv2D, Dense, Flatten, Function, MaxPooling2D, Model, Sequential};
use phalanx_optim::{Clip, CosineDecay, Optimizer, Sgd};
use phalanx_train::Strategy;
use phalanx_train::fit::{Compile, Fit, Verbose};

const BATCH: usize = 7;
/// 19 whole batches and one of 3.
const ROWS: usize = 19 * BATCH + 3;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Linear,
    Dense,
    Convolutional,
}

impl Kind {
    fn model(self) -> Result<Model> {
        match self {
            Self::Linear => Sequential::new().add(Dense::new(1)).seed(3).build([5]),
            Self::Dense => Sequential::new()
                .add(Dense::new(9).activation(Function::Tanh))
                .add(Dense::new(7).activation(Function::Relu))
                .add(Dense::new(3))
                .seed(4)
                .build([5]),
            Self::Convolutional => Sequential::new()
                .add(Conv2D::new(3, [3, 3]).activation(Function::Tanh))
                .add(MaxPooling2D::new([2, 2]))
                .add(Flatten::new())
                .add(Dense::new(3))
                .seed(5)
                .build([6, 6, 1]),
        }
    }

    fn loss(self) -> Loss {
        match self {
            Self::Linear => Loss::MeanSquaredError,
            _ => Loss::SparseCategoricalCrossentropy { from_logits: true },
        }
    }

    fn data(self) -> Dataset {
        let shape: &[usize] = if matches!(self, Self::Convolutional) { &[6, 6, 1] } else { &[5] };
        let width: usize = shape.iter().product();
        let noise = |i: usize| ((i as f32 * 12.9898).sin() * 43_758.547).fract();
        let x: Vec<f32> = (0..ROWS * width).map(noise).collect();
        let y: Vec<f32> = x.chunks_exact(width).map(|row| (row.iter().sum::<f32>().abs() * 7.0) % 3.0).collect();
        let y = match self {
            Self::Linear => Column::f32(y),
            _ => Column::i64(y.iter().map(|&y| y as i64).collect()),
        };
        let batch = Batch::new([("x", Column::f32(x).with_row_shape(shape).unwrap()), ("y", y)]).unwrap();
        Dataset::from_tensor_slices(batch.with_label("y").unwrap()).shuffle_seeded(ROWS, 11).batch(BATCH)
    }
}

/// Trains for twenty steps and returns all weights, concatenated.
fn train(kind: Kind, optimizer: Optimizer, strategy: &Strategy) -> Result<Vec<f32>> {
    let mut model = strategy.scope(|| kind.model())?.compile(optimizer, kind.loss(), ["mse"; 0])?;
    model.fit(kind.data(), Fit::epochs(1).verbose(Verbose::Silent))?;
    assert_eq!(model.iterations(), 20);
    Ok(model.weights()?.into_iter().flat_map(|weight| weight.values).collect())
}

fn optimizers() -> Vec<Optimizer> {
    let all = Optimizer::NAMES.iter().map(|name| Optimizer::parse(name, 0.02).unwrap());
    let decay = Optimizer::from(Sgd::default().schedule(CosineDecay::new(0.05, 20)).clip(Clip::GlobalNorm(0.5)));
    all.chain([decay, decay.with_clip(Clip::Norm(0.2))]).collect()
}

fn assert_near(one: &[f32], many: &[f32], what: &str) {
    assert_eq!(one.len(), many.len());
    let worst = one.iter().zip(many).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= 1e-5, "{what}: weights differ by {worst}");
}

fn for_each_case(mut check: impl FnMut(Kind, Optimizer, &[f32])) {
    for kind in [Kind::Linear, Kind::Dense, Kind::Convolutional] {
        for optimizer in optimizers() {
            let one = train(kind, optimizer, &Strategy::default()).unwrap();
            let start: Vec<f32> = kind.model().unwrap().values().unwrap().concat();
            assert_ne!(one, start, "{kind:?} with {optimizer} has learned something");
            check(kind, optimizer, &one);
        }
    }
}

#[test]
fn replicas_in_one_process_learn_what_one_learns() {
    for_each_case(|kind, optimizer, one| {
        for name in ["mirrored:2", "mirrored:3", "central_storage:2", "one_device"] {
            let strategy = Strategy::named_for(name, &phalanx_cluster::TaskConfig::local(), &quiet()).unwrap();
            let many = train(kind, optimizer, &strategy).unwrap();
            assert_near(one, &many, &format!("{kind:?}, {optimizer}, {name}"));
            let again = train(kind, optimizer, &strategy).unwrap();
            assert!(many.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "{kind:?}, {optimizer}, {name}");
        }
    });
}

#[test]
fn workers_learn_what_one_learns() {
    for count in [2, 3] {
        for_each_case(|kind, optimizer, one| {
            let run = || -> Vec<Vec<f32>> {
                let results = workers(count, |strategy| train(kind, optimizer, &strategy));
                results.into_iter().map(|weights| weights.unwrap()).collect()
            };
            let (many, again) = (run(), run());
            assert_near(one, &many[0], &format!("{kind:?}, {optimizer}, {count} workers"));
            for weights in many.iter().chain(&again) {
                let same = weights.iter().zip(&many[0]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{kind:?}, {optimizer}: {count} workers, twice, have the same bits");
            }
        });
    }
}
