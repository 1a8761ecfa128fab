"""The dashboard of a run in a real browser."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

import pytest
from conftest import Running, needed, screenshot, until

TABS = ["overview", "tasks", "servers", "logs", "checkpoints", "data", "config"]
THEMES = ["light", "dark"]


def state(job):
    url = urlparse(job.url)
    with urllib.request.urlopen(f"http://{url.netloc}/api/state?{url.query}", timeout=10) as answer:
        return json.load(answer)


def task(job, name):
    return next(one for one in state(job)["tasks"] if one["task"] == name)


def trained(job):
    until(lambda: (state(job)["step"] or 0) > 300, 60, "training")
    until(lambda: len(state(job)["checkpoints"]) > 0, 60, "a checkpoint")


def test_curves_move_and_every_view_has_content(job, page):
    trained(job)
    page.goto(job.url)
    page.wait_for_selector('.chart[data-tag="loss"] canvas[aria-label*="at step"]', timeout=30000)
    label = lambda: page.get_attribute('.chart[data-tag="loss"] canvas', "aria-label")  # noqa: E731
    first = label()
    until(lambda: label() != first, 30, "a new point")
    drawn = page.evaluate("""() => { const c = document.querySelector('.chart canvas');
        return new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size }""")
    assert drawn > 8, "something is drawn"
    texts = {
        "overview": ["steps per second", "tasks up"],
        "tasks": ["worker/0", "running", "MiB", "SINCE THIS PAGE WAS OPENED"],
        "servers": ["ps/0", "ballast", "µs"],
        "logs": ["lines"],
        "checkpoints": ["model.ckpt-", "phalanx checkpoint verify"],
        "data": ["No statistics"],
        "config": [Path(needed("PHALANX_TEST_TASK")).name, "127.0.0.1"],
    }
    for number, tab in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        assert page.get_attribute(f"#tab-{tab}", "aria-selected") == "true"
        for text in texts[tab]:
            until(lambda: text in page.inner_text(f"#{tab}"), 20, f"{text} in {tab}")
    hosts = {urlparse(url).netloc for url in page.requests if not url.startswith("data:")}
    assert hosts == {urlparse(job.url).netloc}, hosts
    assert page.errors == []


def test_a_killed_worker_is_shown_and_its_recovery_after(job, page):
    trained(job)
    page.goto(job.url + "#tasks")
    row = lambda: page.evaluate("""() => [...document.querySelectorAll('#tasks tbody tr')].map(r => [...r.cells].map(c => c.textContent))
        .find(cells => cells[0] === 'worker/1') ?? []""")  # noqa: E731
    until(lambda: row()[1:2] == ["running"], 20, "the worker's row")
    os.kill(task(job, "worker/1")["pid"], signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: row()[1] in ("failed", "restarting"), 20, "the kill's mark")
    shown = time.monotonic() - killed
    until(lambda: row()[1] == "running" and row()[3] == "2", 30, "the recovery")
    print(f"\na killed worker was shown after {shown:.2f} s and ran again after {time.monotonic() - killed:.2f} s")
    assert shown < 1.0 or os.environ.get("PHALANX_PATIENT"), f"{shown:.2f} s"
    page.keyboard.press("1")
    until(lambda: "worker/1 restarting" in page.inner_text("#events"), 20, "the event")
    assert page.errors == []


def test_a_server_that_is_killed_comes_back_and_training_continues(job, page):
    trained(job)
    page.goto(job.url + "#servers")
    os.kill(task(job, "ps/1")["pid"], signal.SIGKILL)
    until(lambda: task(job, "ps/1")["attempt"] == 2 and task(job, "ps/1")["state"] == "running", 30, "the server's return")
    step = state(job)["step"]
    until(lambda: state(job)["step"] > step + 200, 60, "progress after it")
    until(lambda: "ps/1" in page.inner_text("#balance"), 30, "its balance")


@pytest.fixture(scope="module")
def chatty(tmp_path_factory):
    """A finished run whose only task printed 100,000 lines, markup among them."""
    run = tmp_path_factory.mktemp("chatty")
    program = """
for i in range(100000):
    print(f"line {i} needle" if i % 1000 == 0 else f"line {i} of hay")
print("<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>")
"""
    subprocess.run([needed("PHALANX_BIN"), "launch", "--ps", "0", "--workers", "0", "--no-dashboard", "--progress", "none", "--run-dir", str(run), "--",
                    sys.executable, "-c", program], stdout=subprocess.DEVNULL, timeout=120, check=True)
    running = Running("dashboard", run)
    yield running
    running.stop()


def test_100000_lines_are_filtered_and_markup_stays_text(chatty, page):
    page.goto(chatty.url + "#logs")
    count = lambda: page.inner_text("#log-count")  # noqa: E731
    until(lambda: count() == "100,001 of 100,001 lines", 60, "all lines")
    assert page.locator("#log-rows .row").count() < 200, "only what is seen is in the document"
    assert "<script>window.broken = 1</script>" in page.inner_text("#log-rows")
    page.keyboard.press("/")
    took = page.evaluate("""() => { const box = document.getElementById('log-filter'); const from = performance.now();
        box.value = 'needle'; box.dispatchEvent(new Event('input')); return performance.now() - from }""")
    assert count() == "100 of 100,001 lines"
    print(f"\nfiltering 100,001 lines took {took:.0f} ms")
    page.fill("#log-filter", "/line 9999[0-9] /")
    until(lambda: count() == "10 of 100,001 lines", 10, "a regular expression")
    assert page.evaluate("window.broken") is None
    assert page.locator("#logs script, #logs img").count() == 0
    assert page.errors == []


def test_requests_need_the_token_and_the_right_host(chatty):
    url = urlparse(chatty.url)

    def ask(path, **headers):
        request = urllib.request.Request(f"http://{url.netloc}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert ask(f"/api/state?{url.query}") == 200
    assert ask("/api/state") == 401
    assert ask("/api/state?t=0123456789abcdef0123456789abcdef") == 401
    assert ask(f"/api/state?{url.query}", Host="evil.example") == 403
    assert ask(f"/api/state?{url.query}", Origin="http://evil.example") == 403
    assert ask("/", Host="evil.example") == 403
    assert ask("/healthz") == 200


@pytest.mark.parametrize("theme", THEMES)
def test_no_serious_accessibility_finding_in_any_view(job, page, theme):
    trained(job)
    page.emulate_media(color_scheme=theme)
    page.goto(job.url)
    page.evaluate(Path(needed("PHALANX_AXE")).read_text())
    for number, tab in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        page.wait_for_timeout(400)
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")["violations"]
        serious = [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], (tab, serious)


def test_everything_can_be_reached_by_keyboard(job, page):
    page.goto(job.url)
    page.focus("#tab-overview")
    for tab in TABS[1:] + TABS[:1]:
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")
    page.keyboard.press("t")
    assert page.inner_text("#theme") == "Theme: light"


def test_a_phone_sees_everything_without_sideways_scrolling(job, page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(job.url)
    for number, tab in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab


def test_screenshots_of_the_demo(demo, page, tmp_path):
    """Every view of `phalanx demo` after a worker was killed and came back; kept in PHALANX_SCREENSHOTS."""
    until(lambda: (state(demo)["step"] or 0) > 20000, 180, "training")
    until(lambda: task(demo, "worker/1")["attempt"] == 2 and task(demo, "worker/1")["state"] == "running", 60, "the worker's return")
    kept = Path(os.environ.get("PHALANX_SCREENSHOTS", tmp_path))
    for screen, size, tabs in [("desktop", (1280, 800), TABS), ("phone", (390, 844), ["overview", "tasks"])]:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.goto(demo.url)
            page.wait_for_selector('.chart[data-tag="loss"] canvas[aria-label*="at step"]', timeout=30000)
            page.wait_for_timeout(2000)  # The trainers' rates are drawn from when the page was opened.
            for tab in tabs:
                page.keyboard.press(str(TABS.index(tab) + 1))
                page.wait_for_timeout(400)
                path = kept / f"dashboard-{tab}-{screen}-{theme}.png"
                screenshot(page, path)
                assert 5_000 < path.stat().st_size < 120_000, path
    assert page.errors == []


FILMS = """
[data]
train = "films.csv"
eval = "films.csv"
label = "liked"
[columns]
age = { kind = "numeric" }
genre = { kind = "vocabulary_list", vocabulary_list = ["War", "Drama"] }
genre_onehot = { kind = "indicator", column = "genre" }
[model]
kind = "dnn_classifier"
columns = ["age", "genre_onehot"]
hidden_units = [4]
[train]
max_steps = 20
batch_size = 10
"""


@pytest.mark.parametrize("theme", THEMES)
def test_the_statistics_of_a_training_are_shown(page, tmp_path, theme):
    rows = [f"{'' if row % 4 == 0 else 20 + row % 50},{['War|Drama', 'Drama|<b>'][row % 2]},{int(row % 3 == 0)}" for row in range(300)]
    (tmp_path / "films.csv").write_text("age,genre,liked\n" + "\n".join(rows) + "\n")
    (tmp_path / "films.toml").write_text(FILMS)
    subprocess.run([os.path.abspath(needed("PHALANX_BIN")), "train", "films.toml", "--model-dir", "run"], cwd=tmp_path, check=True,
                   capture_output=True, env={key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"})
    served = Running("dashboard", "run", cwd=tmp_path)
    try:
        page.emulate_media(color_scheme=theme)
        page.goto(served.url)
        page.keyboard.press(str(TABS.index("data") + 1))
        until(lambda: "genre" in page.inner_text("#data-table"), 20, "the table")
        shown = page.inner_text("#data")
        for text in ["25.0 %", "100.0 %", "300 ROWS", "0 66.7 %", "1 33.3 %", "liked (label)", "100 % of 300 values are unknown"]:
            assert text in shown, (text, shown)
        page.click("#data-table th button:text('Missing')")
        assert page.inner_text("#data-table tbody tr:first-child td:first-child") == "age"
        page.evaluate(Path(needed("PHALANX_AXE")).read_text())
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
        kept = Path(os.environ.get("PHALANX_SCREENSHOTS", tmp_path))
        page.screenshot(path=kept / f"dashboard-statistics-{theme}.png")
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.errors == []
    finally:
        served.stop()
