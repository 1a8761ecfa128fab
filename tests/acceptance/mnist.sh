#!/usr/bin/env bash
# Trains softmax regression on MNIST with four real processes (two parameter servers, the chief, a worker), first
# asynchronously, then synchronously, and checks what a user would check: every process ends by itself with exit code 0
# within its time, and the chief's test accuracy is good enough.
#
#   tests/acceptance/mnist.sh PROGRAM [DATA_DIR]      PROGRAM: the example mnist_softmax, any profile
#
# Without a folder the program trains on synthetic images. Exit codes: 0 all good, 1 something is not, 2 wrong usage.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -x "$1" ] || { [ $# -eq 2 ] && [ ! -d "$2" ]; }; then
  echo "usage: $0 PROGRAM [DATA_DIR]" >&2
  exit 2
fi
program=$1 data=(${2:+"--data-dir=$2"})
steps=2000
wanted=0.915
if [ $# -eq 1 ]; then wanted=0.9; fi
limit=180 # Seconds for one job.
. "$(dirname "$0")/lib.sh"

# four_terminals NAME [FLAG...]: one whole job, told by flags who is who.
four_terminals() {
  local name=$1 ports task done_line
  shift
  read -ra ports <<<"$(free_ports 4)"
  local flags=(
    "--ps_hosts=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]}"
    "--worker_hosts=127.0.0.1:${ports[2]},127.0.0.1:${ports[3]}"
    "${data[@]}" --max-steps="$steps" --optimizer=sgd --learning-rate=0.5 --batch-size=100 --formation-deadline=60 "$@"
  )
  for task in ps.0 ps.1 worker.0 worker.1; do
    start "$task" "$limit" "$program" --job_name="${task%.*}" --task_index="${task#*.}" "${flags[@]}"
  done
  wait_for_tasks
  done_line=$(grep '^done: ' "$work/worker.0" | tail -n 1)
  at_least "mnist, $name, test accuracy" "$(sed -n 's/.*test accuracy \([0-9.]*\).*/\1/p' <<<"$done_line")" "$wanted"
  echo "mnist, $name: $done_line"
}

four_terminals asynchronous
four_terminals synchronous --sync
echo "mnist: all 8 processes ended by themselves with exit code 0, accuracy at least $wanted"
