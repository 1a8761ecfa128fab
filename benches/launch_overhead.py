#!/usr/bin/env python3
"""What launcher and page cost: their share of the processor time of a whole job (chief, worker, two parameter servers) that somebody
watches. Processor time and not steps per second: it hardly depends on what else the machine does.

    benches/launch_overhead.py PHALANX [STEPS]
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request


def watch(url):
    try:
        for _ in urllib.request.urlopen(url):
            pass
    except OSError:
        pass  # The page went with the launcher.


def main(phalanx, steps="8000"):
    phalanx = os.path.abspath(phalanx)
    with tempfile.TemporaryDirectory() as work:
        out, err = os.path.join(work, "out"), os.path.join(work, "err")
        command = [phalanx, "launch", "--ps", "2", "--workers", "1", "--run-dir", os.path.join(work, "run"), "--progress", "plain",
                   "--", phalanx, "demo-task", "--max-steps", steps, "--model-dir", os.path.join(work, "model")]
        job = subprocess.Popen(command, stdout=open(out, "w"), stderr=open(err, "w"))
        found = None
        while not found and job.poll() is None:
            found = re.search(r"(http://\S+)/\?t=(\S+)", open(err).read())
        if not found:
            sys.exit(open(err).read())
        threading.Thread(target=watch, args=[f"{found[1]}/api/stream?t={found[2]}"], daemon=True).start()
        own = 0
        while True:
            pid, status, usage = os.wait4(job.pid, os.WNOHANG)
            if pid:
                break
            fields = open(f"/proc/{job.pid}/stat").read().rsplit(")", 1)[1].split()
            own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            time.sleep(0.02)
        if status:
            sys.exit(open(err).read())
        whole = usage.ru_utime + usage.ru_stime
        print(f"launcher and page: {own:.2f} s of {whole:.2f} s of processor time, {100 * own / whole:.2f} %")


main(*sys.argv[1:])
