#!/usr/bin/env bash
# The canned models on the census, in one process and as a job of a chief, two workers, two parameter servers and an
# evaluator. Prints a line for each run and the mean of each model and place, which must not be below its bound.
#
#   tests/acceptance/census.sh PROGRAM DATA_DIR [--models linear,dnn,wide_deep] [--places local,job] [--seeds 1,2,3,4,5]
#                              [--steps 3000] [--slack 0]
#
# PROGRAM is the example census_wide_deep, any profile. A slack is taken off every bound, which are those of five seeds.
set -euo pipefail
program=$1 data=$2
shift 2
models=linear,dnn,wide_deep places=local,job seeds=1,2,3,4,5 steps=3000 slack=0
while [ $# -gt 0 ]; do
  case $1 in
    --models) models=$2 ;;
    --places) places=$2 ;;
    --seeds) seeds=$2 ;;
    --steps) steps=$2 ;;
    --slack) slack=$2 ;;
    *) echo "no option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
declare -A bounds=([linear]=0.835 [dnn]=0.848 [wide_deep]=0.851)
. "$(dirname "$0")/lib.sh"

# one MODEL PLACE SEED: the accuracy of one run.
one() {
  local model_dir=$work/model file=$work/alone
  rm -rf "$model_dir"
  local run=("$program" --data-dir "$data" --model "$1" --seed "$3" --max-steps "$steps" --model-dir "$model_dir")
  if [ "$2" = job ]; then
    file=$work/evaluator.0
    job ps=2,worker=2,+evaluator=1,chief=1 300 "${run[@]}"
  else
    alone alone 300 "${run[@]}"
  fi
  accuracy=$(metric accuracy "$file")
}

failed=0
for model in ${models//,/ }; do
  for place in ${places//,/ }; do
    all=()
    for seed in ${seeds//,/ }; do
      from=$SECONDS
      one "$model" "$place" "$seed"
      echo "$model $place seed $seed: accuracy $accuracy in $((SECONDS - from)) s"
      all+=("$accuracy")
    done
    printf '%s\n' "${all[@]}" | awk -v what="$model $place" -v bound="${bounds[$model]}" -v slack="$slack" '
      { sum += $1; least = NR == 1 || $1 < least ? $1 : least }
      END {
        mean = sum / NR
        good = mean >= bound - slack
        printf "%s: mean %.4f of %d seeds, least %.4f (at least %.4f)%s\n", what, mean, NR, least, bound - slack, good ? "" : " IS NOT SO"
        exit !good }' || failed=1
  done
done
exit "$failed"
