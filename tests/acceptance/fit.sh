#!/usr/bin/env bash
# The examples that fit models: a line, a loop of one's own under every strategy, digits with two mirrored workers,
# clothes. Each must end by itself, with code 0 and a model that has learned.
#
#   tests/acceptance/fit.sh EXAMPLES DATA     # the folder with the built examples; the one with mnist and fashion-mnist
set -euo pipefail
examples=$1 data=$2
work=$(mktemp -d)
ids=()
end() {
  for id in "${ids[@]}"; do kill -KILL "$id" 2>/dev/null || true; done
  rm -rf "$work"
}
trap end EXIT

# at_least NAME VALUE LIMIT
at_least() {
  awk -v name="$1" -v value="$2" -v limit="$3" 'BEGIN {
    if (value == "" || value + 0 < limit + 0) { printf "%s: %s, wanted at least %s\n", name, value, limit; exit 1 }
    printf "%s: %s (at least %s)\n", name, value, limit }'
}

timeout 60 "$examples/linear_fit" > "$work/linear"
at_least "linear_fit, epochs shown" "$(grep -c '^10/10' "$work/linear")" 5

for strategy in default one_device mirrored:2 mirrored:3 central_storage:2; do
  timeout 60 "$examples/custom_loop" --strategy "$strategy" --epochs 4 > "$work/loop"
  loss=$(awk '/^epoch 3/ { print $NF }' "$work/loop")
  at_least "custom_loop under $strategy, 1 - loss" "$(awk -v loss="$loss" 'BEGIN { print 1 - loss }')" 0.65
done

ports=$(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*[s.getsockname()[1] for s in sockets])')
read -r first second <<< "$ports"
worker() {
  TF_CONFIG='{"cluster": {"worker": ["127.0.0.1:'$first'", "127.0.0.1:'$second'"]}, "task": {"type": "worker", "index": '$1'}}' \
    timeout 240 "$examples/mnist_fit" --data-dir "$data/mnist" --epochs 1 --formation-deadline 60
}
worker 1 > "$work/worker1" 2>&1 &
ids+=($!)
worker 0 > "$work/worker0" 2> "$work/errors0" || { cat "$work"/worker? "$work/errors0"; exit 1; }
wait "${ids[0]}" || { cat "$work/worker1"; exit 1; }
ids=()
at_least "mnist_fit with two workers, accuracy" "$(awk '/^done/ { print $NF }' "$work/worker0")" 0.93

timeout 240 "$examples/fashion_cnn" --data-dir "$data/fashion-mnist" --model mlp --epochs 2 > "$work/clothes"
at_least "fashion_cnn --model mlp, 2 epochs, accuracy" "$(awk '/^test accuracy/ { print $NF }' "$work/clothes")" 0.84
