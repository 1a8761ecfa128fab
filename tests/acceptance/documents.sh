#!/usr/bin/env bash
# The examples that stand for documents people start from (docs/examples.md), without any file: each alone and in the roles that it
# is for. Every process must end by itself with code 0, and the model must have learned.
#
#   tests/acceptance/documents.sh EXAMPLES PHALANX     # the folder with the built examples; the command
set -euo pipefail
if [ $# -ne 2 ] || [ ! -d "$1" ] || [ ! -x "$2" ]; then
  echo "usage: $0 EXAMPLES PHALANX" >&2
  exit 2
fi
examples=$(cd "$1" && pwd) phalanx=$(realpath "$2")
. "$(dirname "$0")/lib.sh"
unset TF_CONFIG PHALANX_TOKEN
cd "$work"

# MirroredStrategy and fit, from a dataset and from arrays.
alone fit 120 "$examples/linear_fit"
grep -q "^after the dataset" fit && grep -q "^after the arrays: loss 0\.[0-9]*, 2 replicas" fit || { cat fit; exit 1; }
echo "linear_fit: $(tail -n 1 fit)"

# The custom loop, mirrored, and under parameter servers: in one process and as four.
alone loop 120 "$examples/custom_loop" --strategy mirrored:2
at_least "custom_loop under mirrored:2, 1 - loss" "$(awk '/^epoch 9/ { print 1 - $NF }' loop)" 0.75
alone loop_on_servers 120 "$examples/custom_loop" --strategy parameter_server:sync
at_least "custom_loop under parameter_server:sync, 1 - loss" "$(awk '/^epoch 9/ { print 1 - $NF }' loop_on_servers)" 0.6
alone ps_loop 120 "$examples/ps_loop"
at_least "ps_loop in one process, accuracy" "$(awk '/^epoch 9/ { print $NF }' ps_loop)" 0.9
alone four 120 "$phalanx" launch --ps 1 --workers 2 --no-dashboard --progress none --run-dir launched -- "$examples/ps_loop"
at_least "ps_loop as four processes, accuracy" "$(awk '/epoch 9/ { print $NF }' four)" 0.9

# DNNClassifier with a hashed embedding: alone, by TF_CONFIG in every role, and in the platform's layout with `master`.
alone dnn 120 "$examples/dnn_classifier" --model_dir runs/alone
at_least "dnn_classifier alone, accuracy" "$(metric accuracy dnn)" 0.95
job ps=2,worker=2,+evaluator=1,chief=1 120 "$examples/dnn_classifier" --model_dir runs/roles
at_least "dnn_classifier as chief, worker, ps and evaluator, accuracy" "$(metric accuracy evaluator.0)" 0.95
alone platform.out 120 "$phalanx" launch --master --ps 4 --workers 3 --no-dashboard --progress none --run-dir platform -- \
  "$examples/dnn_classifier" --model_dir runs/platform
at_least "dnn_classifier by master (which evaluates), 3 workers, 4 ps, accuracy" "$(metric accuracy platform.out)" 0.95

# The examples of public data sets without their data: on synthetic rows, which each process that reads them says in one line.
synthetic() {
  local lines
  alone "$@"
  lines=$(grep -c "this trains on .* synthetic" "$1") || true
  [ "$lines" = 1 ] || { echo "$1 has $lines lines about synthetic data"; cat "$1"; exit 1; }
}
synthetic softmax 120 "$examples/mnist_softmax" --max-steps 600
at_least "mnist_softmax in one process, accuracy" "$(sed -n 's/^done.*test accuracy \([0-9.]*\).*/\1/p' softmax)" 0.88
synthetic mnist_fit 240 "$examples/mnist_fit" --epochs 1
at_least "mnist_fit in one process, accuracy" "$(awk '/^done/ { print $NF }' mnist_fit)" 0.88
job worker=2 240 "$examples/mnist_fit" --epochs 1 --formation-deadline 60
at_least "mnist_fit with two workers, accuracy" "$(awk '/^done/ { print $NF }' worker.0)" 0.88
synthetic cnn 240 "$examples/fashion_cnn" --images 1920 --epochs 1 --strategy mirrored:2
at_least "fashion_cnn under mirrored:2, accuracy" "$(awk '/^test accuracy/ { print $NF }' cnn)" 0.5
synthetic clothes 240 "$examples/fashion_estimator" --max-steps 40 --test-images 1000 --model-dir runs/clothes
at_least "fashion_estimator in one process, accuracy" "$(metric accuracy clothes)" 0.5
synthetic census 120 "$examples/census_wide_deep" --max-steps 1000
at_least "census_wide_deep in one process, accuracy" "$(metric accuracy census)" 0.83
job ps=2,worker=1,+evaluator=1,chief=1 120 "$examples/census_wide_deep" --max-steps 1000 --model-dir runs/census
at_least "census_wide_deep in every role, accuracy" "$(metric accuracy evaluator.0)" 0.83

# A folder without the files is an error that says how to get them.
for program in mnist_softmax:mnist mnist_fit:mnist fashion_cnn:mnist fashion_estimator:mnist census_wide_deep:census; do
  status=0
  timeout 60 "$examples/${program%:*}" --data-dir nowhere >wrong 2>&1 || status=$?
  [ "$status" = 1 ] && grep -q "phalanx data fetch ${program#*:}" wrong || { echo "$program: code $status"; cat wrong; exit 1; }
done
echo "documents: all examples have learned without any file, and every process ended by itself"
