#!/usr/bin/env bash
# What rounding the factors of hidden layers to bfloat16 does to a model: wide & deep on the census, by the job file, once
# in each precision for every seed, trained in one process. Prints AUC and accuracy on the test set.
#
#   benches/bf16_auc.sh target/release/phalanx CENSUS_DIR [SEEDS, default 5]
set -euo pipefail
phalanx=$1 data=$2 seeds=${3:-5}
job=$(dirname "$0")/../jobs/census.toml
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for seed in $(seq "$seeds"); do
    for precision in f32 bf16; do
        sed "s/^\[model\]/[model]\nprecision = \"$precision\"/" "$job" > "$folder/job.toml"
        "$phalanx" train "$folder/job.toml" --seed "$seed" --data-dir "$data" --model-dir "$folder/$precision-$seed" --json \
            > "$folder/out" 2> "$folder/err" || { cat "$folder/err" >&2; exit 1; }
        number() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$folder/out"; }
        echo "$precision seed $seed auc $(number auc) accuracy $(number accuracy)" | tee -a "$folder/all"
    done
done
awk '{ n[$1]++; auc[$1] += $5; accuracy[$1] += $7 }
     END { for (p in n) printf "%s mean auc %.4f accuracy %.4f\n", p, auc[p] / n[p], accuracy[p] / n[p] }' "$folder/all"
