//! Stable error codes. A published code keeps its meaning.

/// The party that must act on a failure. It determines the exit code and whether a retry makes sense.
///
/// ```
/// use phalanx_base::{Code, Fault};
/// assert_eq!(Code::PeerUnreachable.fault(), Fault::Infrastructure);
/// assert_eq!(Fault::Infrastructure.exit_code(), 138); // a scheduler starts it again
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The configuration or the command line is wrong: exit code 2.
    Usage,
    /// The user's model, data or step is wrong: exit code 1.
    User,
    /// A machine, a network or another task is gone: exit code 138, a retry makes sense.
    Infrastructure,
    /// Ctrl-C: exit code 130.
    Interrupted,
    /// SIGTERM, such as a preemption: exit code 143.
    Terminated,
    /// A bug in Phalanx: exit code 1.
    Internal,
}

impl Fault {
    /// Returns the exit code of a process that ends because of this fault.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::User | Self::Internal => 1,
            Self::Infrastructure => 138,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $fault:ident;)*) => {
        /// A stable error code, written `PX0101`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// Every code, ordered by number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the party that must act.
            #[must_use]
            pub fn fault(self) -> Fault {
                match self { $(Self::$name => Fault::$fault,)* }
            }

            /// Returns the code with this number; `None` for a number that this build does not know.
            #[must_use]
            pub fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// TF_CONFIG is not JSON.
    ConfigSyntax = 101, Usage;
    /// A value of TF_CONFIG has the wrong type.
    ConfigType = 102, Usage;
    /// The cluster has no chief, or more than one, or both kinds.
    ConfigChief = 103, Usage;
    /// The task's type is missing, empty, or not a job of the cluster.
    ConfigTaskType = 104, Usage;
    /// The task's index is missing, negative, not a number, or beyond the job's tasks.
    ConfigTaskIndex = 105, Usage;
    /// An evaluator where none is allowed, or no task that evaluates.
    ConfigEvaluator = 106, Usage;
    /// `model_dir` is empty, or given twice with different values.
    ConfigModelDir = 107, Usage;
    /// A job name that the rules do not define.
    ConfigJobName = 108, Usage;
    /// An address is malformed or used twice.
    ConfigAddress = 109, Usage;
    /// Command-line flags contradict each other or are missing.
    Flags = 110, Usage;
    /// The cluster does not have the requested job or task.
    NoSuchTask = 111, Usage;
    /// An entry of TF_CONFIG is never read or has no effect.
    ConfigIgnored = 112, Usage;
    /// A job file is not TOML.
    JobSyntax = 113, Usage;
    /// A job file has an unknown key, or lacks a required one.
    JobKey = 114, Usage;
    /// A value in a job file has the wrong type, is out of range, or names something that does not exist.
    JobValue = 115, Usage;
    /// The job file's setting for resuming contradicts what the run directory contains.
    JobResume = 116, Usage;
    /// Another launcher uses the run directory.
    SecondLauncher = 117, Usage;
    /// A run cannot be stopped from here: its launcher is gone, elsewhere, or another user's.
    CannotStop = 118, Usage;
    /// An object was used in a process that was forked from the one that made it.
    Forked = 119, Usage;

    /// Nothing answers at a task's address.
    PeerUnreachable = 201, Infrastructure;
    /// The task at an address belongs to another job.
    WrongJob = 202, Usage;
    /// The task at an address runs another build of the program.
    WrongBuild = 203, Usage;
    /// The task at an address speaks another version of the protocol.
    WrongProtocol = 204, Usage;
    /// The job token is missing or wrong.
    WrongToken = 205, Usage;
    /// Two live processes claim the same task.
    DuplicateTask = 206, Usage;
    /// The task's own port is taken.
    PortInUse = 207, Usage;
    /// The job did not form before the deadline.
    FormationDeadline = 208, Infrastructure;
    /// The chief has been silent for longer than the grace period.
    ChiefLost = 209, Infrastructure;
    /// This task was declared lost and may no longer change anything.
    Fenced = 210, Infrastructure;
    /// A parameter server was lost during the job.
    ServerLost = 211, Infrastructure;
    /// The job ended with an error in another task.
    JobFailed = 212, Infrastructure;
    /// A parameter server was restarted: handles of its previous incarnation are invalid.
    ServerRestarted = 213, Infrastructure;
    /// A task exited with 0 and never joined its job.
    NeverJoined = 214, Usage;
    /// A node cannot be reached, or did not get the files that a job needs there.
    StagingFailed = 215, Infrastructure;

    /// A variable or table of that name exists with another shape, type or rule.
    VariableConflict = 301, User;
    /// No variable or table of that name or handle.
    NoSuchVariable = 302, User;
    /// Shapes or lengths disagree.
    ShapeMismatch = 303, User;
    /// The chief has not initialised the model before the deadline.
    NotInitialized = 304, Infrastructure;
    /// An update arrived out of order.
    UpdateGap = 305, Internal;
    /// A message is malformed, truncated or over a limit.
    BadMessage = 306, Infrastructure;
    /// The deadline passed; whether the request took effect is unknown.
    OutcomeUnknown = 307, Infrastructure;
    /// A gradient or the loss is not finite.
    NotFinite = 308, User;
    /// A setting of an optimizer, partitioner or strategy is out of range.
    BadSetting = 309, Usage;
    /// A step was cancelled before it started.
    Cancelled = 310, User;
    /// The user's step function panicked.
    StepPanicked = 311, User;

    /// A data file is missing or cannot be read.
    DataMissing = 401, User;
    /// A data file does not have the format it should have.
    DataFormat = 402, User;
    /// A row or a value of the input does not parse.
    DataRow = 403, User;
    /// The input has no column of that name, or one of another type.
    DataColumn = 404, User;
    /// The input has ended.
    DataEnd = 405, User;

    /// A storage location is malformed, or this build does not support it.
    StorageLocation = 501, Usage;
    /// A file of the run directory cannot be read.
    StorageRead = 502, Infrastructure;
    /// A file of the run directory cannot be written: disk full, no permission, store unreachable.
    StorageWrite = 503, Infrastructure;
    /// Another job uses the run directory.
    RunDirInUse = 504, Usage;
    /// The run directory was deleted while the job runs. It is created again.
    RunDirDeleted = 505, Infrastructure;
    /// The requested checkpoint does not exist.
    CheckpointMissing = 511, User;
    /// A checkpoint is truncated, damaged or incomplete.
    CheckpointDamaged = 512, User;
    /// A checkpoint and the model differ in names or shapes.
    CheckpointMismatch = 513, User;
    /// The write-ahead log of a parameter server is full.
    LogFull = 521, Infrastructure;
    /// The write-ahead log of a parameter server is damaged.
    LogDamaged = 522, Infrastructure;
    /// There is no memory for a write-ahead log that the job requires.
    LogNoRoom = 523, Usage;

    /// Ctrl-C.
    Interrupted = 801, Interrupted;
    /// SIGTERM.
    Terminated = 802, Terminated;
    /// A bug in Phalanx.
    Internal = 901, Internal;
}

impl Code {
    /// Returns the number that follows `PX`.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PX{:04}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_come_back() {
        let mut last = 0;
        for &code in Code::ALL {
            assert!(code.number() > last, "{code} is out of order");
            last = code.number();
            assert_eq!(Code::from_number(code.number()), Some(code));
        }
        assert_eq!(Code::from_number(0), None);
    }

    #[test]
    fn faults_have_the_exit_codes_of_the_design() {
        let faults = [Fault::Usage, Fault::User, Fault::Infrastructure, Fault::Interrupted, Fault::Terminated];
        assert_eq!(faults.map(Fault::exit_code), [2, 1, 138, 130, 143]);
    }
}
