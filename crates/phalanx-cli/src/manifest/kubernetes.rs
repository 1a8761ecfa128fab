//! Kubeflow: TFJob v1, and Trainer v2, which has no TFJob any more.

use super::resources::Resources;
use super::{ManifestArgs, Written, quoted};

/// The volume claim, and how to create the secret, which belongs in no file.
fn shared(args: &ManifestArgs) -> String {
    let name = &args.name;
    format!(
        "# The token that every call between tasks carries:\n\
         #   kubectl create secret generic {name}-token --from-literal=token=\"$(openssl rand -hex 16)\"\n\
         apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: {name}-model\nspec:\n  accessModes: [ReadWriteMany]\n  \
         resources:\n    requests:\n      storage: 10Gi\n---\n"
    )
}

/// A pod of one role, indented by `by` spaces.
fn pod(args: &ManifestArgs, role: &str, container: &str, (restart, env): (&str, &str), by: usize) -> String {
    let Resources { cpus, memory, gpus } = args.resources.of(role);
    let gpus = if gpus > 0 { format!("\n        nvidia.com/gpu: \"{gpus}\"") } else { String::new() };
    let command = match args.words() {
        [] => String::new(),
        words => format!("    command: [{}]\n", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ")),
    };
    let text = format!(
        "spec:\n{restart}  terminationGracePeriodSeconds: 30\n  securityContext:\n    runAsNonRoot: true\n    runAsUser: 65532\n    \
         fsGroup: 65532\n  containers:\n  - name: {container}\n    image: {image}\n{command}    env:\n    - name: PHALANX_TOKEN\n      \
         valueFrom:\n        secretKeyRef:\n          name: {name}-token\n          key: token\n{env}    ports:\n    - name: tfjob-port\n      \
         containerPort: {port}\n    resources:\n      requests:\n        cpu: \"{cpus}\"\n        memory: {memory}Gi\n      limits:\n        \
         memory: {memory}Gi{gpus}\n    securityContext:\n      allowPrivilegeEscalation: false\n      readOnlyRootFilesystem: true\n      \
         capabilities:\n        drop: [ALL]\n    volumeMounts:\n    - name: model\n      mountPath: {model}\n    - name: tmp\n      \
         mountPath: /tmp\n  volumes:\n  - name: model\n    persistentVolumeClaim:\n      claimName: {name}-model\n  - name: tmp\n    \
         emptyDir: {{}}\n",
        image = quoted(&args.image),
        name = args.name,
        port = args.port,
        model = quoted(&args.model_dir),
    );
    indented(&text, by)
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{:by$}{line}\n", "") }).collect()
}

pub(super) fn tfjob(args: &ManifestArgs) -> Vec<Written> {
    let mut text = shared(args);
    text += &format!(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  name: {}\nspec:\n  runPolicy:\n    cleanPodPolicy: Running\n    \
         backoffLimit: 10\n  successPolicy: \"\"\n  tfReplicaSpecs:\n",
        args.name
    );
    for (role, count) in args.roles() {
        let kind = match role {
            "chief" => "Chief",
            "worker" => "Worker",
            "ps" => "PS",
            _ => "Evaluator",
        };
        // ExitCode retries 138 and 143, but not 1 and 2.
        text += &format!("    {kind}:\n      replicas: {count}\n      restartPolicy: ExitCode\n      template:\n");
        text += &pod(args, role, "tensorflow", ("", ""), 8);
    }
    vec![Written { name: "tfjob.yaml".to_owned(), text }]
}

/// Trainer v2 sets no TF_CONFIG: the pods of each role derive it from their index in the job.
pub(super) fn trainjob(args: &ManifestArgs) -> Vec<Written> {
    let name = &args.name;
    let host = |role: &str, index: u32| format!("{name}-{role}-0-{index}.{name}:{}", args.port);
    let cluster = args.cluster(host);
    let mut runtime = shared(args);
    runtime += &format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata:\n  name: {name}\n  labels:\n    \
         trainer.kubeflow.org/framework: phalanx\nspec:\n  template:\n    spec:\n      network:\n        enableDNSHostnames: true\n        \
         subdomain: {name}\n      successPolicy:\n        operator: All\n        targetReplicatedJobs: [chief]\n      failurePolicy:\n        \
         maxRestarts: 3\n      replicatedJobs:\n"
    );
    for (role, count) in args.roles() {
        // Without an ancestor label, Trainer does not change the size of the job.
        let env = format!(
            "    - name: TASK_INDEX\n      valueFrom:\n        fieldRef:\n          fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']\n    \
             - name: TF_CONFIG\n      value: {}\n",
            quoted(&format!("{{\"cluster\":{cluster},\"task\":{{\"type\":\"{role}\",\"index\":$(TASK_INDEX)}}}}"))
        );
        runtime += &format!(
            "      - name: {role}\n        replicas: 1\n        template:\n          spec:\n            parallelism: {count}\n            \
             completions: {count}\n            completionMode: Indexed\n            backoffLimit: 10\n            podFailurePolicy:\n              rules:\n              \
             - action: FailJob\n                onExitCodes:\n                  operator: In\n                  values: [1, 2, 126, 127]\n            template:\n"
        );
        runtime += &pod(args, role, "node", ("  restartPolicy: Never\n", &env), 14);
    }
    let job = format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: {name}\nspec:\n  runtimeRef:\n    \
         apiGroup: trainer.kubeflow.org\n    kind: TrainingRuntime\n    name: {name}\n"
    );
    vec![
        Written { name: "runtime.yaml".to_owned(), text: runtime },
        Written { name: "trainjob.yaml".to_owned(), text: job },
    ]
}
