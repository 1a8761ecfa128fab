"""Holds `phalanx tf-config` against real TensorFlow: the same TF_CONFIGs accepted, the same values derived.

Run with the interpreter of an environment that has tensorflow 2.15 and pytest, and PHALANX_BIN=path/to/phalanx.

One TensorFlow accident counts as a rejection: RunConfig ends in a TypeError when the task's own index is a hole of a
sparse job, because it adds None to "grpc://". We refuse such a task with an error that explains it. Any exception of
TensorFlow's constructor counts as a rejection, of whatever class.
"""

import json
import os
import random

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="needs tensorflow 2.15")

from tensorflow.python.distribute import multi_worker_util as util  # noqa: E402

from configs import configs  # noqa: E402

CLUSTER = {"chief": ["c:1"], "ps": ["p0:1", "p1:1"], "worker": ["w0:1", "w1:1", "w2:1"]}
LEGACY = {"master": ["m:1"], "ps": ["p0:1"], "worker": ["w0:1"]}


def set_tf_config(text):
    os.environ.pop("TF_CONFIG", None)
    if text is not None:
        os.environ["TF_CONFIG"] = text


def plain(value):
    """A value as our JSON writes it: sparse indices are strings, and there is no NaN or Infinity."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def run_config(text, model_dir=None):
    """What RunConfig makes of it, or the exception."""
    set_tf_config(text)
    try:
        config = tf.estimator.RunConfig(model_dir=model_dir)
        filters = list(config.session_config.device_filters) if config.session_config else []
    except Exception as error:  # noqa: BLE001 - whatever it raises is a rejection
        return error
    names = "task_type task_id is_chief num_worker_replicas num_ps_replicas global_id_in_cluster master"
    names += " evaluation_master service model_dir"
    values = {name: plain(getattr(config, name)) for name in names.split()}
    return {**values, "cluster_spec": plain(config.cluster_spec.as_dict()), "device_filters": filters}


def attempt(function, *arguments):
    """The value, or None where TensorFlow raises when asked for it."""
    try:
        return function(*arguments)
    except Exception:  # noqa: BLE001
        return None


def resolver(text):
    """What the resolver and multi_worker_util make of it, or the exception."""
    set_tf_config(text)
    found = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        spec, task_type, task_id = found.cluster_spec(), found.task_type, found.task_id
        if spec:
            util._validate_cluster_spec(spec, task_type, task_id)
    except Exception as error:  # noqa: BLE001
        return error
    local = not spec  # The strategies then take this process for all there is.
    return {
        "task_type": task_type,
        "task_id": task_id,
        "is_chief": True if local else util.is_chief(spec, task_type, task_id),
        "num_worker_replicas": 1 if local else attempt(util.worker_count, spec, task_type),
        "num_ps_replicas": util.task_count(spec, "ps"),
        "global_id_in_cluster": 0 if local else attempt(util.id_in_cluster, spec, task_type, task_id),
        "collective_leader": attempt(util.collective_leader, spec, task_type, task_id),
        "coordination_leader": attempt(util.coordination_leader, spec),
        "master": plain(attempt(found.master)),
        "cluster_spec": plain(spec.as_dict()),
    }


def differences(theirs, ours):
    if isinstance(theirs, Exception):
        return [] if "error" in ours else [f"TensorFlow rejects it: {theirs!r}"]
    if "error" in ours:
        return [f"we reject it: {ours['error']}"]
    # In Python 1 == True; in JSON it is not.
    same = lambda a, b: json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)  # noqa: E731
    return [f"{k}: TensorFlow {v!r}, ours {ours[k]!r}" for k, v in theirs.items() if not same(v, plain(ours[k]))]


def compare(cases, reference, ours):
    """Asserts that all cases agree, and that both answers were seen often enough to mean something."""
    wrong, accepted = [], 0
    for case in cases:
        theirs = reference(*case)
        accepted += not isinstance(theirs, Exception)
        wrong += [f"{case!r}\n    {line}" for line in differences(theirs, ours(*case))]
    print(f"\n{len(cases)} cases: TensorFlow accepts {accepted}, rejects {len(cases) - accepted}; {len(wrong)} differ")
    assert not wrong, "\n".join(wrong[:20])
    assert len(cases) * 0.1 < accepted < len(cases) * 0.9


def case(cluster=None, task_type=None, index=None, **more):
    tf_config = dict(more)
    if cluster is not None:
        tf_config["cluster"] = cluster
    task = {key: value for key, value in (("type", task_type), ("index", index)) if value is not None}
    return json.dumps({**tf_config, "task": task} if task else tf_config)


REJECTED = {  # The rows of the table of RunConfig's rules, and what they are called here.
    "1 service is not an object": (case(service="s"), "PX0102"),
    "2 cluster is not an object": (case(["a:1"], "chief", 0), "PX0102"),
    "3 a job is a bare string": (case({"chief": "a:1"}, "chief", 0), "PX0102"),
    "4 chief and master": (case({**CLUSTER, "master": ["m:1"]}, "worker", 0), "PX0103"),
    "5 no chief": (case({"worker": ["a:1"], "ps": ["b:1"]}, "worker", 0), "PX0103"),
    "6 two chiefs": (case({"chief": ["a:1", "b:1"]}, "chief", 0), "PX0103"),
    "7 no task type": (case(CLUSTER, None, 0), "PX0104"),
    "7 empty task type": (case(CLUSTER, "", 0), "PX0104"),
    "8 no task index": (case(CLUSTER, "worker"), "PX0105"),
    "9 index is no number": (case(CLUSTER, "worker", "one"), "PX0105"),
    "10 negative index": (case(CLUSTER, "worker", -1), "PX0105"),
    "10 negative evaluator": (case(CLUSTER, "evaluator", -1), "PX0105"),
    "11 unknown type": (case(CLUSTER, "wroker", 0), "PX0104"),
    "12 index too large": (case(CLUSTER, "worker", 3), "PX0105"),
    "12b own index is a hole": (case({"chief": ["c:1"], "worker": {"0": "a:1", "2": "b:1"}}, "worker", 1), "PX0105"),
    "13 evaluator beside a master": (case(LEGACY, "evaluator", 0), "PX0106"),
    "14 chief without cluster": (case(None, "chief", 0), "PX0104"),
    "14 evaluator without cluster": (case(None, "evaluator", 0), "PX0104"),
    "15 index without cluster": (case(None, "worker", 1), "PX0105"),
    "16 empty model_dir": (case(model_dir=""), "PX0107"),
    "an empty text": ("", "PX0101"),
    "a trailing comma": ('{"cluster": {"chief": ["a:1"],}}', "PX0101"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejects_what_run_config_rejects(phalanx, name):
    text, code = REJECTED[name]
    assert isinstance(run_config(text), Exception)
    assert phalanx(text)["error"]["code"] == code


def test_model_dir_given_twice(phalanx):
    """Rules 16 and 17: the program's own model_dir beside that of TF_CONFIG."""
    values = [None, "", "/a", "/b", 0, False, [], 5]
    cases = [(case(model_dir=given), own) for given in values for own in (None, "", "/a")]
    compare(cases, run_config, lambda text, own: phalanx(text, *(["--model-dir", own] if own is not None else [])))


def test_derives_what_run_config_derives(phalanx):
    """Every task of the sheet's example cluster, legacy and local ones, and clusters that only look strange."""
    cases = [(case(CLUSTER, job, i),) for job, tasks in CLUSTER.items() for i in range(len(tasks) + 1)]
    cases += [(case(LEGACY, job, 0),) for job in (*LEGACY, "evaluator")]
    cases += [(case(CLUSTER, "evaluator", i, eval_session_master="grpc://e:1", session_master="x"),) for i in (0, 3)]
    cases += [(None,), ("{}",), (case(session_master="grpc://m:1", eval_session_master="grpc://e:1"),)]
    cases += [(case({"chief": ["a:1"]}, "chief", 0),), (case({"master": ["a:1"]}, "master", 0),)]
    cases += [(case({**CLUSTER, "evaluator": ["e:1"]}, job, 0),) for job in (*CLUSTER, "evaluator")]
    cases += [(case({**CLUSTER, "gpu": ["g:1"]}, job, 0),) for job in (*CLUSTER, "gpu")]
    sparse = {"chief": ["c:1"], "worker": {"1": "a:1", "4": "b:1"}, "ps": {"1": "p:1", "0": "q:1"}}
    cases += [(case(sparse, job, i),) for job in sparse for i in range(6)]
    cases += [(case(sparse, "worker", 2, session_master="grpc://m:1"),)]
    cases += [(case({"chief": ["c:1"], "worker": [], "ps": ["p:1"]}, job, 0),) for job in ("chief", "worker", "ps")]
    cases += [(case({"chief": []}, "chief", 0),), (case({"chief": {"1": "a:1"}}, "chief", 1),)]
    cases += [(case(CLUSTER, "worker", 1, environment="cloud", rpc_layer="grpc", service={"a": 1}, model_dir="/m"),)]
    compare(cases, run_config, phalanx)


def test_generated_estimator_configs_agree(phalanx):
    cases = [(text,) for text in configs(seed=1, count=600)]
    cases += [(text, random.Random(text).choice(["/tmp/m", "x"])) for text in configs(seed=2, count=40)[:40]]
    compare(cases, run_config, lambda text, *own: phalanx(text, *(["--model-dir", *own] if own else [])))


def test_generated_distribute_configs_agree(phalanx):
    cases = [(case(CLUSTER, job, i),) for job, tasks in CLUSTER.items() for i in range(-1, len(tasks) + 1)]
    cases += [(case({"worker": ["a:1", "b:1"]}, "worker", i, rpc_layer="grpc"),) for i in range(3)]
    cases += [(case({**CLUSTER, "evaluator": ["e:1"]}, "evaluator", 0),), (case(LEGACY, "worker", 0),), (None,)]
    cases += [(text,) for text in configs(seed=3, count=400)]
    compare(cases, resolver, lambda text: phalanx(text, "--rules", "distribute"))


def test_narrower_on_purpose(phalanx):
    """What TensorFlow accepts and we refuse: the whole list, so that nothing joins it unseen."""
    deep = {}
    for _ in range(70):
        deep = {"d": deep}
    chief = {"chief": ["c:1"]}
    for text in [
        case({**chief, "worker": {"-1": "a:1"}}, "chief", 0),  # listed from the end of the job, on top of another task
        case({**chief, "worker": {"2000000": "a:1"}}, "chief", 0),  # TensorFlow makes a list of two million
        case(chief, "evaluator", 1e300),  # train_and_evaluate refuses every evaluator but 0
        case(service=deep),  # deeper than anybody writes
    ]:
        assert not isinstance(run_config(text), Exception), text
        assert "error" in phalanx(text), text


def test_warns_where_tensorflow_is_silent(phalanx):
    traps = {
        case({**CLUSTER, "evaluator": ["e:1"]}, "chief", 0): "PX0106",
        case({"chief": ["a:1"]}, "chief", 0): "PX0106",
        case({**CLUSTER, "wroker": ["x:1"]}, "chief", 0): "PX0108",
        case({"chief": ["a:1"], "ps": ["a:1"]}, "chief", 0): "PX0109",
        case({"chief": ["a:1"], "ps": ["b"]}, "chief", 0): "PX0109",
        case(CLUSTER, "chief", 0, environment="cloud"): "PX0112",
        case(clusster=CLUSTER): "PX0112",
        case({"chief": ["c:1"], "worker": {"0": "a:1", "2": "b:1"}}, "worker", 1, session_master="m"): "PX0105",
    }
    for text, code in traps.items():
        assert not isinstance(run_config(text), Exception), text
        assert code in [warning["code"] for warning in phalanx(text)["warnings"]], text
    assert phalanx(case(CLUSTER, "worker", 1))["warnings"] == []
