//! Slurm: a batch script that starts a launcher on every node of the allocation.

use super::{ManifestArgs, Written};
use phalanx_launch::shell_quoted;

pub(super) fn files(args: &ManifestArgs) -> Vec<Written> {
    let words: Vec<String> = args.words().iter().map(|word| shell_quoted(word)).collect();
    let program = if words.is_empty() { "./train".to_owned() } else { words.join(" ") };
    let evaluator = if args.evaluator { " --evaluator" } else { "" };
    let node = args.resources.of_node();
    let gpus = if node.gpus > 0 { format!("#SBATCH --gpus-per-node={}\n", node.gpus) } else { String::new() };
    let text = format!(
        "#!/usr/bin/env bash\n\
         # A trainer and a parameter server on every node; the first node's trainer is the chief.\n\
         #   sbatch {name}.sbatch\n\
         #SBATCH --job-name={name}\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task={cpus}\n\
         #SBATCH --mem={memory}G\n{gpus}#SBATCH --requeue\n\
         # SIGTERM comes 60 s before the time is over: every task saves and ends with 143.\n#SBATCH --signal=TERM@60\n\
         set -euo pipefail\n\
         umask 077\n\
         PHALANX_TOKEN=${{PHALANX_TOKEN:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')}}\n\
         export PHALANX_TOKEN\n\
         nodes=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | paste -sd, -)\n\
         model={model}\n\
         export nodes model\n\
         srun --kill-on-bad-exit=1 bash -c 'exec phalanx launch --nodes \"$nodes\" --node \"$SLURM_NODEID\" \\\n  \
         --worker-port {worker} --ps-port {ps}{evaluator} --no-dashboard --progress plain \\\n  \
         --run-dir \"runs/{name}-$SLURM_JOB_ID/node-$SLURM_NODEID\" --model-dir \"$model\" -- \"$@\"' launch {program}\n",
        name = args.name,
        nodes = args.workers + 1,
        cpus = node.cpus,
        memory = node.memory,
        worker = args.port.saturating_add(1),
        ps = args.port,
        model = shell_quoted(&args.model_dir),
    );
    vec![Written { name: format!("{}.sbatch", args.name), text }]
}
