#!/usr/bin/env bash
# The examples with a coordinator: TensorFlow's tutorial in one process and as six, and a job with an evaluator beside it
# that the cluster lists. Each task must end by itself, with code 0.
#
#   tests/acceptance/coordinator.sh EXAMPLES     # the folder with the built examples
set -euo pipefail
examples=$1
work=$(mktemp -d)
ids=()
end() {
  for id in "${ids[@]}"; do kill -KILL "$id" 2>/dev/null || true; done
  rm -rf "$work"
}
trap end EXIT

# Starts every task of the cluster, the chief last; waits for all of them.
job() {
  local name=$1 roles=$2
  shift 2
  local ports cluster role index
  ports=$(python3 -c 'import json, socket, sys
roles = dict(pair.split("=") for pair in sys.argv[1].split(","))
sockets = {role: [socket.create_server(("127.0.0.1", 0)) for _ in range(int(n))] for role, n in roles.items()}
print(json.dumps({role: ["127.0.0.1:%d" % s.getsockname()[1] for s in listed] for role, listed in sockets.items()}))' "$roles")
  ids=()
  for pair in ${roles//,/ }; do
    role=${pair%=*}
    for index in $(seq 0 $((${pair#*=} - 1))); do
      TF_CONFIG='{"cluster": '$ports', "task": {"type": "'$role'", "index": '$index'}}' \
        timeout 60 "$@" > "$work/$name.$role$index" 2>&1 &
      ids+=($!)
    done
  done
  for id in "${ids[@]}"; do
    wait "$id" || { echo "$name: a task failed"; tail -n 20 "$work/$name".*; exit 1; }
  done
  ids=()
}

# says FILE TEXT...: the file has a line with each text.
says() {
  local file=$1 text
  shift
  for text in "$@"; do
    grep -qF -- "$text" "$file" || { echo "no line with '$text':"; cat "$file"; exit 1; }
  done
}

tutorial=("part_0 (5, 20) on /job:ps/replica:0/task:0/device:CPU:0" "part_1 (4, 20) on /job:ps/replica:0/task:1/device:CPU:0"
  "epoch 3: loss" "accuracy 1.000" "distributed evaluation: accuracy 1.000 of 16 examples"
  "direct evaluation: accuracy 1.000 of 16 examples")
timeout 60 "$examples/ps_coordinator" > "$work/alone" 2>&1 || { cat "$work/alone"; exit 1; }
says "$work/alone" "${tutorial[@]}"
grep "epoch 3" "$work/alone" | grep -q "accuracy 1.000"
echo "ps_coordinator in one process: $(grep 'epoch 3' "$work/alone")"
job tutorial ps=2,worker=3,chief=1 "$examples/ps_coordinator"
says "$work/tutorial.chief0" "${tutorial[@]}"
grep "epoch 3" "$work/tutorial.chief0" | grep -q "accuracy 1.000"
echo "ps_coordinator as six processes: $(grep 'epoch 3' "$work/tutorial.chief0")"

job sidecar ps=2,worker=2,evaluator=1,chief=1 "$examples/ps_sidecar" --model-dir "$work/model"
says "$work/sidecar.chief0" "trained to step 400"
says "$work/sidecar.evaluator0" "step 400: loss 0.0"
echo "ps_sidecar: $(grep evaluated "$work/sidecar.evaluator0")"
