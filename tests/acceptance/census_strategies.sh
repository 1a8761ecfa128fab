#!/usr/bin/env bash
# The wide & deep model on the census under every strategy: the mean AUC of several seeds must be within 0.003 of that of one process.
#
#   tests/acceptance/census_strategies.sh PROGRAM DATA_DIR [--strategies default,mirrored:2,…] [--seeds 1,2,3] [--steps 3000] [--within 0.003]
#
# PROGRAM is the example census_wide_deep, any profile.
set -euo pipefail
program=$1 data=$2
shift 2
strategies=one_device:cpu,mirrored:2,central_storage:2,multi_worker_mirrored,parameter_server:async,parameter_server:ssp:2,parameter_server:sync
seeds=1,2,3 steps=3000 within=0.003
while [ $# -gt 0 ]; do
  case $1 in
    --strategies) strategies=$2 ;;
    --seeds) seeds=$2 ;;
    --steps) steps=$2 ;;
    --within) within=$2 ;;
    *) echo "no option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
. "$(dirname "$0")/lib.sh"
if [ ! -f "$data/adult.data" ]; then
  echo "skipped: needs data (census)"
  exit 0
fi

# one STRATEGY SEED: the AUC of one run. A job is evaluated by one more process, from its last checkpoint.
one() {
  local model_dir=$work/model file=$work/alone
  rm -rf "$model_dir"
  local run=("$program" --data-dir "$data" --model wide_deep --seed "$2" --max-steps "$steps" --model-dir "$model_dir" --strategy "$1")
  case $1 in
    multi_worker_mirrored*) job "worker=2,+evaluator=1" 600 "${run[@]}" && file=$work/evaluator.0 ;;
    parameter_server*) job "ps=2,worker=2,chief=1,+evaluator=1" 600 "${run[@]}" && file=$work/evaluator.0 ;;
    *) alone alone 600 "${run[@]}" ;;
  esac
  auc=$(metric auc "$file")
}

# mean STRATEGY: the mean AUC of all seeds, and a line for each.
mean() {
  local seed all=()
  for seed in ${seeds//,/ }; do
    one "$1" "$seed"
    echo "$1 seed $seed: auc $auc"
    all+=("$auc")
  done
  mean=$(printf '%s\n' "${all[@]}" | awk '{ sum += $1 } END { printf "%.5f", sum / NR }')
}

mean default
alone_mean=$mean
echo "default: mean auc $alone_mean"
failed=0
for strategy in ${strategies//,/ }; do
  mean "$strategy"
  awk -v what="$strategy" -v mean="$mean" -v alone="$alone_mean" -v within="$within" 'BEGIN {
    off = mean - alone; good = mean != "" && off <= within && off >= -within
    printf "%s: mean auc %s, %+.5f from one process (at most %s)%s\n", what, mean, off, within, good ? "" : " IS NOT SO"
    exit !good }' || failed=1
done
exit "$failed"
