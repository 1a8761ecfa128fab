//! `train_and_evaluate`: the same program in every role of a job.

use crate::distribution::Distribution;
use crate::evaluator::Evaluator;
use crate::training_task::TrainingTask;
use crate::{Estimator, EvalSpecs, Evaluation, IntoModel, RunConfig, TrainSpec, TrainSteps, Trainable, Training};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_train::StrategyChoice;
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
    /// The last evaluation, if this task evaluated: on the input without a name, or on the first one.
    pub evaluation: Option<Evaluation>,
    /// The last evaluation on each named input.
    pub named_evaluations: Vec<(String, Evaluation)>,
}

impl Report {
    fn evaluated(mut self, all: Vec<(Option<String>, Evaluation)>) -> Self {
        let main = all.iter().find(|(name, _)| name.is_none()).or(all.first());
        self.evaluation = main.map(|(_, found)| found.clone());
        self.named_evaluations = all.into_iter().filter_map(|(name, found)| Some((name?, found))).collect();
        self
    }
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
        if self.named_evaluations.len() < 2 {
            return self.evaluation.as_ref().map_or(Ok(()), |found| write!(f, "; {found}"));
        }
        self.named_evaluations.iter().try_for_each(|(name, found)| write!(f, "; {name}: {found}"))
    }
}

/// Trains and evaluates as the task that `config` names: as chief, worker, parameter server or evaluator, or both in this
/// process if there is no cluster. Every role returns when training has ended. `eval` is one [`EvalSpec`](crate::EvalSpec),
/// several with names, or an empty list for a training without evaluations.
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
    eval: impl Into<EvalSpecs>,
    config: RunConfig,
) -> Result<Report> {
    let eval = eval.into();
    eval.check()?;
    if train.max_steps == Some(0) {
        return Err(Error::new(Code::BadSetting, "max_steps is 0").at("TrainSpec").help("give at least 1"));
    }
    let (config, own) = alone(config);
    if let Some(StrategyChoice::Named(name)) = &config.train_distribute {
        Distribution::named(name, &config.task)?;
    }
    let task = config.task.task();
    if let Some(task) = task.filter(|task| task.role == Role::Ps) {
        TrainingTask::serve(&config)?;
        return Ok(Report { task: Some(task), ..Report::default() });
    }
    let estimator = Estimator::new(model, config)?;
    let mut report = match task.map(|task| task.role) {
        Some(Role::Evaluator) => Report::default().evaluated(Evaluator::new(&estimator, &eval).run(train.max_steps)?),
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
            Report { training: Some(training), ..Report::default() }.evaluated(evaluator.last())
        }
    };
    report.task = task.or(own);
    Ok(report)
}

/// Treats a cluster of a single trainer as a local job, which holds its own parameters and evaluates.
fn alone(mut config: RunConfig) -> (RunConfig, Option<TaskId>) {
    let given = config.task.task();
    config.task = config.task.or_local_if_alone();
    let own = given.filter(|_| config.task.is_local());
    (config, own)
}

/// Trains as chief or worker. With an evaluator, also evaluates saved checkpoints and the final one.
fn run<M: Trainable>(
    estimator: &Estimator<M>,
    mut train: TrainSpec,
    mut evaluator: Option<&mut Evaluator<'_, M>>,
) -> Result<Training> {
    let task = TrainingTask::start(&estimator.config)?;
    let heartbeat = task.is_chief().then(|| HeartbeatWriter::start(&estimator.dir)).transpose()?;
    let steps = train.max_steps.map_or(TrainSteps::UntilEnd, TrainSteps::Max);
    let input_fn = &*train.input_fn;
    let began = Instant::now();
    let trained = {
        let mut on_saved = |_: &Saved| match &mut evaluator {
            Some(evaluator) => evaluator.evaluate_due(began.elapsed()),
            None => Ok(()),
        };
        estimator.train_on(&task, &input_fn, steps, &mut train.hooks, &mut on_saved)
    };
    // Report an error to the other tasks through the server, and to an evaluator through the directory.
    task.leave(trained.as_ref().err());
    if let Some(heartbeat) = heartbeat {
        heartbeat.end(trained.as_ref().err())?;
    }
    let trained = trained?;
    if let Some(evaluator) = evaluator.filter(|_| trained.steps > 0) {
        evaluator.evaluate(true)?;
    }
    Ok(trained)
}
