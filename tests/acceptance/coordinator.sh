#!/usr/bin/env bash
# The examples with a coordinator: TensorFlow's tutorial in one process and as six, and a job with an evaluator beside it
# that the cluster lists. Each task must end by itself, with code 0.
#
#   tests/acceptance/coordinator.sh EXAMPLES     # the folder with the built examples
set -euo pipefail
. "$(dirname "$0")/lib.sh"
examples=$(cd "$1" && pwd)

# has_lines FILE TEXT...: the file has a line with each text.
has_lines() {
  local file=$1 text
  shift
  for text in "$@"; do
    grep -qF -- "$text" "$file" || { echo "no line with '$text':"; cat "$file"; exit 1; }
  done
}

tutorial=("part_0 (5, 20) on /job:ps/replica:0/task:0/device:CPU:0" "part_1 (4, 20) on /job:ps/replica:0/task:1/device:CPU:0"
  "epoch 3: loss" "accuracy 1.000" "distributed evaluation: accuracy 1.000 of 16 examples"
  "direct evaluation: accuracy 1.000 of 16 examples")
alone alone 60 "$examples/ps_coordinator"
has_lines "$work/alone" "${tutorial[@]}"
grep "epoch 3" "$work/alone" | grep -q "accuracy 1.000"
echo "ps_coordinator in one process: $(grep 'epoch 3' "$work/alone")"
job ps=2,worker=3,chief=1 60 "$examples/ps_coordinator"
has_lines "$work/chief.0" "${tutorial[@]}"
grep "epoch 3" "$work/chief.0" | grep -q "accuracy 1.000"
echo "ps_coordinator as six processes: $(grep 'epoch 3' "$work/chief.0")"

alone sidecar 60 "$examples/ps_sidecar" --model-dir "$work/sidecar-model"
has_lines "$work/sidecar" "of 400 steps are done" "trained to step 400" "step 400: loss 0.0"
echo "ps_sidecar in one process: $(grep evaluated "$work/sidecar")"
job ps=2,worker=2,evaluator=1,chief=1 60 "$examples/ps_sidecar" --model-dir "$work/model"
has_lines "$work/chief.0" "trained to step 400"
has_lines "$work/evaluator.0" "step 400: loss 0.0"
echo "ps_sidecar: $(grep evaluated "$work/evaluator.0")"
