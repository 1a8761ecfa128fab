//! What each role asks of its machine.

/// The flags for CPUs, memory and GPUs.
#[derive(Debug, clap::Args)]
pub(super) struct ResourceArgs {
    /// CPUs of a trainer, and of other tasks unless they have a number of their own
    #[arg(long, default_value_t = 2)]
    cpus: u32,
    /// Memory of a trainer, in GiB, and of other tasks unless they have a number of their own
    #[arg(long, default_value_t = 4)]
    memory: u32,
    /// GPUs of a trainer
    #[arg(long, default_value_t = 0)]
    gpus: u32,
    /// CPUs of a parameter server
    #[arg(long, value_name = "CPUS")]
    ps_cpus: Option<u32>,
    /// Memory of a parameter server, in GiB
    #[arg(long, value_name = "MEMORY")]
    ps_memory: Option<u32>,
    /// CPUs of the evaluator
    #[arg(long, value_name = "CPUS")]
    evaluator_cpus: Option<u32>,
    /// Memory of the evaluator, in GiB
    #[arg(long, value_name = "MEMORY")]
    evaluator_memory: Option<u32>,
}

/// What one task asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) cpus: u32,
    /// In GiB.
    pub(super) memory: u32,
    pub(super) gpus: u32,
}

impl ResourceArgs {
    /// What a task of a role asks for. Only trainers compute gradients, so only they have GPUs.
    pub(super) fn of(&self, role: &str) -> Resources {
        let (cpus, memory, gpus) = match role {
            "ps" => (self.ps_cpus, self.ps_memory, 0),
            "evaluator" => (self.evaluator_cpus, self.evaluator_memory, 0),
            _ => (None, None, self.gpus),
        };
        Resources { cpus: cpus.unwrap_or(self.cpus), memory: memory.unwrap_or(self.memory), gpus }
    }

    /// What a node asks for that runs a trainer and a parameter server: the trainer's share, and that of the parameter server if
    /// it has one of its own.
    pub(super) fn of_node(&self) -> Resources {
        let trainer = self.of("worker");
        Resources {
            cpus: trainer.cpus.saturating_add(self.ps_cpus.unwrap_or(0)),
            memory: trainer.memory.saturating_add(self.ps_memory.unwrap_or(0)),
            gpus: trainer.gpus,
        }
    }
}
