//! One task of a small job, for the tests that need processes: softmax regression on made data, with the flags of the
//! example `mnist_softmax` and a few that make trouble.

#![allow(clippy::print_stdout)]

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
use clap::Parser;
use phalanx::prelude::*;
use phalanx_base::SplitMix;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
struct Args {
    #[arg(long)]
    sync: bool,
    /// Steps of all trainers together
    #[arg(long, default_value_t = 100)]
    max_steps: u64,
    /// How long a step takes at least
    #[arg(long, default_value_t = 0)]
    step_ms: u64,
    /// A trainer that is not the chief makes a NaN in its step of this number
    #[arg(long)]
    nan_at: Option<u64>,
    /// stop or skip
    #[arg(long, default_value = "stop")]
    non_finite: String,
    #[arg(long, default_value_t = 60_000)]
    formation_deadline_ms: u64,
    #[arg(long)]
    lease_ms: Option<u64>,
    #[arg(long, default_value_t = 60_000)]
    server_grace_ms: u64,
    /// Where the chief keeps checkpoints
    #[arg(long)]
    model_dir: Option<String>,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 5)]
    save_steps: u64,
    #[arg(long, default_value = "sgd")]
    optimizer: String,
    /// In how many parts each variable is split
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// How wide the model is besides: makes checkpoints larger
    #[arg(long, default_value_t = 1)]
    ballast: usize,
}

const WIDTH: usize = 8;
const CLASSES: usize = 3;
const BATCH: usize = 16;

#[derive(Module, Debug)]
struct Softmax {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    ballast: Param<Tensor<1>>,
}

impl Softmax {
    fn new(ballast: usize) -> Self {
        let device = default_device();
        let weight = Param::from_tensor(Tensor::zeros([WIDTH, CLASSES], &device));
        let bias = Param::from_tensor(Tensor::zeros([CLASSES], &device));
        Self { weight, bias, ballast: Param::from_tensor(Tensor::zeros([ballast], &device)) }
    }

    /// The loss on points whose class is that of their largest coordinate among the first few.
    fn loss(&self, batch: u64) -> Tensor<1> {
        let mut random = SplitMix::new(batch);
        let points: Vec<f32> = (0..BATCH * WIDTH).map(|_| random.below(1000) as f32 / 1000.0).collect();
        let largest = |point: &[f32]| (0..CLASSES).max_by(|&a, &b| point[a].total_cmp(&point[b])).unwrap_or(0) as i32;
        let labels: Vec<i32> = points.chunks(WIDTH).map(largest).collect();
        let device = default_device();
        let points = Tensor::<2>::from_data(TensorData::new(points, [BATCH, WIDTH]), &device);
        let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [BATCH]), &device);
        let logits = points.matmul(self.weight.val()) + self.bias.val().unsqueeze();
        losses::sparse_softmax_cross_entropy(logits, labels) + self.ballast.val().mean() * 1e-3
    }
}

fn main() -> ExitCode {
    phalanx::exit(task_from_args_or_env().and_then(|(config, rest)| {
        let args = Args::parse_from(rest);
        with_threads(1, || run(config, &args))
    }))
}

fn run(config: TaskConfig, args: &Args) -> phalanx::Result<()> {
    let mut options = ServerOptions::from_env()?;
    options.formation_deadline = Duration::from_millis(args.formation_deadline_ms);
    options.lease = args.lease_ms.map_or(options.lease, Duration::from_millis);
    options.server_grace = Duration::from_millis(args.server_grace_ms);
    Server::start_with(config, options)?.run(|server| train(args, server)).map(drop)
}

fn train(args: &Args, server: &Server) -> phalanx::Result<()> {
    let policy = if args.non_finite == "skip" { NonFinite::Skip } else { NonFinite::Stop };
    let optimizer = Optimizer::parse(&args.optimizer, 0.5)?;
    let mut supervisor =
        Supervisor::new(server, optimizer).non_finite(policy).partitioner(Partitioner::FixedShards(args.shards));
    if args.sync {
        supervisor = supervisor.sync(SyncReplicas::default());
    }
    if let Some(model_dir) = &args.model_dir {
        supervisor = supervisor.logdir(model_dir)?.save_model_secs(None).save_model_steps(args.save_steps);
        supervisor = supervisor.save_summaries_secs(0);
    }
    let mut session = supervisor.prepare_or_wait_for_session(Softmax::new(args.ballast))?;
    server.expect_steps(args.max_steps);
    let mut own = 0_u64;
    loop {
        own += 1;
        let bad = !server.is_chief() && args.nan_at == Some(own);
        let loss = |model: &Softmax| model.loss(own) * if bad { f32::NAN } else { 1.0 };
        let Some(step) = session.step(loss)? else { break };
        if own == 1 || own.is_multiple_of(20) {
            println!("{}: own step {own}, global step {}, loss {:.4}", server.task(), step.global_step, step.loss);
        }
        if step.global_step >= args.max_steps {
            break;
        }
        std::thread::sleep(Duration::from_millis(args.step_ms));
    }
    if server.is_chief() {
        session.refresh()?;
        println!("done: {} steps, loss {:.4}", session.global_step(), loss_of(&session)?);
    }
    supervisor.stop(session)
}

fn loss_of(session: &Session<Softmax>) -> phalanx::Result<f32> {
    Ok(session.model()?.loss(0).into_scalar())
}
