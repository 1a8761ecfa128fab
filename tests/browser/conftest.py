"""Real jobs, real Chromium. See `setup` for what is needed.

    PHALANX_BIN=… PHALANX_TEST_TASK=… PHALANX_CHROMIUM=… PHALANX_AXE=… python -m pytest -q tests/browser
"""

import os
import re
import signal
import subprocess
import threading
import time

import pytest
from playwright.sync_api import sync_playwright


def needed(name):
    value = os.environ.get(name)
    if not value:
        pytest.fail(f"set {name}")
    return value


class Running:
    """A phalanx command that prints the URL of its dashboard."""

    def __init__(self, *arguments, cwd=None):
        env = {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "LD_LIBRARY_PATH")}
        self.process = subprocess.Popen(
            list(map(str, [os.path.abspath(needed("PHALANX_BIN")), *arguments])), env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output, self.url = [], None
        self.found = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()
        if not self.found.wait(60):
            self.stop()
            pytest.fail("no dashboard: " + "".join(self.output))

    def read(self):
        for line in self.process.stdout:
            self.output.append(line)
            match = re.search(r"Dashboard (http://\S+)", line)
            if match:
                self.url = match[1]
                self.found.set()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=needed("PHALANX_CHROMIUM"), args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """Two servers, a chief and two workers that train for a while and keep checkpoints and curves."""
    run = tmp_path_factory.mktemp("job")
    model = run / "click-model"
    running = Running(
        "launch", "--ps", 2, "--workers", 2, "--run-dir", run, "--model-dir", model, "--progress", "plain", "--",
        needed("PHALANX_TEST_TASK"), "--model-dir", model, "--max-steps", 1000000, "--step-ms", 8, "--save-steps", 400, "--shards", 2,
        "--ballast", 100000, "--optimizer", "adam", "--lease-ms", 1000)
    running.run = run
    yield running
    running.stop()


@pytest.fixture
def demo(tmp_path):
    """The demo, one of whose workers is killed."""
    running = Running("demo", "--max-steps", 60000, "--kill", "worker/1@4000", "--model-dir", "runs/demo", cwd=tmp_path)
    yield running
    running.stop()


@pytest.fixture
def page(chromium):
    """A new page that remembers every request and every error."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.requests, page.errors = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()


def screenshot(page, path):
    """Keeps a picture of what is seen. The dashboard has no more than 256 colours."""
    from PIL import Image

    page.screenshot(path=path)
    small = Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def until(check, seconds=30, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen within {seconds} s")
