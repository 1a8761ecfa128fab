#!/usr/bin/env bash
# A disk that is full when a job saves its last checkpoint. The message must name the file and the reason, no healthy server may be
# blamed, and once there is room the job must succeed with every step.
#
#   tests/acceptance/full_disk.sh PHALANX
#
# Exit codes: 0 all good, 1 something is not, 2 wrong usage. Needs root, to mount a small disk.
set -euo pipefail
if [ $# -ne 1 ] || [ ! -x "$1" ]; then
  echo "usage: $0 PHALANX" >&2
  exit 2
fi
phalanx=$(realpath "$1")
. "$(dirname "$0")/lib.sh"
clean_up() { umount "$work/disk" 2>/dev/null || true; }
cd "$work"
unset TF_CONFIG PHALANX_TOKEN
fail() {
  echo "FAILED: full disk: $1" >&2
  tail -n 40 job >&2
  exit 1
}
step() { "$phalanx" status disk/run --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["step"] or 0)'; }
beyond() { [ "$(step)" -gt "$1" ]; }

mkdir disk
mount -t tmpfs -o size=256m tmpfs disk
start job 240 "$phalanx" demo --no-dashboard --max-steps 12000 --model-dir disk/run
until_true 60 "training" beyond 1000
dd if=/dev/zero of=disk/filler bs=1M >dd.out 2>&1 || true
grep -q "No space left" dd.out || fail "the disk is not full"
until_true 120 "the report of the last save" grep -q "the last checkpoint was not saved" job
rm disk/filler
wait_for_tasks || fail "the job failed although there is room again"
grep "the last checkpoint was not saved" job | head -n 3
grep -q "PX0503" job || fail "the message has not the code of a failed write"
grep -q "No space left" job || fail "the message does not give the reason"
if grep -n "PX0401" job; then fail "a healthy server is blamed"; fi
python3 - "$phalanx" <<'PYTHON' || fail "the last checkpoint lacks steps"
import json, subprocess, sys
shown = subprocess.run([sys.argv[1], "ckpt", "show", "disk/run", "--values", "global_step", "--json"], check=True, capture_output=True)
value = json.loads(shown.stdout)["values"]
while isinstance(value, list):
    (value,) = value
assert value >= 12000, value
print(f"full disk: {value} steps are in the last checkpoint")
PYTHON
