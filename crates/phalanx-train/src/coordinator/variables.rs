//! Where the parts of a variable are.

use crate::Session;
use phalanx_base::{Code, Error, Result, Role, Shape, TaskId};
use phalanx_nn::burn::module::Module;

/// One part of a variable: some of its rows, on one parameter server.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableShard {
    /// `embedding/weight/part_0`, or the variable's own name where there is only one part.
    pub name: String,
    /// Its extents.
    pub shape: Shape,
    /// The server that holds it.
    pub task: TaskId,
}

impl VariableShard {
    /// The server as TensorFlow prints devices: `/job:ps/replica:0/task:1/device:CPU:0`.
    #[must_use]
    pub fn device(&self) -> String {
        format!("/job:{}/replica:0/task:{}/device:CPU:0", self.task.role, self.task.index)
    }
}

/// A variable as the chief sees it: a name, a shape, and the parts it lies in. TensorFlow's `ShardedVariable`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardedVariable {
    /// Its name.
    pub name: String,
    /// Its extents.
    pub shape: Shape,
    /// Its parts, in the order of their rows.
    pub shards: Vec<VariableShard>,
}

/// The variables of a model, in its order.
pub(super) fn variables<M: Module>(session: &Session<M>) -> Result<Vec<ShardedVariable>> {
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

/// One of them by name.
pub(super) fn find(variables: Vec<ShardedVariable>, name: &str) -> Result<ShardedVariable> {
    let names: Vec<String> = variables.iter().map(|variable| variable.name.clone()).collect();
    variables.into_iter().find(|variable| variable.name == name).ok_or_else(|| {
        Error::new(Code::NoSuchVariable, format!("the model has no variable {name:?}"))
            .help(format!("it has {}", names.join(", ")))
    })
}
