#!/usr/bin/env bash
# Pauses of a running demo: the chief is stopped for 7.5 s four times, then each parameter server for 5, 30 and 60 s. Nobody may be
# thrown out or started again, no failure may be reported, and every update must count exactly once.
#
#   tests/acceptance/pauses.sh PHALANX [ROUNDS]
#
# Exit codes: 0 all good, 1 something is not, 2 wrong usage. A round takes about seven minutes.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -x "$1" ]; then
  echo "usage: $0 PHALANX [ROUNDS]" >&2
  exit 2
fi
phalanx=$(realpath "$1") rounds=${2:-1}
. "$(dirname "$0")/lib.sh"
stopped=()
clean_up() { for pid in "${stopped[@]}"; do kill -CONT "$pid" 2>/dev/null || true; done; }
cd "$work"
unset TF_CONFIG PHALANX_TOKEN

fail() {
  echo "FAILED: pauses: $1" >&2
  tail -n 40 "$work/$job" >&2
  exit 1
}
# pid TASK: of the process that is that task now.
pid() {
  "$phalanx" status "$job.dir" --json | python3 -c 'import json, sys
for task in json.load(sys.stdin)["tasks"]:
    if task["task"] == sys.argv[1]: print(task["pid"])' "$1"
}
step() { "$phalanx" status "$job.dir" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["step"] or 0)'; }
training() {
  for _ in $(seq 600); do
    if [ "$(step 2>/dev/null || echo 0)" -gt 500 ]; then return; fi
    sleep 0.1
  done
  fail "training did not begin within 60 s"
}
# pause TASK SECONDS
pause() {
  local process
  process=$(pid "$1")
  kill -0 "$process" 2>/dev/null || fail "$1 was over before its pause of $2 s"
  stopped+=("$process")
  kill -STOP "$process"
  sleep "$2"
  kill -CONT "$process"
  sleep 4
}
begin() { # NAME STEPS
  job=$1
  start "$job" 600 "$phalanx" demo --no-dashboard --max-steps "$2" --model-dir "$job.dir"
  training
}
finish() {
  wait_for_tasks || fail "the job failed"
  "$phalanx" status "$job.dir" --json >status.json
  # A line of the launcher or of a task that tells of a fault which did not happen.
  if grep -nE 'PX0[0-9]{3}|exit code|Restarting|root cause' "$job"; then fail "a failure was reported"; fi
  python3 - "$phalanx" "$job.dir" "$job" <<'PYTHON' || fail "updates do not count once"
import json, re, subprocess, sys
phalanx, directory, log = sys.argv[1:]
for task in json.load(open("status.json"))["tasks"]:
    assert task["attempt"] == 1 and task["exit"] == 0, task
def values(name):
    shown = subprocess.run([phalanx, "ckpt", "show", directory, "--values", name, "--json"], check=True, capture_output=True)
    return json.loads(shown.stdout)["values"]
def flat(value):
    return [number for part in value for number in flat(part)] if isinstance(value, list) else [value]
(global_step,) = flat(values("global_step"))
computed = sum(int(number) for number in re.findall(r"computed (\d+) steps", open(log).read()))
for server in range(2):
    # Role, index, incarnation, step, parts applied, parts, fenced.
    numbers = flat(values(f"_phalanx/ps-{server:05}/applied"))
    records = [numbers[at : at + 7] for at in range(0, len(numbers), 7)]
    assert len(records) == 3 and not any(record[6] for record in records), records
    assert sum(record[3] for record in records) == global_step, (records, global_step)
assert computed == global_step, (computed, global_step)
print(f"pauses: {log}: {global_step} updates by 3 trainers, each counted once; nobody was thrown out")
PYTHON
  rm -rf "$job.dir"
}

for round in $(seq "$rounds"); do
  begin "chief.$round" 150000 # Workers train on while the chief is stopped, for 46 s in all.
  for _ in 1 2 3 4; do pause chief/0 7.5; done
  finish
  for seconds in 5 30 60; do
    begin "ps.$seconds.$round" 60000
    pause ps/0 "$seconds"
    pause ps/1 "$seconds"
    finish
  done
done
