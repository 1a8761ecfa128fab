"""Draws where a measured job's processor time goes: a flame graph as one SVG file.

usage: flame.py OUT.svg SECONDS COMMAND…
       flame.py docs/images/flame-dnn.svg 4 target/release/phalanx-bench ps --model dnn --steps 900

Runs the command under `perf record` (all processors, call stacks by DWARF), and folds the stacks of its threads. A box's width
is its share of the samples; what stands on it was called by it. Point at a box for its name and share.
"""
import collections, html, re, subprocess, sys, tempfile

WIDTH, ROW, LEAST = 1200, 17, 0.002
COLOURS = {"phalanx_matmul": "#e8743b", "phalanx": "#f2b04c", "burn": "#8fb8de", "[k]": "#b7b7b7"}


def record(seconds, command, path):
    perf = ["perf", "record", "-q", "-a", "-F", "199", "--call-graph", "dwarf,16384", "-o", path, "--", *command]
    subprocess.run(["timeout", "-s", "INT", str(seconds), *perf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def short(symbol):
    symbol = re.sub(r"\+0x[0-9a-f]+$", "", symbol)
    symbol = re.sub(r"<impl [^>]*>::|::\{\{closure\}\}|::h[0-9a-f]{16}", "", symbol)
    return symbol[:120]


def stacks(path):
    """Counts of call stacks, outermost first."""
    script = ["perf", "script", "-i", path, "--no-inline", "-F", "comm,ip,sym"]
    text = subprocess.run(script, capture_output=True, text=True).stdout
    counts = collections.Counter()
    for sample in text.split("\n\n"):
        lines = [line for line in sample.splitlines() if line.strip()]
        if not lines or not lines[0].strip().startswith("phalanx"):
            continue
        frames = []
        for line in lines[1:]:
            address, _, symbol = line.strip().partition(" ")
            if symbol == "[unknown]":
                continue
            kernel = address.startswith("ffff")
            frames.append(("[k] " if kernel else "") + short(symbol or "?"))
        # A thread's name says which part of the system it is.
        outside = re.compile(r"^(__clone|clone3?|start_thread|std::|core::|tokio::|rayon|_start|__libc|main|<)")
        frames = [frame for frame in reversed(frames) if not outside.match(frame)]
        counts[(re.sub(r"-\d+$", "", lines[0].strip()), *frames)] += 1
    return counts


class Box:
    def __init__(self):
        self.count, self.inside = 0, {}


def tree(counts):
    root = Box()
    for stack, count in counts.items():
        root.count += count
        box = root
        for frame in stack:
            box = box.inside.setdefault(frame, Box())
            box.count += count
    return root


def colour(name):
    for start, shade in COLOURS.items():
        if start in name:
            return shade
    return "#d9cba3"


def draw(root, title):
    boxes, deepest = [], 0

    def put(name, box, left, depth):
        nonlocal deepest
        share = box.count / root.count
        if share < LEAST:
            return
        deepest = max(deepest, depth)
        boxes.append((name, left, depth, share))
        at = left
        for inner, one in sorted(box.inside.items(), key=lambda item: -item[1].count):
            put(inner, one, at, depth + 1)
            at += one.count / root.count

    put(title, root, 0.0, 0)
    height = (deepest + 1) * ROW + 8
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">']
    for name, left, depth, share in boxes:
        x, y, w = left * WIDTH, height - (depth + 1) * ROW - 4, share * WIDTH
        text = html.escape(name[: max(0, int(w / 6.7) - 1)])
        tip = html.escape(f"{name}: {100 * share:.1f} %")
        lines.append(f'<g><title>{tip}</title><rect x="{x:.1f}" y="{y}" width="{max(w - 0.4, 0.3):.1f}" height="{ROW - 1}" '
                     f'fill="{colour(name)}"/><text x="{x + 3:.1f}" y="{y + 12}">{text if w > 30 else ""}</text></g>')
    return "\n".join([*lines, "</svg>", ""])


def main():
    out, seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    with tempfile.NamedTemporaryFile(suffix=".perf") as file:
        record(seconds, command, file.name)
        counts = stacks(file.name)
    if not counts:
        sys.exit("no samples: is perf there, and may it look (kernel.perf_event_paranoid)?")
    root = tree(counts)
    with open(out, "w") as file:
        file.write(draw(root, f"{' '.join(command[1:])}: {root.count} samples"))


main()
