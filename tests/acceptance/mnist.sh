#!/usr/bin/env bash
# Trains softmax regression on MNIST with four real processes (two parameter servers, the chief, a worker), first
# asynchronously, then synchronously, and checks what a user would check: every process ends by itself with exit code 0
# within its time, and the chief's test accuracy is good enough.
#
#   tests/acceptance/mnist.sh PROGRAM DATA_DIR        PROGRAM: the example mnist_softmax, any profile
#
# Exit codes: 0 all good, 1 something is not, 2 wrong usage.
set -euo pipefail

if [ $# -ne 2 ] || [ ! -x "$1" ] || [ ! -d "$2" ]; then
  echo "usage: $0 PROGRAM DATA_DIR" >&2
  exit 2
fi
program=$1 data=$2
steps=2000
wanted=0.915
limit=180 # Seconds for one job.

logs=$(mktemp -d)
pids=()
clean_up() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  rm -rf "$logs"
}
trap clean_up EXIT
# Without these a signal would end this script before its exit trap has run.
trap 'exit 130' INT
trap 'exit 143' TERM

# Four ports that nobody uses now. All are held at once, so that they differ.
free_ports() {
  python3 - <<'PYTHON'
import socket
held = [socket.socket() for _ in range(4)]
for one in held:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))
PYTHON
}

show_logs() {
  for log in "$logs"/*.log; do
    echo "--- $(basename "$log" .log)"
    tail -n 20 "$log"
  done >&2
}

# job NAME [FLAG...]: one whole job.
job() {
  local name=$1 ports task failed=0
  shift
  read -ra ports <<<"$(free_ports)"
  local cluster=(
    "--ps_hosts=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]}"
    "--worker_hosts=127.0.0.1:${ports[2]},127.0.0.1:${ports[3]}"
  )
  local flags=(--data-dir="$data" --max-steps="$steps" --optimizer=sgd --learning-rate=0.5 --batch-size=100)
  flags+=(--formation-deadline=60 "$@")
  pids=()
  local tasks=("ps 0" "ps 1" "worker 0" "worker 1")
  for task in "${tasks[@]}"; do
    "$program" "${cluster[@]}" --job_name="${task% *}" --task_index="${task#* }" "${flags[@]}" \
      >"$logs/${task/ /-}.log" 2>&1 &
    pids+=("$!")
  done

  local until=$((SECONDS + limit)) running
  while :; do
    running=0
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null && running=$((running + 1)); done
    [ "$running" -eq 0 ] && break
    if [ "$SECONDS" -ge "$until" ]; then
      echo "FAILED: mnist, $name: $running of 4 processes still run after $limit s" >&2
      show_logs
      exit 1
    fi
    sleep 0.2
  done
  for i in "${!pids[@]}"; do
    local status=0
    wait "${pids[$i]}" || status=$?
    if [ "$status" -ne 0 ]; then
      echo "FAILED: mnist, $name: ${tasks[$i]} ended with exit code $status" >&2
      failed=1
    fi
  done
  pids=()

  local done_line accuracy
  done_line=$(grep '^done: ' "$logs/worker-0.log" | tail -n 1 || true)
  accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\).*/\1/p' <<<"$done_line")
  if [ -z "$accuracy" ] || ! awk -v got="$accuracy" -v wanted="$wanted" 'BEGIN { exit !(got >= wanted) }'; then
    echo "FAILED: mnist, $name: test accuracy ${accuracy:-unknown}, at least $wanted wanted" >&2
    failed=1
  fi
  if [ "$failed" -ne 0 ]; then
    show_logs
    exit 1
  fi
  echo "mnist, $name: $done_line"
}

job asynchronous
job synchronous --sync
echo "mnist: all 8 processes ended by themselves with exit code 0, accuracy at least $wanted"
