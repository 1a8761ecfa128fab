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
examples=$(cd "$1" && pwd) phalanx=$(realpath "$2") here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
. "$here/job.sh"
end() { end_tasks && rm -rf "$work"; }
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
unset TF_CONFIG PHALANX_TOKEN
cd "$work"

# at_least NAME VALUE LIMIT
at_least() {
  awk -v name="$1" -v value="$2" -v limit="$3" 'BEGIN {
    good = value != "" && value + 0 >= limit + 0
    printf "%s: %s (at least %s)%s\n", name, value, limit, good ? "" : " IS NOT SO"
    exit !good }'
}
accuracy() { sed -n 's/.*[ ;]accuracy = \([0-9.e-]*\).*/\1/p' "$1" | tail -n 1; }
alone() { # NAME COMMAND...
  local name=$1
  shift
  timeout 120 "$@" >"$work/$name" 2>&1 || { cat "$work/$name" >&2; exit 1; }
}

# MirroredStrategy and fit, from a dataset and from arrays.
alone fit "$examples/linear_fit"
grep -q "^after the dataset" fit && grep -q "^after the arrays: loss 0\.[0-9]*, 2 replicas" fit || { cat fit; exit 1; }
echo "linear_fit: $(tail -n 1 fit)"

# The custom loop, mirrored, and under parameter servers: in one process and as four.
alone loop "$examples/custom_loop" --strategy mirrored:2
at_least "custom_loop under mirrored:2, 1 - loss" "$(awk '/^epoch 9/ { print 1 - $NF }' loop)" 0.75
alone ps_loop "$examples/ps_loop"
at_least "ps_loop in one process, accuracy" "$(awk '/^epoch 9/ { print $NF }' ps_loop)" 0.9
timeout 120 "$phalanx" launch --ps 1 --workers 2 --no-page --progress none --run-dir launched -- "$examples/ps_loop" >four 2>&1 ||
  { cat four >&2; exit 1; }
at_least "ps_loop as four processes, accuracy" "$(awk '/epoch 9/ { print $NF }' four)" 0.9

# DNNClassifier with a hashed embedding: alone, by TF_CONFIG in every role, and in the platform's layout with `master`.
alone dnn "$examples/dnn_classifier" --model_dir runs/alone
at_least "dnn_classifier alone, accuracy" "$(accuracy dnn)" 0.95
job 2 2 120 "$examples/dnn_classifier" --model_dir runs/roles
at_least "dnn_classifier as chief, worker, ps and evaluator, accuracy" "$(accuracy evaluator.0)" 0.95
timeout 120 "$phalanx" launch --master --ps 4 --workers 3 --no-page --progress none --run-dir platform -- \
  "$examples/dnn_classifier" --model_dir runs/platform >platform.out 2>&1 || { cat platform.out >&2; exit 1; }
at_least "dnn_classifier by master (which evaluates), 3 workers, 4 ps, accuracy" "$(accuracy platform.out)" 0.95
echo "documents: all examples that need no files have learned, and every process ended by itself"
