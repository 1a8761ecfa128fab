#!/usr/bin/env bash
# A real training job under `phalanx launch`: after SIGTERM it saves and every task exits with 143; a killed parameter server comes
# back and the job continues; a terminal gets colours and a line at the bottom, a pipe and NO_COLOR get none.
#
#   tests/acceptance/launch.sh PHALANX PHALANX_TEST_TASK
#
# Exit codes: 0 success, 1 failure, 2 wrong usage.
set -euo pipefail
if [ $# -ne 2 ] || [ ! -x "$1" ] || [ ! -x "$2" ]; then
  echo "usage: $0 PHALANX PHALANX_TEST_TASK" >&2
  exit 2
fi
phalanx=$(realpath "$1") task=$(realpath "$2")
. "$(dirname "$0")/lib.sh"
launcher=
clean_up() { [ -z "$launcher" ] || kill -KILL "$launcher" 2>/dev/null || true; } # Its guards end the tasks.
cd "$work"
unset TF_CONFIG PHALANX_TOKEN

fail() {
  echo "FAILED: launch: $1" >&2
  tail -n 30 ./*.out >&2
  exit 1
}
until_true() { # WHAT COMMAND...: within a minute.
  local what=$1
  shift
  for _ in $(seq 600); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "$what did not happen within 60 s"
}
field() { # DIR JSON-PATH: of the status.
  "$phalanx" status "$1" --json | python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[int(key) if key.isdigit() else key]
print(value)' "$2"
}
launcher_ends() { # Its code is in $status.
  status=0
  wait "$launcher" || status=$?
  launcher=
}
steps_beyond() { [ "$(field "$1" step)" -gt "$2" ]; }

# SIGTERM: no checkpoint is due for a long time, and yet there is one at the end.
"$phalanx" launch --ps 2 --workers 1 --run-dir term --model-dir term/model --progress plain -- \
  "$task" --model-dir term/model --max-steps 10000000 --save-steps 10000000 --step-ms 2 >term.out 2>&1 &
launcher=$!
until_true "training" steps_beyond term 200
kill -TERM "$launcher"
launcher_ends
[ "$status" -eq 143 ] || fail "after SIGTERM the launcher ended with $status, not 143"
[ "$(field term tasks.0.exit)" = 143 ] || fail "after SIGTERM the chief ended with $(field term tasks.0.exit), not 143"
saved=$(find term/model -name 'model.ckpt-*.index' | sed 's/.*-\([0-9]*\).index/\1/' | sort -n | tail -n 1)
[ "${saved:-0}" -gt 200 ] || fail "SIGTERM saved nothing (newest checkpoint: ${saved:-none})"
echo "launch: SIGTERM saved step $saved, every task exited with 143"

# A server that is killed: started again, restored, and the job ends well.
"$phalanx" launch --ps 2 --workers 1 --run-dir kill --model-dir kill/model --progress plain -- \
  "$task" --model-dir kill/model --max-steps 6000 --save-steps 100 --step-ms 2 --lease-ms 1000 >kill.out 2>&1 &
launcher=$!
until_true "a checkpoint" sh -c "ls kill/model/model.ckpt-*.index | grep -v -- '-0.index'"
kill -KILL "$(field kill tasks.2.pid)"
launcher_ends
[ "$status" -eq 0 ] || fail "with a killed server the job ended with $status"
[ "$(field kill tasks.2.attempt)" = 2 ] || fail "the killed server was not started again"
echo "launch: ps/0 was killed and came back, the job succeeded"

# A terminal of our own: the bottom line moves and is coloured; with NO_COLOR it is not coloured.
cat >terminal.py <<'PYTHON'
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", 'stty cols 120; exec "$@"', "sh", *sys.argv[1:]])))
PYTHON
job=("$phalanx" launch --ps 1 --workers 1 --run-dir pty --model-dir pty/model -- "$task" --model-dir pty/model --max-steps 600 --step-ms 4)
TERM=xterm python3 terminal.py "${job[@]}" >pty.out || fail "under a terminal the job failed"
grep -q $'\x1b\\[1;32m' pty.out || fail "no colours under a terminal"
grep -q $'\r\x1b\\[2K.*Step [0-9,]*/600 .*step/s .* loss [0-9.-]* .*2/2 trainers' pty.out || fail "no line at the bottom under a terminal"
rm -rf pty
NO_COLOR=1 TERM=xterm python3 terminal.py "${job[@]}" >pty.out || fail "with NO_COLOR the job failed"
if grep -q $'\x1b\\[[0-9;]*m' pty.out; then fail "colours although NO_COLOR is set"; fi
rm -rf pty
"${job[@]}" >pipe.out 2>&1 || fail "into a pipe the job failed"
if grep -q $'\x1b' pipe.out; then fail "control characters in a pipe"; fi
echo "launch: terminal, NO_COLOR and pipe are right"
