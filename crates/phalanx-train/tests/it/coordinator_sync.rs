//! Synchronous rounds under a coordinator give the values of one process with the same examples and optimizer.

use crate::support::quiet;
use phalanx_base::Result;
use phalanx_nn::burn;
use phalanx_nn::burn::module::{Module, Param};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_optim::{Adagrad, Adam, Momentum, Optimizer, Sgd};
use phalanx_train::{MiniCluster, ParameterServerOptions, Session, StepFunctions, Strategy, Supervisor};

const WIDTH: usize = 6;
const ROWS: usize = 4;
const WORKERS: usize = 3;
const UPDATES: usize = 20;

#[derive(Module, Debug)]
struct Line {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

fn line() -> Line {
    let device = phalanx_nn::default_device();
    let weight = (0..WIDTH).map(|at| at as f32 / 10.0).collect::<Vec<_>>();
    Line {
        weight: Param::from_tensor(Tensor::from_data(TensorData::new(weight, [WIDTH, 1]), &device)),
        bias: Param::from_tensor(Tensor::zeros([1], &device)),
    }
}

impl Line {
    /// Returns the loss on `batches` small batches from number `first` on, as one batch.
    fn loss(&self, first: usize, batches: usize) -> Tensor<1> {
        let device = phalanx_nn::default_device();
        let rows = batches * ROWS;
        let number = |at: usize| ((first * ROWS * (WIDTH + 1) + at) as f32 * 0.618_034).fract() - 0.5;
        let numbers: Vec<f32> = (0..rows * (WIDTH + 1)).map(number).collect();
        let numbers = Tensor::<2>::from_data(TensorData::new(numbers, [rows, WIDTH + 1]), &device);
        let (x, y) = (numbers.clone().narrow(1, 0, WIDTH), numbers.narrow(1, WIDTH, 1));
        (x.matmul(self.weight.val()) + self.bias.val().unsqueeze() - y).powf_scalar(2.0).mean()
    }
}

/// Trains in one process, which computes every update on all of its batches at once.
fn alone(optimizer: Optimizer) -> Vec<f32> {
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let train = |server: &_| -> Result<Vec<f32>> {
        let supervisor = Supervisor::new(server, optimizer);
        let mut session: Session<Line> = supervisor.prepare_or_wait_for_session(line())?;
        for update in 0..UPDATES {
            session.step(|line| line.loss(update * WORKERS, WORKERS))?;
        }
        session.finish()?;
        let values = session.values()?.into_iter().flat_map(|(_, _, numbers)| numbers).collect();
        supervisor.stop(session)?;
        Ok(values)
    };
    cluster.run(train).unwrap()
}

/// Trains with workers that compute one batch each, in rounds.
fn together(optimizer: Optimizer) -> Vec<f32> {
    let cluster = MiniCluster::start_with(2, WORKERS as u32, quiet()).unwrap();
    let train = |server: &_| {
        let mut steps = StepFunctions::new();
        let train = steps.register(|cx, batch: usize| cx.minimize(|line: &Line| line.loss(batch, 1)));
        let options = ParameterServerOptions { consistency: "sync".into(), ..ParameterServerOptions::default() };
        let strategy = Strategy::parameter_server_on(server, options)?;
        strategy.coordinate(line(), optimizer, steps, |coordinator| {
            (0..UPDATES * WORKERS).try_for_each(|batch| coordinator.schedule(&train, batch).map(drop))?;
            coordinator.join()?;
            assert_eq!(coordinator.global_step()?, UPDATES as u64);
            Ok([coordinator.read("weight")?, coordinator.read("bias")?].concat())
        })
    };
    cluster.run(train).unwrap().unwrap()
}

#[test]
fn rounds_equal_training_in_one_process() {
    let optimizers: [Optimizer; 4] =
        [Sgd::new(0.2).into(), Momentum::new(0.1, 0.9).into(), Adagrad::new(0.3).into(), Adam::new(0.05).into()];
    for optimizer in optimizers {
        let (alone, together) = (alone(optimizer), together(optimizer));
        let widest = alone.iter().zip(&together).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(alone.len() == WIDTH + 1 && widest <= 1e-5, "{optimizer:?}: {widest} apart: {alone:?}, {together:?}");
    }
}
