#!/usr/bin/env bash
# Strangers on the machine of a job. First another user binds the socket names of the tasks before they start, and connects to
# everything that listens: it must see neither the token nor a parameter, and the job must succeed. Then 2,000 idle and half-open
# connections reach a launched job under `ulimit -n 1024`: it must go on saving, start a killed worker again and serve its dashboard.
#
#   tests/acceptance/strangers.sh PHALANX PHALANX_TEST_TASK
#
# Exit codes: 0 all good, 1 something is not, 2 wrong usage. Needs root, to become another user.
set -euo pipefail
if [ $# -ne 2 ] || [ ! -x "$1" ] || [ ! -x "$2" ]; then
  echo "usage: $0 PHALANX PHALANX_TEST_TASK" >&2
  exit 2
fi
phalanx=$(realpath "$1") task=$(realpath "$2")
. "$(dirname "$0")/lib.sh"
stranger= launcher=
clean_up() {
  local pid
  for pid in $stranger $launcher; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}
cd "$work"
unset TF_CONFIG PHALANX_TOKEN
fail() {
  echo "FAILED: strangers: $1" >&2
  tail -n 30 ./*.out ps.0 chief.0 worker.0 >&2 2>/dev/null || true
  exit 1
}

if [ "$(id -u)" -ne 0 ]; then
  echo "skipped: the other user (needs root)"
else
  # Another user: listens under every name a task could use, connects to every port and name, and keeps what it is sent.
  cat >stranger.py <<'PYTHON'
import os, selectors, socket, struct, sys, time
ports, first, out = sys.argv[1].split(","), sys.argv[2] == "first", open(sys.argv[3], "wb", buffering=0)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
names = [f"\0{kind}:{host}{port}" for port in ports for kind in ("phalanx", "phalanx-bulk") for host in ("", "127.0.0.1:", "localhost:")]
chosen, bound = selectors.DefaultSelector(), 0
def keep(connection):
    connection.setblocking(False)
    chosen.register(connection, selectors.EVENT_READ, "data")
if first:
    for name in names:
        listening = socket.socket(socket.AF_UNIX); listening.bind(name); listening.listen(64); listening.setblocking(False)
        chosen.register(listening, selectors.EVENT_READ, "listen"); bound += 1
    print("bound", bound, flush=True)
# What a client of this protocol would begin with, and what it would like to hear.
greetings = [b"", b"PHALANX2C\0" + b"\7" * 64, b"PHALANX2M\1" + b"\7" * 64, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
             struct.pack("<I", 12) + b"\0" * 12]
end, last = time.time() + 90, 0
while time.time() < end:
    for key, _ in chosen.select(0.1):
        if key.data == "listen":
            try: keep(key.fileobj.accept()[0])
            except OSError: pass
            continue
        try: got = key.fileobj.recv(65536)
        except OSError: got = b""
        if got:
            out.write(got)
            # Whoever greets is answered "you are right", to learn what comes next.
            try: key.fileobj.send(b"\1" * 64)
            except OSError: pass
        else:
            chosen.unregister(key.fileobj); key.fileobj.close()
    if time.time() > last + 1 and len(chosen.get_map()) < 600:
        last = time.time()
        for port in ports:
            targets = [(socket.AF_INET, ("127.0.0.1", int(port)))]
            if not first: targets += [(socket.AF_UNIX, name) for name in names]
            for family, address in targets:
                for greeting in greetings:
                    connection = socket.socket(family)
                    try: connection.connect(address); connection.send(greeting); keep(connection)
                    except OSError: connection.close()
PYTHON
  secret=a-token-that-only-the-job-may-know
  for order in first later; do
    read -r ps chief worker <<<"$(free_ports 3)"
    python3 stranger.py "$ps,$chief,$worker" "$order" "heard.$order" >"stranger.$order.out" 2>&1 &
    stranger=$!
    if [ "$order" = first ]; then until_true 10 "the stranger's bind" grep -q "bound 18" stranger.first.out; fi
    cluster="{\"ps\": [\"127.0.0.1:$ps\"], \"chief\": [\"127.0.0.1:$chief\"], \"worker\": [\"127.0.0.1:$worker\"]}"
    for role in ps chief worker; do
      start "$role.0" 80 env PHALANX_TOKEN=$secret TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$role\", \"index\": 0}}" \
        "$task" --max-steps 2000 --step-ms 2
    done
    wait_for_tasks || fail "the job failed beside a stranger who came $order"
    kill -TERM "$stranger" && wait "$stranger" || true
    stranger=
    if grep -qaF "$secret" "heard.$order"; then fail "a stranger who came $order got the token"; fi
    # The names of this model's variables stand beside every value that is sent or asked for.
    if grep -qaE 'weight|ballast' "heard.$order"; then fail "a stranger who came $order got a parameter"; fi
    if [ "$order" = first ]; then grep -q 'PX[0-9]*' ps.0 || fail "ps/0 did not say that its socket name is taken"; fi
    echo "strangers: another user who came $order got $(stat -c %s "heard.$order") bytes, none of the token or a parameter"
  done
fi

# Idle connections: half say nothing, half stop in the middle of a request.
cat >idle.py <<'PYTHON'
import socket, sys, time
held, names = [], [(kind + address).encode() for address in sys.argv[2:] for kind in ("\0phalanx:", "\0phalanx-bulk:")]
for at in range(int(sys.argv[1])):
    host, port = sys.argv[2 + at % len(sys.argv[2:])].rsplit(":", 1)
    try:
        connection = socket.create_connection((host, int(port)), timeout=2)
        if at % 2: connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0")
        held.append(connection)
    except OSError:
        pass
    if at % 100 == 0: print("opened", len(held), flush=True)
print("all", len(held), flush=True)
time.sleep(120)
PYTHON
(
  ulimit -n 1024
  exec "$phalanx" launch --ps 1 --workers 1 --run-dir idle --model-dir idle/model --progress plain -- \
    "$task" --model-dir idle/model --max-steps 1000000 --save-steps 200 --step-ms 2
) >launch.out 2>&1 &
launcher=$!
field() { "$phalanx" status idle --json | python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[int(key) if key.isdigit() else key]
print(value)' "$1"; }
newest() { find idle/model -name 'model.ckpt-*.index' | sed 's/.*-\([0-9]*\).index/\1/' | sort -n | tail -n 1; }
saved_beyond() { [ "$(newest)" -gt "$1" ]; }
until_true 60 "a checkpoint" saved_beyond 0
url=$(grep -o 'http://127.0.0.1:[^ ]*' launch.out | head -n 1)
page=$(sed 's|http://\([^/]*\)/.*|\1|' <<<"$url")
mapfile -t addresses < <(python3 -c 'import json; print(*[a for l in json.load(open("idle/logs/job.json"))["cluster"].values() for a in l], sep="\n")')
(ulimit -n 4096; exec python3 idle.py 2000 "${addresses[@]}" "$page") >idle.out 2>&1 &
stranger=$!
until_true 60 "opening 2,000 connections" grep -q '^all' idle.out
before=$(newest)
until_true 30 "a save beside 2,000 connections" saved_beyond "$((before + 400))"
worker=$(field tasks.1.pid) name=$(field tasks.1.task)
kill -KILL "$worker"
restarted() { [ "$(field tasks.1.attempt)" = 2 ] && [ "$(field tasks.1.state)" = running ]; }
until_true 60 "the restart of $name" restarted
curl --silent --fail --max-time 10 --output /dev/null "$url" || fail "the dashboard does not answer"
before=$(newest)
until_true 30 "a save after the restart" saved_beyond "$((before + 400))"
echo "strangers: beside $(sed -n 's/^all //p' idle.out) connections the job saved, started $name again and served its dashboard"
