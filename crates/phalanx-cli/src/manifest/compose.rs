//! Docker compose: a service for every task, on one machine.

use super::resources::Resources;
use super::{ManifestArgs, Written, quoted};

pub(super) fn files(args: &ManifestArgs) -> Vec<Written> {
    let cluster = args.cluster(|role, index| format!("{role}-{index}:{}", args.port));
    let mut text = format!(
        "# PHALANX_TOKEN=$(openssl rand -hex 16) docker compose up --abort-on-container-exit --exit-code-from chief-0\n\
         name: {}\nx-task: &task\n  image: {}\n{}  restart: on-failure:3\n  stop_grace_period: 30s\n  stop_signal: SIGTERM\n  \
         user: \"65532:65532\"\n  read_only: true\n  tmpfs: [/tmp]\n  cap_drop: [ALL]\n  security_opt: [\"no-new-privileges:true\"]\n  \
         volumes:\n  - model:{}\nservices:\n",
        args.name,
        quoted(&args.image),
        match args.words() {
            [] => String::new(),
            words => {
                // Compose substitutes variables after a dollar.
                let words = words.iter().map(|word| quoted(&word.replace('$', "$$")));
                format!("  command: [{}]\n", words.collect::<Vec<_>>().join(", "))
            }
        },
        args.model_dir,
    );
    for (role, count) in args.roles() {
        let Resources { cpus, memory, gpus } = args.resources.of(role);
        let mut limits = format!("    cpus: {cpus}\n    mem_limit: {memory}g\n");
        if gpus > 0 {
            limits += &format!(
                "    deploy:\n      resources:\n        reservations:\n          devices:\n          - driver: nvidia\n            \
                 count: {gpus}\n            capabilities: [gpu]\n"
            );
        }
        for index in 0..count {
            let config = format!("{{\"cluster\":{cluster},\"task\":{{\"type\":\"{role}\",\"index\":{index}}}}}");
            text += &format!(
                "  {role}-{index}:\n    <<: *task\n    hostname: {role}-{index}\n    environment:\n      TF_CONFIG: {}\n      \
                 PHALANX_TOKEN: ${{PHALANX_TOKEN:?set it to a secret}}\n{limits}",
                quoted(&config)
            );
        }
    }
    text += "volumes:\n  model:\n";
    vec![Written { name: "compose.yaml".to_owned(), text }]
}
