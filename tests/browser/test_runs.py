"""The dashboard of a folder of runs in a real browser, and what a single run shows of mirrored workers, variables and cost."""

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

import pytest
from conftest import Running, needed, screenshot, until

THEMES = ["light", "dark"]


def program(name):
    """A program of the tests, all of which are in one folder."""
    return Path(needed("PHALANX_TEST_TASK")).absolute().with_name(name)


def launch(run, *words, **settings):
    command = [os.path.abspath(needed("PHALANX_BIN")), "launch", "--no-dashboard", "--progress", "none", "--run-dir", str(run), *map(str, words)]
    env = {key: value for key, value in os.environ.items() if key not in ("TF_CONFIG", "LD_LIBRARY_PATH")}
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **settings)


def test_task(run, optimizer, steps, pause):
    return ["--ps", 2, "--workers", 1, "--model-dir", run, "--", needed("PHALANX_TEST_TASK"), "--model-dir", run, "--max-steps", steps,
            "--step-ms", pause, "--save-steps", 200, "--shards", 2, "--ballast", 1000, "--optimizer", optimizer]


test_task.__test__ = False  # Not a test, although its name says so.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs that have ended and differ in their optimizers, one that runs, and a folder that is no run."""
    root = tmp_path_factory.mktemp("folder") / "runs"
    root.mkdir()
    ended = [launch(root / name, *test_task(root / name, name, 600, 1)) for name in ("adam", "sgd")]
    assert [one.wait(120) for one in ended] == [0, 0]
    (root / "notes").mkdir()
    live = launch(root / "long-run", *test_task(root / "long-run", "sgd", 1000000, 8))
    served = Running("dashboard", "runs", cwd=root.parent)
    served.root, served.live = root, live
    yield served
    served.stop()
    if live.poll() is None:
        live.terminate()
    live.wait(40)


def runs(folder):
    url = urlparse(folder.url)
    with urllib.request.urlopen(f"http://{url.netloc}/api/runs?{url.query}", timeout=10) as answer:
        return {one["name"]: one for one in json.load(answer)["runs"]}


def cells(page, name):
    """The cells of a run's row by the heads of their columns."""
    return page.evaluate("""name => { const row = [...document.querySelectorAll('#runs-table tbody tr')].find(row => row.cells[1].textContent === name);
        return row ? Object.fromEntries([...row.cells].map(cell => [cell.dataset.head, cell.textContent])) : {} }""", name)


def axe(page):
    page.evaluate(Path(needed("PHALANX_AXE")).read_text())
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


def compared(page, folder):
    page.goto(folder.url)
    for name in ("adam", "sgd"):
        until(lambda: cells(page, name).get("State") == "succeeded", 30, f"the row of {name}")
        page.check(f"[aria-label='Compare {name}']")
    label = lambda: page.get_attribute(".chart[data-tag='loss'] canvas", "aria-label") or ""  # noqa: E731
    page.wait_for_selector(".chart[data-tag='loss'] canvas[aria-label*='at step']", timeout=30000)
    until(lambda: "adam " in label() and "sgd " in label(), 30, "both curves in one chart")
    return label()


def test_the_runs_are_listed_with_their_states_and_each_opens(folder, page):
    page.goto(folder.url)
    for name in ("adam", "sgd"):
        until(lambda: cells(page, name).get("State") == "succeeded", 30, f"the row of {name}")
        row = cells(page, name)
        assert int(row["Steps"]) >= 600 and row["Tasks"] == "chief, 1 worker, 2 ps" and row["Action"] == "", row
        assert row["Loss"] != "–" and row["CPU time"].endswith(" s") and ":" in row["Duration"], row
    until(lambda: cells(page, "long-run").get("State") == "running", 30, "the running one")
    assert cells(page, "long-run")["Action"] == "Stop"
    assert cells(page, "notes") == {}
    until(lambda: page.inner_text("#run-count") == "3 runs, 1 running", 10, "the count")
    page.fill("#run-filter", "ada")
    until(lambda: cells(page, "sgd") == {}, 10, "the filter")
    page.click("#runs-table a")
    until(lambda: page.inner_text("#state") == "succeeded", 30, "the run's own page")
    assert page.inner_text("#name") == "adam" and page.is_hidden("#stop")
    page.keyboard.press("4")
    until(lambda: "chief/0" in page.inner_text("#log-rows"), 20, "its logs")
    page.click("#back")
    until(lambda: cells(page, "sgd") != {}, 20, "the list again")
    assert page.errors == []


def test_two_runs_are_compared_in_the_same_charts(folder, page):
    label = compared(page, folder)
    assert label.count("at step") == 2, label
    drawn = page.evaluate("""() => { const c = document.querySelector(".chart[data-tag='loss'] canvas");
        const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        const of = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)).join();
        const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add([data[i], data[i + 1], data[i + 2]].join());
        return ['--c0', '--c1'].map(name => seen.has(of(style(name)))) }""")
    assert drawn == [True, True], "a line in the colour of each run"
    names = lambda: page.evaluate("() => [...document.querySelectorAll('#difference tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")  # noqa: E731
    until(lambda: names() == [["--optimizer", "adam", "sgd"]], 20, "the difference")
    page.check("#all-settings")
    until(lambda: ["--step-ms", "1", "1"] in names() and ["tasks: ps", "2", "2"] in names(), 10, "the settings that are the same")
    page.check("[aria-label='Compare long-run']")
    until(lambda: any(row[0] == "--max-steps" and row[3:4] == ["1000000"] for row in names()), 30, "the third run")
    page.reload()
    until(lambda: page.is_checked("[aria-label='Compare adam']") and page.is_checked("[aria-label='Compare long-run']"), 20, "the same choice after a reload")
    first = lambda: page.get_attribute(".chart[data-tag='loss'] canvas", "aria-label") or ""  # noqa: E731
    page.wait_for_selector(".chart[data-tag='loss'] canvas[aria-label*='long-run']", timeout=30000)
    before = first()
    until(lambda: first() != before, 30, "a new point of the run that goes on")
    page.click("#clear")
    assert page.is_hidden("#comparison")
    assert page.errors == []


@pytest.mark.parametrize("theme", THEMES)
def test_the_list_is_accessible_and_fits_a_phone(folder, page, tmp_path, theme):
    page.emulate_media(color_scheme=theme)
    compared(page, folder)
    until(lambda: "--optimizer" in page.inner_text("#difference"), 20, "the difference")
    assert axe(page) == []
    kept = Path(os.environ.get("PHALANX_SCREENSHOTS", tmp_path))
    page.set_viewport_size({"width": 1280, "height": 1060})
    page.wait_for_timeout(300)
    screenshot(page, kept / f"dashboard-runs-desktop-{theme}.png")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    screenshot(page, kept / f"dashboard-runs-phone-{theme}.png")


def test_the_page_of_a_finished_run_shows_its_cost_and_its_variables(folder, page):
    page.goto(folder.url.replace("/?", "/run?") + "&run=adam")
    until(lambda: page.is_visible("#cost-card"), 30, "the cost")
    rows = page.evaluate("() => [...document.querySelectorAll('#cost tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    assert [row[0] for row in rows] == ["chief", "worker", "ps", "total"], rows
    assert all(row[2].endswith(" s") for row in rows) and rows[2][1] == "2", rows
    assert all("iB" in row[3] for row in rows[:3]) and "B" in rows[2][4] and rows[0][4] == "–", rows
    page.keyboard.press("3")
    until(lambda: "ballast" in page.inner_text("#variables-table"), 20, "the variables")
    shards = page.evaluate("() => [...document.querySelectorAll('#variables-table tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    held = sorted((row[4], row[6]) for row in shards if row[0] == "ballast")
    assert len(held) == 2 and {task for task, _ in held} == {"ps/0", "ps/1"}, shards
    assert {rows for _, rows in held} == {"0 to 500", "500 to 1,000"}, held
    page.fill("#variable-filter", "nothing like it")
    until(lambda: "No name matches." in page.inner_text("#variables-table"), 10, "the filter")
    assert axe(page) == []
    assert page.errors == []


@pytest.mark.parametrize("flags", [["--workers", 1], ["--workers", 0, "--alone"]])
def test_mirrored_steps_are_visible(page, tmp_path, flags):
    """A `fit` of two workers, and one of a process with two replicas, while they run."""
    alone = ["--alone", "refuse"] if "--alone" in flags else []
    workers = [flag for flag in flags if flag != "--alone"]
    job = Running("launch", "--ps", 0, *workers, "--run-dir", tmp_path / "run", "--progress", "plain", "--",
                  program("phalanx_mirrored_worker"), "--epochs", 1000, "--step-ms", 5, *alone)
    try:
        page.goto(job.url)
        numbers = lambda: dict(line for line in page.evaluate(  # noqa: E731
            "() => [...document.querySelectorAll('.number')].map(one => [one.querySelector('span').textContent, one.querySelector('b').textContent])"))
        until(lambda: float(numbers().get("steps per second", "–").replace(",", "").replace("–", "0")) > 0, 60, "a rate")
        seen = numbers()
        assert seen["loss"] != "–", seen
        before = int(seen["step"].split(" ")[0].replace(",", ""))
        # The first of 1000 passes shows how many steps a pass has.
        until(lambda: numbers()["step"].endswith("/ 38,000"), 30, "the last step")
        until(lambda: int(numbers()["step"].split(" ")[0].replace(",", "")) > before, 30, "more steps")
        rate = float(numbers()["steps per second"].replace(",", ""))
        assert rate <= 200, "a step takes 5 ms, however many workers make it together"
        page.keyboard.press("3")
        tasks = 2 if workers == ["--workers", 1] else 1
        until(lambda: ("copy 2 of 2" if tasks == 2 else "1 of 1") in page.inner_text("#variables-table"), 20, "the variables of every worker")
        assert page.errors == []
    finally:
        job.stop()


def test_a_run_is_stopped_after_a_confirmation(folder, page):
    page.goto(folder.url)
    until(lambda: cells(page, "long-run").get("Action") == "Stop", 30, "the button")
    page.click("[aria-label='Stop long-run']")
    assert page.is_visible("#stop-dialog") and "long-run" in page.inner_text("#stop-dialog")
    assert page.evaluate("document.activeElement.id") == "stop-no", "Enter alone stops nothing"
    page.click("#stop-no")
    assert page.is_hidden("#stop-dialog") and runs(folder)["long-run"]["state"] == "running"
    page.goto(folder.url.replace("/?", "/run?") + "&run=long-run")
    until(lambda: page.is_visible("#stop"), 20, "the button on the run's page")
    page.click("#stop")
    page.click("#stop-yes")
    until(lambda: page.inner_text("#state") == "stopped", 60, "the end")
    assert page.is_hidden("#stop-dialog") and page.is_hidden("#stop")
    assert folder.live.wait(30) == 143, "the launcher ends as after SIGTERM"
    events = [json.loads(line) for line in (folder.root / "long-run" / "logs" / "events.jsonl").read_text().splitlines()]
    assert events[-1]["outcome"] == "stopped" and not any(event["kind"] == "killed" for event in events), "it was orderly"
    page.click("#back")
    until(lambda: cells(page, "long-run").get("State") == "stopped", 20, "the list")
    assert cells(page, "long-run")["Action"] == ""
    assert runs(folder)["adam"]["state"] == "succeeded"
    assert page.errors == []
