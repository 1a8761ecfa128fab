#!/usr/bin/env bash
# The examples that stand for documents people start from (docs/examples.md) and need no files: each alone and in the roles that it
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
echo "documents: all examples that need no files have learned, and every process ended by itself"
