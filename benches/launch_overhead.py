#!/usr/bin/env python3
"""What launcher and page cost: their share of the processor time of a whole job (chief, worker, two parameter servers) that somebody
watches. Processor time and not steps per second: it hardly depends on what else the machine does. With --on-off also steps per
second: the same job by turns under the launcher and by hand, so many times, and the medians.

    benches/launch_overhead.py PHALANX [STEPS] [--on-off TIMES]
"""

import os
import re
import statistics
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


def rate(text):
    return float(re.search(r"steps, (\d+) steps/s", text)[1])


def by_hand(phalanx, steps):
    """The same tasks without anybody around them."""
    with tempfile.TemporaryDirectory() as work:
        printed = subprocess.run([phalanx, "launch", "--ps", "2", "--workers", "1", "--print", "--", "x"], check=True,
                                 capture_output=True, text=True).stdout
        tasks = {}
        for task, config in re.findall(r"^(\S+)\s+TF_CONFIG='(.*)'$", printed, re.M):
            command = [phalanx, "demo-task", "--max-steps", steps, "--model-dir", os.path.join(work, "model")]
            tasks[task] = subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config}, stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL, text=True)
        said = {task: process.communicate(timeout=300)[0] for task, process in tasks.items()}
        return rate(said["chief/0"])


def launched(phalanx, steps):
    """The share of launcher and page, and the job's steps per second."""
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
        return rate(open(out).read())


def main(phalanx, steps="8000", *more):
    phalanx = os.path.abspath(phalanx)
    if more[:1] != ("--on-off",):
        launched(phalanx, steps)
        return
    with_it, without = [], []
    for _ in range(int(more[1])):
        with_it.append(launched(phalanx, steps))
        without.append(by_hand(phalanx, steps))
    on, off = statistics.median(with_it), statistics.median(without)
    print(f"steps/s under the launcher {with_it}, by hand {without}: medians {on} and {off}, {100 * (off - on) / off:.1f} % less")


main(*sys.argv[1:])
