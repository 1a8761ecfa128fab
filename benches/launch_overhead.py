#!/usr/bin/env python3
"""What launcher and page cost a job (chief, worker, two parameter servers) that somebody watches: on and off within one run.

While the job trains, launcher and page are stopped (SIGSTOP) and let go on again (SIGCONT) by turns, so that two windows that are
compared lie side by side, with the same model and nearly the same neighbours on the machine. The windows come as on, off, off, on,
…, so that a drift does not count. What was computed is measured by the bytes that the trainers wrote (/proc/PID/io): every step sends as
many, and they can be read at any moment. How many make a step is told at the end, from the steps that the trainers count themselves.

Steps per second are told as they were, and for each second of processor time that the tasks got: that number hardly depends on what
else the machine does. From it and from the launcher's own processor time follows the cost where all processors are busy.

    benches/launch_overhead.py PHALANX [--windows N] [--seconds S] [--raw FILE]        Linux
"""

import argparse
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

TRAINERS = ["chief/0", "worker/0"]
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time(pid):
    """Seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def written(pid):
    """Bytes that a process wrote so far."""
    return int(re.search(r"wchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[1])


class Job:
    """A job under a launcher, with somebody who watches its page."""

    def __init__(self, phalanx, work):
        self.run, self.err = work / "run", work / "err"
        command = [phalanx, "launch", "--ps", "2", "--workers", "1", "--run-dir", self.run, "--progress", "plain", "--",
                   phalanx, "demo-task", "--max-steps", "10000000", "--model-dir", work / "model"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(self.err, "w"))
        found = self.until(lambda: re.search(r"(http://\S+)/\?t=(\S+)", self.err.read_text()))
        threading.Thread(target=self.watch, args=[f"{found[1]}/api/stream?t={found[2]}"], daemon=True).start()
        self.until(lambda: self.steps() > 500)
        events = map(json.loads, (self.run / "logs/events.jsonl").read_text().splitlines())
        self.tasks = {event["task"]: event["pid"] for event in events if event["kind"] == "started"}

    def until(self, check):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if value := check():
                    return value
            except (OSError, ValueError):
                pass  # Not written yet.
            time.sleep(0.05)
        self.end()
        sys.exit("the job did not start:\n" + self.err.read_text())

    @staticmethod
    def watch(url):
        try:
            for _ in urllib.request.urlopen(url):
                pass
        except OSError:
            pass  # The dashboard stopped with the launcher.

    def steps(self):
        """As many as the trainers say that they have computed; they say so twice a second."""
        told = (self.run / "logs/status" / f"{task.replace('/', '-')}.json" for task in TRAINERS)
        return sum(json.loads(path.read_text())["steps"] for path in told)

    def written(self):
        return sum(written(self.tasks[trainer]) for trainer in TRAINERS)

    def window(self, state, seconds):
        """Bytes that the trainers wrote, seconds, and processor time of the launcher and of the tasks."""
        self.process.send_signal(signal.SIGCONT if state == "on" else signal.SIGSTOP)
        before = self.look()
        time.sleep(seconds)
        return [b - a for a, b in zip(before, self.look())]

    def look(self):
        own, tasks = processor_time(self.process.pid), sum(map(processor_time, self.tasks.values()))
        return self.written(), time.monotonic(), own, tasks

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)


def told(what, ratios, draws=4000):
    """Prints the mean of the pairs' ratios, cleaned of the wildest tenth on each side, and its 95 % interval by bootstrapping."""
    def cost(logs):
        cut = len(logs) // 10
        return 100 * (1 - math.exp(statistics.mean(sorted(logs)[cut:len(logs) - cut])))
    # Logarithms: twice as much and half as much make nothing together.
    logs, draw = [math.log(ratio) for ratio in ratios], random.Random(1)
    found = sorted(cost(draw.choices(logs, k=len(logs))) for _ in range(draws))
    print(f"{what}: launcher and page cost {cost(logs):.2f} % (95 %: {found[draws // 40]:.2f} to {found[-draws // 40]:.2f})")


def measure(flags, work):
    job = Job(os.path.abspath(flags.phalanx), Path(work))
    windows = []
    try:
        began = job.written(), job.steps()
        for pair in range(flags.windows // 2):
            for state in ["on", "off"] if pair % 2 == 0 else ["off", "on"]:
                windows.append((state, *job.window(state, flags.seconds)))
        job.process.send_signal(signal.SIGCONT)
        per_step = (job.written() - began[0]) / (job.steps() - began[1])
    finally:
        job.end()
    if flags.raw:
        flags.raw.write_text("".join(f"{' '.join(map(str, window))}\n" for window in windows))
    return windows, per_step


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("phalanx")
    flags.add_argument("--windows", type=int, default=600)
    flags.add_argument("--seconds", type=float, default=1.0)
    flags.add_argument("--raw", type=Path, help="where every window is written, a line each")
    flags = flags.parse_args()
    with tempfile.TemporaryDirectory() as work:
        windows, per_step = measure(flags, work)
    on, off = ([window[1:] for window in windows if window[0] == state] for state in ["on", "off"])
    own, tasks = sum(window[2] for window in on), sum(window[3] for window in on)
    share = own / (own + tasks)
    rates = [statistics.median(window[0] / per_step / window[1] for window in list) for list in [on, off]]
    print(f"{len(on)} windows of {flags.seconds:g} s each, on and off: {rates[0]:.0f} and {rates[1]:.0f} steps/s (medians), {per_step:.0f} bytes a step")
    print(f"launcher and page: {own:.2f} s of processor time beside {tasks:.2f} s of the tasks, {100 * share:.2f} %")
    # Windows of one pair have the same number in both lists.
    told("steps per second", [(a[0] / a[1]) / (b[0] / b[1]) for a, b in zip(on, off)])
    effort = [(a[0] / a[3]) / (b[0] / b[3]) for a, b in zip(on, off)]
    told("steps per second of the tasks' processor time", effort)
    told("both together, where all processors are busy", [(1 - share) * one for one in effort])


main()
