"""What `phalanx manifest` writes, held against schemas and, where they are on the machine, the tools' own checkers.

    PHALANX_BIN=… python -m pytest -q tests/manifests        needs PyYAML and jsonschema
"""

import json
import os
import re
import shutil
import subprocess

import jsonschema
import pytest
import yaml
from schemas import COMPOSE, KINDS

FLAGS = ["--name", "ctr", "--workers", "2", "--ps", "2", "--evaluator", "--model-dir", "/model"]
# Words that YAML, a shell, compose and systemd would each like to read otherwise.
PROGRAM = ["/bin/train", "--rate=0.1", "it's: #1", "50% $HOME", 'a "b"', "no", "1e3"]


def write(target, folder, *more):
    binary = os.environ.get("PHALANX_BIN") or pytest.fail("set PHALANX_BIN to the phalanx binary")
    subprocess.run([binary, "manifest", target, *FLAGS, *more, "--out", str(folder), "--", *PROGRAM], check=True, timeout=60, stdout=subprocess.DEVNULL)


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


def checked(tool):
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")


@pytest.mark.parametrize("target, kinds", [
    ("tfjob", {"PersistentVolumeClaim", "TFJob"}), ("trainjob", {"PersistentVolumeClaim", "TrainingRuntime", "TrainJob"})])
def test_kubernetes_files_hold_to_the_published_schemas(tmp_path, target, kinds):
    write(target, tmp_path)
    found = [one for path in tmp_path.iterdir() for one in documents(path)]
    assert {one["kind"] for one in found} == kinds
    for one in found:
        jsonschema.validate(one, KINDS[one["kind"]], cls=jsonschema.Draft202012Validator)


def test_a_tfjob_has_every_role_and_restarts_by_exit_code(tmp_path):
    write("tfjob", tmp_path)
    job = documents(tmp_path / "tfjob.yaml")[1]
    specs = job["spec"]["tfReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in specs.items()} == {"Chief": 1, "Worker": 2, "PS": 2, "Evaluator": 1}
    for spec in specs.values():
        assert spec["restartPolicy"] == "ExitCode"
        container = spec["template"]["spec"]["containers"][0]
        assert (container["name"], container["command"]) == ("tensorflow", PROGRAM)
        assert container["ports"][0] == {"name": "tfjob-port", "containerPort": 2222}
        assert container["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "ctr-token", "key": "token"}


def test_a_trainer_runtime_tells_every_pod_who_it_is(tmp_path):
    write("trainjob", tmp_path)
    runtime = documents(tmp_path / "runtime.yaml")[1]
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == ["chief", "worker", "ps", "evaluator"]
    for job in jobs:
        env = {one["name"]: one for one in job["template"]["spec"]["template"]["spec"]["containers"][0]["env"]}
        # Kubernetes puts the pod's place in.
        config = json.loads(env["TF_CONFIG"]["value"].replace("$(TASK_INDEX)", "0"))
        assert config["task"] == {"type": job["name"], "index": 0}
        assert config["cluster"]["ps"] == ["ctr-ps-0-0.ctr:2222", "ctr-ps-0-1.ctr:2222"]
        assert "evaluator" not in config["cluster"]


def test_compose_services_name_each_other(tmp_path):
    write("compose", tmp_path)
    text = yaml.safe_load((tmp_path / "compose.yaml").read_text())
    jsonschema.validate(text, COMPOSE, cls=jsonschema.Draft202012Validator)
    assert set(text["services"]) == {"chief-0", "worker-0", "worker-1", "ps-0", "ps-1", "evaluator-0"}
    for name, service in text["services"].items():
        config = json.loads(service["environment"]["TF_CONFIG"])
        assert f"{config['task']['type']}-{config['task']['index']}" == name
        assert [word.replace("$$", "$") for word in service["command"]] == PROGRAM
        for addresses in config["cluster"].values():
            assert all(address.split(":")[0] in text["services"] for address in addresses)


def test_compose_itself_takes_it(tmp_path):
    checked("docker")
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode:
        pytest.skip("needs docker compose")
    write("compose", tmp_path)
    env = {**os.environ, "PHALANX_TOKEN": "secret"}
    done = subprocess.run(["docker", "compose", "-f", tmp_path / "compose.yaml", "config", "-q"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_systemd_itself_takes_the_unit(tmp_path):
    write("systemd", tmp_path)
    unit = tmp_path / "ctr@.service"
    assert {path.name for path in tmp_path.iterdir()} == {"ctr@.service", *(f"{task}.env" for task in (
        "chief-0", "worker-0", "worker-1", "ps-0", "ps-1", "evaluator-0"))}
    config = json.loads(re.fullmatch(r"TF_CONFIG='(.*)'\n", (tmp_path / "ps-1.env").read_text())[1])
    assert config["task"] == {"type": "ps", "index": 1}
    addresses = [address for list_ in config["cluster"].values() for address in list_]
    assert len(set(addresses)) == len(addresses) == 5
    checked("systemd-analyze")
    # The program is not on this machine; a program that is stands for it, with the same arguments.
    unit.write_text(unit.read_text().replace("/bin/train", "/bin/true"))
    instance = tmp_path / "ctr@ps-1.service"
    instance.symlink_to(unit)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", instance], capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if "ctr@" in line]
    assert complaints == [], complaints


def test_a_shell_takes_the_batch_script(tmp_path):
    write("slurm", tmp_path)
    script = tmp_path / "ctr.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    # With stand-ins for Slurm and the launcher the whole script runs, and hands the program's words on unchanged.
    for name, body in [("scontrol", "printf 'n0\\nn1\\nn2\\n'"), ("srun", 'shift; export SLURM_NODEID=1; exec "$@"'), ("phalanx", 'printf "%s\\n" "$@"')]:
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "n[0-2]", "SLURM_JOB_ID": "7"}
    done = subprocess.run(["bash", script], env=env, capture_output=True, text=True, check=True, timeout=60)
    words = done.stdout.splitlines()
    assert words[words.index("--") + 1:] == PROGRAM
    assert words[words.index("--nodes") + 1] == "n0,n1,n2"
    assert words[words.index("--node") + 1] == "1"
    assert "#SBATCH --nodes=3\n" in script.read_text()


ROLES = ["--cpus", "8", "--memory", "16", "--gpus", "2", "--ps-cpus", "4", "--ps-memory", "32", "--evaluator-cpus", "1", "--evaluator-memory", "3"]


def test_every_role_asks_for_what_it_needs(tmp_path):
    wanted = {"Chief": (8, 16, 2), "Worker": (8, 16, 2), "PS": (4, 32, 0), "Evaluator": (1, 3, 0)}
    write("tfjob", tmp_path, *ROLES)
    job = documents(tmp_path / "tfjob.yaml")[1]
    jsonschema.validate(job, KINDS["TFJob"], cls=jsonschema.Draft202012Validator)
    for role, spec in job["spec"]["tfReplicaSpecs"].items():
        cpus, memory, gpus = wanted[role]
        asked = spec["template"]["spec"]["containers"][0]["resources"]
        assert asked["requests"] == {"cpu": str(cpus), "memory": f"{memory}Gi"}
        assert asked["limits"] == {"memory": f"{memory}Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    write("compose", tmp_path, *ROLES)
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        cpus, memory, gpus = next(found for role, found in wanted.items() if name.startswith(role.lower()))
        assert (service["cpus"], service["mem_limit"]) == (cpus, f"{memory}g")
        assert ("deploy" in service) == bool(gpus)
    write("slurm", tmp_path, *ROLES)
    script = (tmp_path / "ctr.sbatch").read_text()
    assert "--cpus-per-task=12\n" in script and "--mem=48G\n" in script and "--gpus-per-node=2\n" in script
