"""The parts that our manifests use of published schemas, written down by hand from them: Kubeflow's CRDs tfjobs.kubeflow.org/v1,
trainingruntimes and trainjobs.trainer.kubeflow.org/v1alpha1, JobSet v1alpha2, and Kubernetes' core and batch v1. A field that is not
listed here is refused: a typing mistake would be ignored by the cluster."""


def object_(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def list_(items, least=1):
    return {"type": "array", "items": items, "minItems": least}


TEXT, COUNT, FLAG = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[numkMGTPE])?$"}
METADATA = object_(["name"], name=NAME, labels={"type": "object", "additionalProperties": TEXT})
RESOURCES = object_([], cpu=QUANTITY, memory=QUANTITY, storage=QUANTITY, **{"nvidia.com/gpu": QUANTITY})

ENV = object_(["name"], name=TEXT, value={"type": "string"}, valueFrom=object_(
    [], secretKeyRef=object_(["key", "name"], name=NAME, key=TEXT), fieldRef=object_(["fieldPath"], fieldPath=TEXT)))
CONTAINER = object_(
    ["name", "image"], name=NAME, image=TEXT, command=list_(TEXT), env=list_(ENV),
    ports=list_(object_(["containerPort"], name=NAME, containerPort={"type": "integer", "minimum": 1, "maximum": 65535})),
    resources=object_([], requests=RESOURCES, limits=RESOURCES),
    securityContext=object_([], allowPrivilegeEscalation=FLAG, readOnlyRootFilesystem=FLAG, capabilities=object_([], drop=list_(TEXT))),
    volumeMounts=list_(object_(["name", "mountPath"], name=NAME, mountPath={"type": "string", "pattern": "^/"})))
POD = object_(["spec"], spec=object_(
    ["containers"], containers=list_(CONTAINER), restartPolicy={"enum": ["Never"]}, terminationGracePeriodSeconds=COUNT,
    securityContext=object_([], runAsNonRoot=FLAG, runAsUser=COUNT, fsGroup=COUNT),
    volumes=list_(object_(["name"], name=NAME, persistentVolumeClaim=object_(["claimName"], claimName=NAME),
                          emptyDir={"type": "object", "maxProperties": 0}))))


def kind(api, name, spec):
    return object_(["apiVersion", "kind", "metadata", "spec"], apiVersion={"const": api}, kind={"const": name}, metadata=METADATA, spec=spec)


CLAIM = kind("v1", "PersistentVolumeClaim", object_(
    ["accessModes", "resources"], accessModes=list_({"enum": ["ReadWriteOnce", "ReadWriteMany"]}), resources=object_(["requests"], requests=RESOURCES)))
REPLICA = object_(["template"], replicas=COUNT, restartPolicy={"enum": ["Always", "OnFailure", "Never", "ExitCode"]}, template=POD)
TFJOB = kind("kubeflow.org/v1", "TFJob", object_(
    ["tfReplicaSpecs"], successPolicy={"enum": ["", "AllWorkers"]},
    runPolicy=object_([], cleanPodPolicy={"enum": ["All", "Running", "None"]}, backoffLimit=COUNT),
    tfReplicaSpecs=object_(["Chief"], Chief=REPLICA, Worker=REPLICA, PS=REPLICA, Evaluator=REPLICA)))
JOB = object_(["spec"], spec=object_(
    ["template"], parallelism=COUNT, completions=COUNT, completionMode={"enum": ["Indexed", "NonIndexed"]}, backoffLimit=COUNT, template=POD,
    podFailurePolicy=object_(["rules"], rules=list_(object_(
        ["action"], action={"enum": ["FailJob", "Ignore", "Count", "FailIndex"]},
        onExitCodes=object_(["operator", "values"], operator={"enum": ["In", "NotIn"]}, values=list_(COUNT)))))))
RUNTIME = kind("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", object_(["template"], template=object_(["spec"], spec=object_(
    ["replicatedJobs"], network=object_([], enableDNSHostnames=FLAG, subdomain=NAME, publishNotReadyAddresses=FLAG),
    successPolicy=object_(["operator"], operator={"enum": ["All", "Any"]}, targetReplicatedJobs=list_(NAME)),
    failurePolicy=object_([], maxRestarts=COUNT),
    replicatedJobs=list_(object_(["name", "template"], name=NAME, replicas=COUNT, template=JOB))))))
TRAINJOB = kind("trainer.kubeflow.org/v1alpha1", "TrainJob", object_(
    ["runtimeRef"], runtimeRef=object_(["name"], apiGroup={"const": "trainer.kubeflow.org"}, kind={"enum": ["TrainingRuntime", "ClusterTrainingRuntime"]}, name=NAME)))

KINDS = {"PersistentVolumeClaim": CLAIM, "TFJob": TFJOB, "TrainingRuntime": RUNTIME, "TrainJob": TRAINJOB}

SERVICE = object_(
    ["image"], image=TEXT, command=list_(TEXT), restart={"type": "string", "pattern": "^(no|always|unless-stopped|on-failure(:[0-9]+)?)$"},
    stop_grace_period={"type": "string", "pattern": "^[0-9]+s$"}, stop_signal={"enum": ["SIGTERM"]}, user=TEXT, read_only=FLAG, tmpfs=list_(TEXT),
    cap_drop=list_(TEXT), security_opt=list_(TEXT), volumes=list_({"type": "string", "pattern": "^[a-z]+:/"}), hostname=NAME,
    environment={"type": "object", "additionalProperties": {"type": "string"}}, cpus={"type": "number", "exclusiveMinimum": 0},
    mem_limit={"type": "string", "pattern": "^[0-9]+[bkmg]$"}, deploy=object_([], resources=object_([], reservations=object_([], devices=list_(object_(
        ["capabilities"], driver=TEXT, count=COUNT, capabilities=list_(TEXT)))))))
# The compose specification, services as they are after merging; names that begin with x- are free.
COMPOSE = {**object_(["services"], name=NAME, services={"type": "object", "additionalProperties": SERVICE},
                     volumes={"type": "object", "additionalProperties": {"type": ["object", "null"]}}), "patternProperties": {"^x-": {}}}
