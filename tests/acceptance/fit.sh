#!/usr/bin/env bash
# The examples that fit models: a line, a custom loop under every strategy, digits with two mirrored workers,
# clothes. Each must end by itself, with code 0 and a model that has learned.
#
#   tests/acceptance/fit.sh EXAMPLES DATA     # the folder with the built examples; the one with mnist and fashion-mnist
set -euo pipefail
. "$(dirname "$0")/lib.sh"
examples=$(cd "$1" && pwd) data=$(cd "$2" && pwd)

alone linear 60 "$examples/linear_fit"
at_least "linear_fit, epochs shown" "$(grep -c '^10/10' "$work/linear")" 5

for strategy in default one_device mirrored:2 mirrored:3 central_storage:2; do
  alone loop 60 "$examples/custom_loop" --strategy "$strategy" --epochs 4
  loss=$(awk '/^epoch 3/ { print $NF }' "$work/loop")
  at_least "custom_loop under $strategy, 1 - loss" "$(awk -v loss="$loss" 'BEGIN { print 1 - loss }')" 0.65
done

job worker=2 240 "$examples/mnist_fit" --data-dir "$data/mnist" --epochs 1 --formation-deadline 60
at_least "mnist_fit with two workers, accuracy" "$(awk '/^done/ { print $NF }' "$work/worker.0")" 0.93

alone clothes 240 "$examples/fashion_cnn" --data-dir "$data/fashion-mnist" --model mlp --epochs 2
at_least "fashion_cnn --model mlp, 2 epochs, accuracy" "$(awk '/^test accuracy/ { print $NF }' "$work/clothes")" 0.84
