//! The tables of a model on parameter servers, as this task knows them.

use super::ServerRows;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::model::{ModelTable, RowSource};
use phalanx_nn::{Network, Rows};
use phalanx_optim::Optimizer;
use phalanx_ps::TableSpec;
use std::sync::Arc;

/// Tables with at most this many numbers together come to every task at the end of a call, as variables do. Rows of larger
/// ones are fetched when they are needed.
const HELD: usize = 1 << 24;

/// The values of a table.
type Values = Arc<Vec<f32>>;

/// The tables of a model whose rows are on parameter servers.
#[derive(Clone, Default)]
pub(crate) struct ModelTables {
    specs: Arc<Vec<ModelTable>>,
    /// The values that this task has: the program has set them, or the last call has left them.
    held: Vec<Option<Values>>,
    servers: Option<Arc<ServerRows>>,
}

impl ModelTables {
    /// Returns the tables of a model, with the values that its program has given them.
    pub(crate) fn of<M: Network>(module: &M) -> Result<Self> {
        let held = module.table_values()?.into_iter().map(|values| values.map(Arc::new)).collect();
        Ok(Self { specs: Arc::new(module.tables()), held, servers: None })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    pub(crate) fn specs(&self) -> &[ModelTable] {
        &self.specs
    }

    /// Returns the tables as servers create them.
    pub(crate) fn on_servers(&self, optimizer: Optimizer) -> Vec<TableSpec> {
        let spec = |table: &ModelTable| TableSpec {
            name: table.name.clone(),
            dim: table.dim,
            initializer: table.initializer,
            optimizer,
        };
        self.specs.iter().map(spec).collect()
    }

    /// Returns the values that this task has.
    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, &Values)> {
        self.held.iter().enumerate().filter_map(|(table, values)| Some((table, values.as_ref()?)))
    }

    /// Sets the values of a table.
    pub(crate) fn set(&mut self, table: usize, shape: &Shape, values: Vec<f32>) -> Result<()> {
        let spec = &self.specs[table];
        let own = Shape::new(vec![spec.rows, spec.dim])?;
        if *shape != own || values.len() != own.elements() {
            return Err(Error::new(Code::ShapeMismatch, format!("weight {:?} has shape {own}", spec.name))
                .because(format!("it was given {shape}")));
        }
        self.held[table] = Some(Arc::new(values));
        Ok(())
    }

    /// The servers have the newest values from now on.
    pub(crate) fn connect(&mut self, servers: &Arc<ServerRows>) {
        self.servers = Some(Arc::clone(servers));
        self.held.iter_mut().for_each(|held| *held = None);
        servers.give(None);
    }

    /// Takes the values of small tables from the servers, so that they are here when the job is over.
    pub(crate) fn take_small(&mut self) -> Result<()> {
        let numbers: usize = self.specs.iter().map(|spec| spec.rows.saturating_mul(spec.dim)).sum();
        if let Some(servers) = self.servers.clone().filter(|_| numbers <= HELD) {
            for (table, spec) in self.specs.iter().enumerate() {
                self.held[table] = Some(Arc::new(servers.read_all(table, spec.rows)?));
            }
        }
        Ok(())
    }

    /// Returns the newest values of a table.
    pub(crate) fn values(&self, table: usize) -> Result<Vec<f32>> {
        let spec = &self.specs[table];
        match (&self.held[table], &self.servers) {
            (Some(held), _) => Ok(held.to_vec()),
            (None, Some(servers)) => servers.read_all(table, spec.rows).map_err(|error| {
                error.help("the rows of large tables stay on the servers: use them before the chief drops its model")
            }),
            (None, None) => Ok(spec.initializer.table(spec.rows, spec.dim)),
        }
    }

    /// Returns where a model of this task gets rows.
    pub(crate) fn source(&self) -> Arc<dyn RowSource> {
        Arc::new(self.clone())
    }

    /// Lets models that look rows up on the servers get those that this task has.
    pub(crate) fn give_held(&self) {
        if let Some(servers) = &self.servers {
            let all = !self.held.is_empty() && self.held.iter().all(Option::is_some);
            // Without the servers, which would otherwise own themselves.
            servers.give(all.then(|| Self { servers: None, ..self.clone() }.source()));
        }
    }
}

impl RowSource for ModelTables {
    fn rows(&self, table: usize, ids: &[i64], device: &Device) -> Result<Rows> {
        let (spec, held) = (&self.specs[table], &self.held[table]);
        if let (None, Some(servers)) = (held, &self.servers) {
            return servers.rows(table, ids, device);
        }
        let mut values = vec![0.0; ids.len() * spec.dim];
        for (&id, row) in ids.iter().zip(values.chunks_exact_mut(spec.dim)) {
            match held {
                Some(held) => row.copy_from_slice(&held[id as usize * spec.dim..][..spec.dim]),
                None => spec.initializer.fill(id, row),
            }
        }
        let positions: Vec<u32> = (0..ids.len() as u32).collect();
        Ok(Rows::fixed(values, spec.dim, &positions, device))
    }
}
