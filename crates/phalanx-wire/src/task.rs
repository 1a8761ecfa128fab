//! Task incarnations in messages.

use crate::proto::common::TaskIncarnation;
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};

/// Converts one incarnation of a task into a message.
#[must_use]
pub fn task_to_wire(task: TaskId, incarnation: Incarnation) -> TaskIncarnation {
    let role = Role::ALL.iter().position(|&role| role == task.role).unwrap_or(0) as u32;
    TaskIncarnation { role, index: task.index, incarnation: incarnation.0 }
}

/// Reads the incarnation of a task that a message names.
///
/// # Errors
/// When the message names none, or a role that this build does not know.
pub fn task_from_wire(task: Option<&TaskIncarnation>) -> Result<(TaskId, Incarnation)> {
    let task = task.ok_or_else(|| Error::new(Code::BadMessage, "a message does not name its task"))?;
    let role = Role::ALL.get(task.role as usize).copied();
    let role = role.ok_or_else(|| Error::new(Code::BadMessage, format!("{} is not a role", task.role)))?;
    Ok((TaskId::new(role, task.index), Incarnation(task.incarnation)))
}
