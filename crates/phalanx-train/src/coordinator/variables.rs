//! The variables of a coordinated job: their shards and their values.

use super::Coordinator;
use super::chief::gone;
use crate::{Session, TableId};
use phalanx_base::{Code, Error, Result, Role, Shape, TaskId};
use phalanx_nn::ParameterRegistry;
use phalanx_nn::burn::module::Module;
use std::ops::Range;

/// A shard of a variable: some of its rows, on one parameter server.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableShard {
    /// `embedding/weight/part_0`, or the name of the variable where there is only one shard.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// The server that holds it.
    pub task: TaskId,
}

impl VariableShard {
    /// Returns the server as TensorFlow prints devices: `/job:ps/replica:0/task:1/device:CPU:0`.
    #[must_use]
    pub fn device(&self) -> String {
        format!("/job:{}/replica:0/task:{}/device:CPU:0", self.task.role, self.task.index)
    }
}

/// A variable and its shards: TensorFlow's `ShardedVariable`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardedVariable {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Its shards, in the order of their rows.
    pub shards: Vec<VariableShard>,
}

impl<M: Module> Coordinator<M> {
    /// Returns the variables and their shards.
    ///
    /// # Errors
    /// When there is no model.
    pub fn variables(&self) -> Result<Vec<ShardedVariable>> {
        variables(self.session()?)
    }

    /// Returns the variable of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn variable(&self, name: &str) -> Result<ShardedVariable> {
        find(self.variables()?, name)
    }

    /// Reads the values of a variable from the servers, and nothing else.
    ///
    /// # Errors
    /// When there is no such variable, or a server does not answer.
    pub fn read(&mut self, name: &str) -> Result<Vec<f32>> {
        let rows = find(self.variables()?, name)?.shape.rows();
        self.read_rows(name, 0..rows)
    }

    /// Reads some rows of a variable, and nothing else.
    ///
    /// # Errors
    /// As [`Self::read`], and when there are no such rows.
    pub fn read_rows(&mut self, name: &str, rows: Range<usize>) -> Result<Vec<f32>> {
        let variables = self.variables()?;
        let index = variables.iter().position(|variable| variable.name == name);
        let shape = find(variables, name)?.shape;
        if rows.start > rows.end || rows.end > shape.rows() {
            return Err(Error::new(Code::ShapeMismatch, format!("{name:?} has no rows {rows:?}"))
                .because(format!("it has {}", shape.rows())));
        }
        let width = shape.row_elements();
        self.include_closed_rounds()?.read(index.ok_or_else(gone)?, rows.start * width..rows.end * width)
    }

    /// Reads the rows of these ids of a table, one for each id, and nothing else. Rows that do not exist yet are created.
    ///
    /// # Errors
    /// When there is no such table, or a server does not answer.
    pub fn read_table(&mut self, table: TableId, ids: &[i64]) -> Result<Vec<f32>> {
        self.include_closed_rounds()?.read_rows(table, ids)
    }

    /// Replaces the values of a variable on the servers; the optimizer's slots stay.
    ///
    /// # Errors
    /// When there is no such variable, it has another number of elements, steps are under way, or a server does not answer.
    pub fn assign(&mut self, name: &str, numbers: Vec<f32>) -> Result<()> {
        let elements = find(self.variables()?, name)?.shape.elements();
        if numbers.len() != elements {
            let what = format!("{name:?} has {elements} numbers, not {}", numbers.len());
            return Err(Error::new(Code::ShapeMismatch, what));
        }
        if !self.is_idle() {
            return Err(Error::new(Code::BadSetting, format!("{name:?} cannot be assigned while steps are under way"))
                .because("what they push meanwhile would be lost")
                .help("join first"));
        }
        self.refresh()?;
        let session = self.session_mut()?;
        let model = session.model()?.clone();
        let registry = ParameterRegistry::of(&model)?;
        let values = registry.parameters().iter().map(|known| (known.name == name).then(|| numbers.clone())).collect();
        session.replace(&registry.load(model, values))
    }
}

/// The variables of a model, in its order.
fn variables<M: Module>(session: &Session<M>) -> Result<Vec<ShardedVariable>> {
    let layout = session.layout();
    let mut found: Vec<ShardedVariable> = layout
        .variables()
        .iter()
        .map(|variable| ShardedVariable { name: variable.name.clone(), shape: variable.shape.clone(), shards: vec![] })
        .collect();
    for shard in layout.shards() {
        let Some(variable) = found.get_mut(shard.variable) else { continue };
        let mut dims = variable.shape.dims().to_vec();
        if let Some(rows) = dims.first_mut() {
            *rows = shard.rows.len();
        }
        let name = format!("{}/part_{}", variable.name, variable.shards.len());
        let task = TaskId::new(Role::Ps, shard.server as u32);
        variable.shards.push(VariableShard { name, shape: Shape::new(dims)?, task });
    }
    for variable in &mut found {
        if let [only] = variable.shards.as_mut_slice() {
            only.name.clone_from(&variable.name);
        }
    }
    Ok(found)
}

/// Returns the variable of this name.
fn find(variables: Vec<ShardedVariable>, name: &str) -> Result<ShardedVariable> {
    let names: Vec<String> = variables.iter().map(|variable| variable.name.clone()).collect();
    variables.into_iter().find(|variable| variable.name == name).ok_or_else(|| {
        Error::new(Code::NoSuchVariable, format!("the model has no variable {name:?}"))
            .help(format!("it has {}", names.join(", ")))
    })
}
