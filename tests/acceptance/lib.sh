# Sourced by the acceptance scripts: a folder of the script's own, which goes when it ends, as do the processes that it started;
# jobs of real processes, each told by TF_CONFIG who it is; bounds.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
tasks=() pids=()

# What else goes at the end; a script that needs more redefines this.
clean_up() { :; }
end() {
  local pid
  # Each is a timeout, which passes it on, with KILL 5 seconds later.
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  clean_up
  rm -rf "$work"
}
trap end EXIT
# Without these a signal would end the script before its exit trap has run.
trap 'exit 130' INT
trap 'exit 143' TERM

# start NAME LIMIT COMMAND...: in the background, for at most LIMIT seconds; what it prints is in $work/NAME.
start() {
  local name=$1 limit=$2
  shift 2
  timeout --kill-after=5 "$limit" "$@" >"$work/$name" 2>&1 &
  tasks+=("$name") pids+=("$!")
}

# wait_for_tasks: everything that was started must have ended by itself with code 0.
wait_for_tasks() {
  local at status failed=0
  for at in "${!tasks[@]}"; do
    status=0
    wait "${pids[$at]}" || status=$?
    if [ "$status" -eq 124 ]; then
      echo "${tasks[$at]} still ran when its time was up" >&2
    elif [ "$status" -ne 0 ]; then
      echo "${tasks[$at]} ended with code $status" >&2
    fi
    [ "$status" -eq 0 ] || failed=1
  done
  if [ "$failed" -ne 0 ]; then
    for at in "${tasks[@]}"; do echo "--- $at" && tail -n 20 "$work/$at"; done >&2
  fi
  tasks=() pids=()
  return "$failed"
}

# N ports that nobody uses now. All are held at once, so that they differ.
free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(one.getsockname()[1] for one in held))
PYTHON
}

# job ROLES LIMIT COMMAND...: a process for each task of ROLES, such as ps=2,worker=2,chief=1,+evaluator=1; the cluster does not
# list roles with a plus. Every task must end by itself with code 0 within LIMIT seconds; what each printed is in $work/ROLE.INDEX.
job() {
  local roles=$1 limit=$2 pair role count index at=0 ports cluster= addresses
  shift 2
  read -ra ports <<<"$(free_ports 32)"
  for pair in ${roles//,/ }; do
    if [ "${pair#+}" = "$pair" ]; then
      addresses=
      for ((index = 0; index < ${pair#*=}; index++)); do addresses+="${addresses:+, }\"127.0.0.1:${ports[at++]}\""; done
      cluster+="${cluster:+, }\"${pair%=*}\": [$addresses]"
    fi
  done
  for pair in ${roles//,/ }; do
    role=${pair%=*} role=${role#+} count=${pair#*=}
    for ((index = 0; index < count; index++)); do
      start "$role.$index" "$limit" \
        env TF_CONFIG="{\"cluster\": {$cluster}, \"task\": {\"type\": \"$role\", \"index\": $index}}" "$@"
    done
  done
  wait_for_tasks
}

# alone NAME LIMIT COMMAND...: the same for one process that is waited for.
alone() {
  start "$@"
  wait_for_tasks
}

# at_least NAME VALUE LIMIT, at_most NAME VALUE LIMIT: prints the value, and fails if it is out of bounds.
at_least() { bound "$1" "$2" least "$3"; }
at_most() { bound "$1" "$2" most "$3"; }
bound() {
  awk -v name="$1" -v value="$2" -v which="$3" -v limit="$4" 'BEGIN {
    good = value != "" && (which == "least" ? value + 0 >= limit + 0 : value + 0 <= limit + 0)
    printf "%s: %s (at %s %s)%s\n", name, value, which, limit, good ? "" : " IS NOT SO"
    exit !good }'
}

# metric NAME FILE: of the last line that has one.
metric() { sed -n "s/.*[ ;]$1 = \([0-9.e-]*\).*/\1/p" "$2" | tail -n 1; }

# until_true SECONDS WHAT COMMAND...: waits until the command succeeds; a script that uses it defines `fail`.
until_true() {
  local tries=$(($1 * 10)) what=$2
  shift 2
  for _ in $(seq "$tries"); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "$what did not happen in time"
}
