"""Seeded TF_CONFIG texts: valid ones, broken ones, and everything that Python's json and int() let through."""

import json
import random

ADDRESSES = ["h%d:%d" % (i, 2222 + i) for i in range(9)]
JOBS = ["chief", "worker", "ps", "evaluator", "master", "gpu", "Worker"]
INDICES = [
    0, 1, 2, 3, -1, "0", "1", " 1 ", "+1", "-1", "1_0", "01", "0x1", "", "one", "1.0", 1.7, 0.9, -0.5, 2.0,
    True, False, None, [], {}, [1], "\u0661", "\uff12", "\u00a01", "\x1c1", "1__0", "_1", 10**12, float("nan"),
    float("inf"),
]  # fmt: skip
SCALARS = [None, True, False, 0, 5, 0.0, 2.5, "", "x", "/tmp/x", [], [1], {}, {"a": 1}, float("nan")]
SPARSE_KEYS = ["0", "1", "2", "3", " 1", "01", "1_0", "\u0662", "x", "1.0", "", "2147483648"]
BROKEN = [
    "", " ", "{", "}", "[", "null", "[]", "0", "true", '""', '"x"', "NaN", "{'a': 1}", '{"a": 1,}', "{a: 1}",
    '{"a" 1}', '{"a": 01}', '{"a": 1.}', '{"a": .5}', '{"a": 1e}', '{"a": +1}', '{"a": -}', '{"a": tru}', '{"a": "\t"}',
    '{"a": "\\x"}', '{"a": "\\u12"}', '{"a": "\\u12g4"}', '{"a": "', '{"a": "\\', '{"a": [1,]}', '{"a": [1 2]}', "{} {}",
    '{}x', "\ufeff{}", '{"a": None}', '{"a": True}', "// c\n{}", '{"a": %s}' % ("9" * 4301), "\u00a0{}", "\x0c{}",
    '{"a": -infinity}', '{"a": "\\ud800\\u12"}', '{"a": [}',
]  # fmt: skip
ODD = [
    "{}", " \t\r\n{} \n", '{"service": {"x": NaN, "y": -Infinity, "z": Infinity}}', '{"a": "\\ud83d\\ude00"}',
    '{"a": "\\ud800"}', '{"a": 1e400, "b": -0, "c": -0.0}', '{"a": %s}' % ("9" * 4300), '{"a": "\x7f\u00e9"}',
    '{"task": {"type": "ps"}, "task": {"type": "worker"}}', '{"task": {"type": "worker"}, "task": {"type": "ps"}}',
    '{"cluster": {"chief": ["a:1"]}, "cluster": {}}', '{"service": {"a": %s}}' % ("8" * 40),
    '{"cluster": {"chi\\u0065f": ["a:1"]}, "task": {"type": "\\u0063hief", "index": 0}}',
    '{"cluster": {"chief": ["\\ud800"]}, "task": {"type": "chief", "index": 0}}',
    '{"cluster": {"\\udc00": ["a:1"], "chief": ["b:1"]}, "task": {"type": "chief", "index": 0}}',
    '{"cluster": {"": ["a:1"], "chief": ["b:1"]}, "task": {"type": 5, "index": 0}}',
    '{"cluster": {"": ["a:1"], "chief": ["b:1"]}, "task": {"type": "", "index": 0}}',
    '{"cluster": {"chief": ["a:1"], "chief": ["b:1"], "ps": ["c:1"]}, "task": {"type": "chief", "index": 0}}',
    '["cluster"]', '["x"]', '"a cluster"', '"no"', '{"task": ["type"]}', '{"task": ["x"]}', '{"task": "a type"}',
    '{"task": "x"}', '{"task": 5}', '{"task": null}', '{"task": {"type": null}}', '{"task": {"index": null}}',
    '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 1e300}}',
    '{"task": {"index": -0.9}}', '{"task": {"index": "-0"}}', '{"cluster": null}', '{"cluster": []}',
]  # fmt: skip


def job_tasks(rng, sound):
    """A job's tasks: a list, a sparse map, or (not sound) something that is neither."""
    kind = rng.random()
    if not sound and kind < 0.12:
        return rng.choice(SCALARS + ["h:1", ["h:1", None], ["h:1", 5], {"0": 5}])
    count = rng.choice([1, 1, 2, 3] if sound else [0, 1, 2, 3])
    if kind < 0.3:
        keys = rng.sample(SPARSE_KEYS[:4] if sound else SPARSE_KEYS, min(count, 4))
        return {key: rng.choice(ADDRESSES) for key in keys}
    return [rng.choice(ADDRESSES + ([""] if not sound else [])) for _ in range(count)]


def config(rng):
    """One TF_CONFIG text. Most are sound: a chief, known jobs, and a task that is probably there."""
    sound = rng.random() < 0.7
    tf_config = {}
    if rng.random() < 0.92:
        cluster = {}
        if sound:
            chief = rng.choice(["chief", "chief", "chief", "master", None])
            if chief:
                cluster[chief] = rng.choice([["c:1"], {"0": "c:1"}])
        for job in rng.sample(["worker", "ps", "evaluator", "gpu"] if sound else JOBS, rng.randrange(0, 4)):
            cluster[job] = job_tasks(rng, sound)
        items = list(cluster.items())
        rng.shuffle(items)
        tf_config["cluster"] = dict(items) if sound or rng.random() < 0.95 else rng.choice(SCALARS)
    if rng.random() < 0.93:
        jobs = list(tf_config.get("cluster") or []) if isinstance(tf_config.get("cluster"), dict) else []
        task = {}
        if rng.random() < 0.95:
            pool = (jobs * 3 + ["evaluator", "worker"]) if sound else (jobs + JOBS + [None, "", 5])
            task["type"] = rng.choice(pool)
        if rng.random() < 0.95:
            task["index"] = rng.choice([0, 0, 0, 1, 2] if sound else INDICES)
        tf_config["task"] = task if rng.random() < 0.97 else rng.choice(SCALARS)
    extras = {
        "session_master": SCALARS + ["grpc://m:1"] * 8,
        "eval_session_master": SCALARS + ["grpc://e:1"] * 8,
        "rpc_layer": ["grpc", "grpc+verbs", "", None, 5, True],
        "environment": ["cloud", "google", 5],
        "service": [{"a": [1, 2.5, "x"]}, {}, None] * 2 + ["s", [], 5],
        "model_dir": ["/tmp/m", "/tmp/n", "m"] * 4 + SCALARS,
        "unheard_of": SCALARS,
    }
    for key, values in extras.items():
        if rng.random() < 0.1:
            tf_config[key] = rng.choice(values)
    return json.dumps(tf_config, ensure_ascii=rng.random() < 0.5)


def configs(seed, count):
    """`count` generated texts, then the broken and the odd ones."""
    rng = random.Random(seed)
    return [config(rng) for _ in range(count)] + BROKEN + ODD
