#!/usr/bin/env bash
# A program and data that are copied to two nodes before a job starts there, over real ssh: sshd listens on two loopback addresses,
# each in a mount namespace of its own, where the working directory and the folder of phalanx are empty. One node has rsync, the
# other has not. The job then trains from what was copied; a second launch copies nothing that is there already; a node whose sshd is
# gone ends the launch before anything is started.
#
#   tests/acceptance/staging.sh PHALANX        PHALANX: the binary, any profile
#
# Needs root, mount namespaces, sshd and rsync; installs the last two with apt-get where they are missing. Exit codes: 0 all good (or
# skipped, with a line that tells so), 1 something is not, 2 wrong usage.
set -euo pipefail

if [ $# -ne 1 ] || [ ! -x "$1" ]; then
  echo "usage: $0 PHALANX" >&2
  exit 2
fi
phalanx=$(realpath "$1")
skip() { echo "skipped: $1" && exit 0; }
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root and mount namespaces"
if ! [ -x /usr/sbin/sshd ] || ! command -v rsync >/dev/null || ! command -v ssh >/dev/null; then
  command -v apt-get >/dev/null || skip "needs sshd and rsync"
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openssh-server openssh-client rsync; } \
    >/dev/null 2>&1 || skip "needs sshd and rsync, which could not be installed"
fi
. "$(dirname "$0")/lib.sh"
fail() {
  echo "FAILED: staging, $1" >&2
  for log in "$work"/*.out; do echo "--- $log" && tail -n 30 "$log"; done >&2
  exit 1
}

job=$work/job bin=$work/bin
mkdir -p "$job/data/deep" "$bin" /run/sshd
cp "$phalanx" "$bin/phalanx"
echo "one row" >"$job/data/deep/rows.csv"
cat >"$job/train" <<TRAIN
#!/bin/sh
# Every task reads the data that was copied beside it.
grep -q "one row" data/deep/rows.csv && echo "the data is here" && exec "$bin/phalanx" demo-task --max-steps 300 --model-dir "$work/\$1"
TRAIN
chmod +x "$job/train"
read -r port worker ps <<<"$(free_ports 3)"
ssh-keygen -q -t ed25519 -N "" -f "$work/key"
ssh-keygen -q -t ed25519 -N "" -f "$work/host"

# node NAME ADDRESS COMMAND: an sshd whose processes have an empty working directory; COMMAND runs first in its namespace.
node() {
  cat >"$work/$1.conf" <<CONF
ListenAddress $2
Port $port
HostKey $work/host
AuthorizedKeysFile $work/key.pub
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
CONF
  unshare --mount sh -c "
    mount --make-rprivate / && mount -t tmpfs none '$job' && mount -t tmpfs none '$bin' && $3 &&
    exec /usr/sbin/sshd -D -e -f '$work/$1.conf'" >"$work/$1.out" 2>&1 &
  pids+=("$!")
  until_true 10 "sshd of $1" grep -q "Server listening" "$work/$1.out"
}
node one 127.0.0.1 true
node two 127.0.0.2 "mount --bind /dev/null '$(command -v rsync)'"
two=${pids[1]}

ssh="ssh -p $port -i $work/key -F none -o BatchMode=yes -o LogLevel=ERROR"
ssh="$ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5"
launch() { # NAME: exit code of a launch of ./train in the working directory of the job; its output is in NAME.out.
  (cd "$job" && timeout --kill-after=5 120 "$bin/phalanx" launch --nodes 127.0.0.1,127.0.0.2 --worker-port "$worker" \
    --ps-port "$ps" --ssh --ssh-command "$ssh" --stage train --stage data --no-dashboard --progress plain \
    --run-dir "$work/run-$1" -- ./train "$1") >"$work/$1.out" 2>&1
}
says() { grep -q "$2" "$work/$1.out" || fail "$1 does not say: $2"; }

launch first || fail "the first launch ended with code $?"
says first "Staged 127.0.0.1: 3 files copied (rsync)" # the program, the data, and phalanx itself
says first "Staged 127.0.0.2: .* MB copied (tar)"
for task in chief/0 worker/0 ps/0 ps/1; do says first "^$task *| .*the data is here"; done
for task in chief/0 worker/0; do says first "^$task *| .*computed"; done

echo "another row, after one row" >"$job/data/deep/rows.csv"
launch second || fail "the second launch ended with code $?"
says second "Staged 127.0.0.1: 1 file copied (rsync)"
launch third || fail "the third launch ended with code $?"
says third "Staged 127.0.0.1: unchanged (rsync)"

kill -TERM "$two"
wait "$two" 2>/dev/null || true
status=0
launch fourth || status=$?
[ "$status" = 138 ] || fail "a launch without a node ended with code $status"
says fourth "error\[PX0215\]: node 127.0.0.2 did not answer"
says fourth "Connection refused"
says fourth "= help: check it with: ssh -p $port"
[ ! -e "$work/fourth" ] && ! grep -q "the data is here" "$work/fourth.out" || fail "something was started without a node"
echo "staging: rsync to one node, tar to the other, one changed file copied again, unchanged ones not, a lost node refused with PX0215"
