//! What a session is made with: variables, tables and settings, as Python's objects have them in their attributes.

use crate::error::Raise;
use crate::module::{Described, Variables};
use crate::optimizer::Optimizer;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::Consistency;
use phalanx_ps::plan::RowInitializer;
use phalanx_ps::{Partitioner, TableSpec};
use phalanx_train::{
    BoundedStaleness, NonFinite, ParameterServerOptions, Server, Strategy, Supervisor, SyncReplicas, TableId,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use std::collections::HashMap;

/// A variable of the model.
#[derive(FromPyObject)]
pub(crate) struct Variable {
    name: String,
    shape: Vec<usize>,
    values: PyBuffer<f32>,
    trained: bool,
}

/// A table of rows.
#[derive(FromPyObject)]
pub(crate) struct Table {
    name: String,
    dim: usize,
    initializer: Initializer,
    optimizer: Optimizer,
}

/// The first values of rows.
#[derive(FromPyObject)]
struct Initializer {
    kind: String,
    /// The value, the lower bound, or the mean.
    first: f32,
    /// The upper bound, or the deviation.
    second: f32,
    seed: u64,
}

/// The settings of a supervisor.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    optimizer: Optimizer,
    optimizers: HashMap<String, Optimizer>,
    model_dir: Option<String>,
    /// As [`Consistency::parse`] reads it.
    consistency: String,
    overlap: bool,
    skip_non_finite: bool,
    save_model_secs: Option<u64>,
    save_model_steps: Option<u64>,
}

/// Copies the variables of the model.
pub(crate) fn variables(py: Python<'_>, all: Vec<Variable>) -> PyResult<Variables> {
    let described = all.into_iter().map(|one| {
        let values = one.values.to_vec(py)?;
        Ok(Described { name: one.name, dims: one.shape, values, trained: one.trained })
    });
    Variables::new(described.collect::<PyResult<_>>()?).or_raise(py)
}

impl Settings {
    /// Returns the supervisor of a task, and the tables in their order.
    pub(super) fn supervisor(&self, server: &Server, tables: Vec<Table>) -> Result<(Supervisor, Vec<TableId>)> {
        let mut supervisor =
            Supervisor::new(server, self.optimizer.inner()).moving_averages(true).overlap(self.overlap);
        let config = server.config();
        if let Some(dir) = self.model_dir.as_deref().or(config.model_dir()).or(config.output_dir()) {
            supervisor = supervisor.logdir(dir)?;
        }
        supervisor = match Consistency::parse(&self.consistency, config.trainers().len() as u64)? {
            Consistency::Async => supervisor,
            Consistency::Bounded(steps) => supervisor.bounded(BoundedStaleness { steps }),
            Consistency::Rounds { size, backups } => {
                supervisor.sync(SyncReplicas { replicas_to_aggregate: Some((size - backups) as u32) })
            }
        };
        self.finish(supervisor, tables)
    }

    /// Returns the supervisor of a coordinated job, and the tables in their order.
    pub(crate) fn coordinated(&self, strategy: &Strategy, tables: Vec<Table>) -> Result<(Supervisor, Vec<TableId>)> {
        self.finish(strategy.supervisor(self.optimizer.inner())?, tables)
    }

    /// Returns the settings of the strategy of a coordinated job.
    pub(crate) fn strategy(&self, partitioner: Partitioner) -> ParameterServerOptions {
        let (consistency, model_dir) = (self.consistency.clone(), self.model_dir.clone());
        ParameterServerOptions { consistency, model_dir, partitioner, ..ParameterServerOptions::default() }
    }

    /// Adds the settings that all supervisors have.
    fn finish(&self, mut supervisor: Supervisor, tables: Vec<Table>) -> Result<(Supervisor, Vec<TableId>)> {
        supervisor = supervisor.non_finite(if self.skip_non_finite { NonFinite::Skip } else { NonFinite::Stop });
        for (name, optimizer) in &self.optimizers {
            supervisor = supervisor.optimizer_of(name, optimizer.inner());
        }
        if let Some(seconds) = self.save_model_secs {
            supervisor = supervisor.save_model_secs(seconds);
        }
        if let Some(steps) = self.save_model_steps {
            supervisor = supervisor.save_model_steps(steps);
        }
        let mut ids = Vec::with_capacity(tables.len());
        for table in tables {
            let initializer = table.initializer.rows()?;
            let Table { name, dim, optimizer, .. } = table;
            ids.push(supervisor.table(TableSpec { name, dim, initializer, optimizer: optimizer.inner() })?);
        }
        Ok((supervisor, ids))
    }
}

impl Initializer {
    fn rows(&self) -> Result<RowInitializer> {
        let Self { kind, first, second, seed } = self;
        match kind.as_str() {
            "constant" => Ok(RowInitializer::constant(*first)),
            "uniform" => Ok(RowInitializer::uniform(*first, *second, *seed)),
            "normal" => Ok(RowInitializer::normal(*first, *second, *seed)),
            "truncated_normal" => Ok(RowInitializer::truncated_normal(*first, *second, *seed)),
            other => Err(Error::new(Code::BadSetting, format!("there is no initializer {other:?}"))
                .help("use constant, uniform, normal or truncated_normal")),
        }
    }
}
