//! `train_and_evaluate`: the same program in every role of a job.

use crate::evaluator::Evaluator;
use crate::{Estimator, EvalSpec, Evaluation, IntoModel, RunConfig, TrainSpec, TrainSteps, Trainable, Training};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::TaskConfig;
use phalanx_train::Server;
use phalanx_train::checkpoint::Saved;
use phalanx_train::job_state::HeartbeatWriter;
use std::time::Instant;

/// The result of `train_and_evaluate` in this task.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The task; `None` if one process was the whole job.
    pub task: Option<TaskId>,
    /// The training, if this task trained.
    pub training: Option<Training>,
    /// The last evaluation, if this task evaluated.
    pub evaluation: Option<Evaluation>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.task {
            Some(task) => write!(f, "{task} is done")?,
            None => f.write_str("done")?,
        }
        if let Some(Training { global_step, steps, seconds, .. }) = self.training {
            write!(f, ": {global_step} steps, {steps} of them here in {seconds:.1} s")?;
        }
        self.evaluation.as_ref().map_or(Ok(()), |found| write!(f, "; {found}"))
    }
}

/// Trains and evaluates as the task that `config` names: as chief, worker, parameter server or evaluator, or both in this
/// process if there is no cluster. Every role returns when training has ended.
///
/// ```no_run
/// use phalanx_data::{SourceExt, csv};
/// use phalanx_estimator::*;
/// use phalanx_feature::numeric_column;
/// let train = TrainSpec::new(|cx| csv("train.csv").label("y").shard(cx).shuffle(1_000).repeat().batch(32)).max_steps(1_000);
/// let eval = EvalSpec::new(|_| csv("test.csv").label("y").batch(32));
/// let model = LinearRegressor::new([numeric_column("a"), numeric_column("b")]);
/// let report = train_and_evaluate(&model, train, eval, RunConfig::from_env()?.model_dir("runs/line"))?;
/// eprintln!("{report}");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// Fails if settings, input or model are invalid, or the job fails.
pub fn train_and_evaluate(
    model: &impl IntoModel,
    train: TrainSpec,
    eval: EvalSpec,
    config: RunConfig,
) -> Result<Report> {
    eval.check()?;
    if train.max_steps == Some(0) {
        return Err(Error::new(Code::BadSetting, "max_steps is 0").at("TrainSpec").help("give at least 1"));
    }
    let (config, own) = alone(config)?;
    let task = config.task.task();
    if let Some(task) = task.filter(|task| task.role == Role::Ps) {
        // A parameter server does not need the model.
        Server::start_with(config.task.clone(), config.patience())?.join()?;
        return Ok(Report { task: Some(task), ..Report::default() });
    }
    let estimator = Estimator::new(model, config)?;
    let mut report = match task.map(|task| task.role) {
        Some(Role::Evaluator) => {
            let evaluation = Evaluator::new(&estimator, &eval).run(train.max_steps)?;
            Report { evaluation, ..Report::default() }
        }
        Some(Role::Worker) if !estimator.config.task.is_chief() => {
            Report { training: Some(run(&estimator, train, None)?), ..Report::default() }
        }
        // A `master` is a chief that also evaluates.
        Some(_) if !estimator.config.task.cluster().has_job("master") => {
            Report { training: Some(run(&estimator, train, None)?), ..Report::default() }
        }
        _ => {
            let mut evaluator = Evaluator::new(&estimator, &eval);
            let training = run(&estimator, train, Some(&mut evaluator))?;
            Report { task: None, training: Some(training), evaluation: evaluator.last }
        }
    };
    report.task = task.or(own);
    Ok(report)
}

/// Treats a cluster of a single trainer as a local job, which holds its own parameters and evaluates.
fn alone(mut config: RunConfig) -> Result<(RunConfig, Option<TaskId>)> {
    let task = &config.task;
    let trainer = task.task().filter(|own| matches!(own.role, Role::Chief | Role::Worker));
    if trainer.is_none() || task.tasks().len() != 1 {
        return Ok((config, None));
    }
    if let (None, Some(dir)) = (&config.model_dir, task.model_dir()) {
        config.model_dir = Some(dir.to_owned());
    }
    config.task = TaskConfig::local();
    Ok((config, trainer))
}

/// Trains as chief or worker. With an evaluator, also evaluates saved checkpoints and the final one.
fn run<M: Trainable>(
    estimator: &Estimator<M>,
    mut train: TrainSpec,
    mut evaluator: Option<&mut Evaluator<'_, M>>,
) -> Result<Training> {
    let server = Server::start_with(estimator.config.task.clone(), estimator.config.patience())?;
    let heartbeat = server.is_chief().then(|| HeartbeatWriter::start(&estimator.dir)).transpose()?;
    let steps = train.max_steps.map_or(TrainSteps::UntilEnd, TrainSteps::Max);
    let input_fn = &*train.input_fn;
    let began = Instant::now();
    let trained = {
        let mut on_saved = |_: &Saved| match &mut evaluator {
            Some(evaluator) if evaluator.may_begin(began.elapsed()) && evaluator.is_due() => evaluator.evaluate(false),
            _ => Ok(()),
        };
        estimator.train_on(&server, &input_fn, steps, &mut train.hooks, &mut on_saved)
    };
    // Report an error to the other tasks through the server, and to an evaluator through the directory.
    server.leave(trained.as_ref().err());
    if let Some(heartbeat) = heartbeat {
        heartbeat.end(trained.as_ref().err())?;
    }
    let trained = trained?;
    if let Some(evaluator) = evaluator.filter(|_| trained.steps > 0) {
        evaluator.evaluate(true)?;
    }
    Ok(trained)
}
