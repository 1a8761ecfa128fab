#!/usr/bin/env bash
# The examples of estimators as a user runs them: the same program alone and as every role of a job; each must end by
# itself with code 0, and the model must have learned.
#
#   tests/acceptance/estimator.sh EXAMPLES [DATA]     # the folder with the built examples; the one with fashion-mnist
set -euo pipefail
examples=$(cd "$1" && pwd) data=$(cd "${2:-/nowhere}" 2>/dev/null && pwd || true)
. "$(dirname "$0")/lib.sh"

lines=$(wc -l < "$here/../../examples/linear_regressor/main.rs")
at_most "linear_regressor, lines" "$lines" 20

cd "$work" # It keeps itself in ./runs.
alone alone 120 "$examples/linear_regressor"
at_most "linear_regressor alone, average_loss" "$(metric average_loss "$work/alone")" 0.01
rm -rf runs
job ps=2,worker=2,+evaluator=1,chief=1 120 "$examples/linear_regressor"
at_most "linear_regressor in every role, average_loss" "$(metric average_loss "$work/evaluator.0")" 0.01

if [ -n "$data" ] && [ -d "$data/fashion-mnist" ]; then
  clothes=("$examples/fashion_estimator" --data-dir "$data/fashion-mnist" --test-images 2000 --model-dir)
  alone alone 200 "${clothes[@]}" "$work/clothes" --max-steps 40
  at_least "fashion_estimator alone, 40 steps, accuracy" "$(metric accuracy "$work/alone")" 0.5
  job ps=2,worker=1,+evaluator=1,chief=1 200 "${clothes[@]}" "$work/clothes_job" --max-steps 60
  at_least "fashion_estimator in every role, 60 steps, accuracy" "$(metric accuracy "$work/evaluator.0")" 0.5
else
  echo "skipped: needs data (Fashion-MNIST)"
fi
