#!/usr/bin/env bash
# The examples of estimators as a user runs them: the same program alone and as every role of a job; each must end by
# itself with code 0, and the model must have learned.
#
#   tests/acceptance/estimator.sh EXAMPLES [DATA]     # the folder with the built examples; the one with fashion-mnist
set -euo pipefail
examples=$(cd "$1" && pwd) data=$(cd "${2:-/nowhere}" 2>/dev/null && pwd || true) here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
. "$here/job.sh"
end() { end_tasks && rm -rf "$work"; }
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# bound NAME VALUE OPERATOR LIMIT
bound() {
  awk -v name="$1" -v value="$2" -v op="$3" -v limit="$4" 'BEGIN {
    good = value != "" && (op == "<" ? value + 0 < limit + 0 : value + 0 > limit + 0)
    printf "%s: %s (%s %s)%s\n", name, value, op, limit, good ? "" : " IS NOT SO"
    exit !good }'
}

# metric NAME FILE: of the line that says what a task did.
metric() { sed -n "s/.*done.*[ ;]$1 = \([0-9.e-]*\).*/\1/p" "$2" | tail -n 1; }

lines=$(wc -l < "$here/../../examples/linear_regressor/main.rs")
bound "linear_regressor, lines" "$lines" "<" 21

cd "$work" # It keeps itself in ./runs.
timeout 120 "$examples/linear_regressor" > "$work/alone" 2>&1
bound "linear_regressor alone, average_loss" "$(metric average_loss "$work/alone")" "<" 0.01
rm -rf runs
job 2 2 120 "$examples/linear_regressor"
bound "linear_regressor in every role, average_loss" "$(metric average_loss "$work/evaluator.0")" "<" 0.01

if [ -n "$data" ] && [ -d "$data/fashion-mnist" ]; then
  clothes=("$examples/fashion_estimator" --data-dir "$data/fashion-mnist" --test-images 2000 --model-dir)
  timeout 200 "${clothes[@]}" "$work/clothes" --max-steps 40 > "$work/alone" 2>&1 || { cat "$work/alone" >&2; exit 1; }
  bound "fashion_estimator alone, 40 steps, accuracy" "$(metric accuracy "$work/alone")" ">" 0.5
  job 1 2 200 "${clothes[@]}" "$work/clothes_job" --max-steps 60
  bound "fashion_estimator in every role, 60 steps, accuracy" "$(metric accuracy "$work/evaluator.0")" ">" 0.5
else
  echo "skipped: needs data (Fashion-MNIST)"
fi
