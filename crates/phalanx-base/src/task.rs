//! The identity of a process: its role, its index and its incarnation.

use crate::{Code, Error};

/// What a task does in the job.
///
/// ```
/// use phalanx_base::Role;
/// assert_eq!("worker".parse::<Role>()?, Role::Worker);
/// assert_eq!(Role::Ps.to_string(), "ps");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Trains and manages the job: initialises, saves and ends it.
    Chief,
    /// Trains.
    Worker,
    /// Holds parameters.
    Ps,
    /// Evaluates checkpoints. It connects to no other task.
    Evaluator,
}

impl Role {
    /// Every role, in the order in which tasks are listed.
    pub const ALL: [Self; 4] = [Self::Chief, Self::Worker, Self::Ps, Self::Evaluator];

    /// Returns the role's job name in `TF_CONFIG`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chief => "chief",
            Self::Worker => "worker",
            Self::Ps => "ps",
            Self::Evaluator => "evaluator",
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Role {
    type Err = Error;

    /// Reads a job name; the legacy `master` is a chief.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .or_else(|| (text == "master").then_some(Self::Chief))
            .ok_or_else(|| {
                let error = Error::new(Code::ConfigTaskType, format!("{text:?} is not a role"));
                match crate::nearest(text, Self::ALL.map(Self::as_str)) {
                    Some(near) => error.help(format!("did you mean {near:?}?")),
                    None => error.help("roles are chief, worker, ps and evaluator"),
                }
            })
    }
}

/// One task of the job, written `ps/0`.
///
/// ```
/// use phalanx_base::{Role, TaskId};
/// let task = TaskId::new(Role::Worker, 2);
/// assert_eq!(task.to_string(), "worker/2");
/// assert_eq!("worker/2".parse::<TaskId>().unwrap(), task);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// What the task does.
    pub role: Role,
    /// Which of the tasks with this role.
    pub index: u32,
}

impl TaskId {
    /// The task `role/index`.
    #[must_use]
    pub fn new(role: Role, index: u32) -> Self {
        Self { role, index }
    }
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.role, self.index)
    }
}

impl std::str::FromStr for TaskId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('/').and_then(|(role, index)| Some((role, index.parse().ok()?)));
        let (role, index) =
            parts.ok_or_else(|| Error::new(Code::NoSuchTask, format!("{text:?} is not a task; write ps/0")))?;
        Ok(Self { role: role.parse()?, index })
    }
}

/// The number of one process that ran a task. A task that is started again has another incarnation, so late messages of
/// the previous process can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

impl std::fmt::Display for Incarnation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
