# Sourced by acceptance scripts: jobs of real processes, each told by TF_CONFIG who it is. The script that sources this
# sets `work` to a folder of its own, and calls `end_tasks` when it ends.

pids=()
end_tasks() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}

# N ports that nobody uses now. All are held at once, so that they differ.
free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(one.getsockname()[1] for one in held))
PYTHON
}

# addresses PORT...: as a list of JSON.
addresses() {
  local list=
  for port in "$@"; do list+="${list:+, }\"127.0.0.1:$port\""; done
  echo "[$list]"
}

# job WORKERS SERVERS LIMIT COMMAND...: a chief, workers beside it, parameter servers and an evaluator. Every task must
# end by itself with code 0 within LIMIT seconds; what each printed is in $work/ROLE.INDEX.
job() {
  local workers=$1 servers=$2 limit=$3 ports cluster task role index at failed=0 tasks=()
  shift 3
  read -ra ports <<<"$(free_ports $((1 + workers + servers)))"
  cluster="{\"chief\": $(addresses "${ports[0]}"), \"ps\": $(addresses "${ports[@]:1:servers}")"
  if [ "$workers" -gt 0 ]; then cluster+=", \"worker\": $(addresses "${ports[@]:1+servers:workers}")"; fi
  cluster+="}"
  for ((at = 0; at < servers; at++)); do tasks+=("ps.$at"); done
  for ((at = 0; at < workers; at++)); do tasks+=("worker.$at"); done
  tasks+=(evaluator.0 chief.0)
  pids=()
  for task in "${tasks[@]}"; do
    role=${task%.*} index=${task#*.}
    TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$role\", \"index\": $index}}" \
      timeout --kill-after=5 "$limit" "$@" >"$work/$task" 2>&1 &
    pids+=($!)
  done
  for at in "${!tasks[@]}"; do
    wait "${pids[$at]}" || { echo "${tasks[$at]} ended with code $?" >&2; failed=1; }
  done
  pids=()
  if [ "$failed" -ne 0 ]; then
    for task in "${tasks[@]}"; do echo "--- $task" && tail -n 15 "$work/$task"; done >&2
    return 1
  fi
}
