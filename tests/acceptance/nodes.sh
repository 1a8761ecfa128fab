#!/usr/bin/env bash
# A job over four machines, which are network namespaces of our own: each has its address on a bridge and nothing else in
# common but the disk. `phalanx launch --nodes … --ssh` starts a launcher in each, through a stand-in for ssh that enters the
# namespace; the same job is then started node by node. Four trainers and four parameter servers each time. With EXAMPLES, the
# example that is an estimator runs in the same layout: `master` on the first node, as managed platforms have it.
#
#   tests/acceptance/nodes.sh PHALANX [EXAMPLES]        PHALANX: the binary, any profile; EXAMPLES: the folder with the built examples
#
# Needs root and ip(8). Exit codes: 0 all good (or skipped, with a line that tells so), 1 something is not, 2 wrong usage.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -x "$1" ]; then
  echo "usage: $0 PHALANX [EXAMPLES]" >&2
  exit 2
fi
phalanx=$(realpath "$1") examples=${2:+$(realpath "$2")}
id=px$$
if ! ip netns add "$id-0" 2>/dev/null; then
  echo "skipped: needs root and network namespaces"
  exit 0
fi
. "$(dirname "$0")/lib.sh"
clean_up() { for i in 0 1 2 3 x; do ip netns del "$id-$i" 2>/dev/null || true; done; }

# The bridge lives in a namespace too, so that this machine's own network is not touched.
ip netns add "$id-x"
ip -n "$id-x" link add bridge type bridge
ip -n "$id-x" link set bridge up
nodes=()
for i in 0 1 2 3; do
  [ "$i" = 0 ] || ip netns add "$id-$i"
  ip -n "$id-x" link add "port$i" type veth peer name eth0 netns "$id-$i"
  ip -n "$id-x" link set "port$i" master bridge up
  ip -n "$id-$i" addr add "10.99.0.$((i + 1))/24" dev eth0
  ip -n "$id-$i" link set eth0 up
  ip -n "$id-$i" link set lo up
  nodes+=("10.99.0.$((i + 1))")
done
list=$(IFS=,; echo "${nodes[*]}")

cat >"$work/ssh" <<SSH
#!/usr/bin/env bash
# ssh HOST COMMAND, into the namespace with that address.
last=\${1##*.}
exec ip netns exec "$id-\$((last - 1))" sh -c "\$2"
SSH
chmod +x "$work/ssh"

check() { # NAME LOG: every trainer of the job computed, every server held something, and nothing is left.
  local name=$1 out=$2
  for task in chief/0 worker/0 worker/1 worker/2; do
    if ! grep -q "^$task *| .*computed" "$out"; then
      echo "FAILED: nodes, $name: $task did not say that it computed" >&2
      tail -n 40 "$out" >&2
      exit 1
    fi
  done
  for _ in $(seq 100); do
    left=$(for i in 0 1 2 3; do ip netns pids "$id-$i"; done)
    [ -z "$left" ] && break
    sleep 0.1
  done
  if [ -n "$left" ]; then
    echo "FAILED: nodes, $name: processes left in the namespaces: $left" >&2
    exit 1
  fi
  echo "nodes, $name: $(grep -o '[0-9]* steps, [0-9]* steps/s.*' "$out" | tail -n 1)"
}

flags=(--nodes "$list" --worker-port 2223 --ps-port 2222)
program=("$phalanx" demo-task --max-steps 400 --model-dir)

cd "$work"
alone ssh.out 120 "$phalanx" launch "${flags[@]}" --ssh --ssh-command "$work/ssh" --no-dashboard --progress plain --run-dir over-ssh \
  -- "${program[@]}" "$work/model-ssh"
check "over ssh" ssh.out

export PHALANX_TOKEN=0123456789abcdef0123456789abcdef
for i in 0 1 2 3; do
  start "node$i.out" 120 ip netns exec "$id-$i" "$phalanx" launch "${flags[@]}" --node "$i" --no-dashboard --progress plain \
    --run-dir "node$i" -- "${program[@]}" "$work/model-nodes"
done
wait_for_tasks
cat node?.out >all.out
check "one by one" all.out

if [ -n "$examples" ]; then
  alone estimator.out 120 "$phalanx" launch "${flags[@]}" --ssh --ssh-command "$work/ssh" --no-dashboard --progress plain \
    --run-dir estimator -- "$examples/dnn_classifier" --model_dir "$work/model-estimator"
  if ! grep -q "^chief/0 *| chief/0 is done: 100" estimator.out; then
    echo "FAILED: nodes, the estimator trained something else" >&2
    tail -n 40 estimator.out >&2
    exit 1
  fi
  echo "nodes, an estimator: $(grep -o 'chief/0 is done.*' estimator.out)"
fi
echo "nodes: 4 namespaces, 8 tasks, twice: all ended by themselves with exit code 0, nothing left"
