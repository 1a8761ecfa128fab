// Curves, numbers, the cluster, events.
import { $, bytes, count, cpuTime, el, number, replace, span, svg, table, time } from "./dom.js";
import { draw } from "./chart.js";
import { rank, titles } from "./curves.js";
import { store } from "./store.js";

const charts = new Map();
export const signs = { launched: "▶", started: "●", exited: "■", restarting: "↻", told: "◌", killed: "✕", "given-up": "✕", finished: "⚑", checkpoint: "▣", evaluation: "◆" };

function options() {
  const first = store.curves.filter(Boolean).flatMap((curve) => (curve.points.length ? [curve.points[0][1]] : []));
  const began = store.state?.job?.started ? store.state.job.started / 1000 : Math.min(...first, Infinity);
  return { axis: $("axis").value, smoothing: Number($("smoothing").value), log: $("log-scale").checked, start: Math.min(began, ...first) };
}

// The step at the time of an event: events have a time, curves have both.
function stepAt(wall) {
  let best = null;
  for (const curve of store.curves) {
    if (!curve || curve.run !== "") continue;
    for (const point of curve.points) if (point[1] <= wall && (best === null || point[0] > best)) best = point[0];
  }
  return best;
}

function marks() {
  const shown = [];
  for (const event of store.events) {
    const wall = event.at / 1000;
    const failed = event.kind === "exited" && event.exit !== 0 && store.events.some((other) => other.kind === "restarting" && other.task === event.task);
    if (event.kind === "checkpoint") shown.push({ wall, step: event.step, sign: "▣", colour: "--dim", many: true });
    else if (event.kind === "evaluation") shown.push({ wall, step: event.step, sign: "◆", colour: "--c1", many: true });
    else if (failed) shown.push({ wall, step: stepAt(wall), sign: "✕", colour: "--bad" });
    else if (event.kind === "started" && event.attempt > 1) shown.push({ wall, step: stepAt(wall), sign: "↻", colour: "--good" });
  }
  return shown.slice(-60);
}

function drawCharts() {
  const groups = new Map();
  store.curves.forEach((curve) => {
    if (!curve || curve.points.length === 0) return;
    if (!groups.has(curve.tag)) groups.set(curve.tag, []);
    groups.get(curve.tag).push(curve);
  });
  const runs = [...new Set(store.curves.filter(Boolean).map((curve) => curve.run))].sort();
  const tags = [...groups.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).slice(0, 40);
  const parent = $("charts");
  if (tags.length === 0) { charts.clear(); replace(parent, el("p", { class: "empty" }, "No curves yet: they come from event files in the model directory.")); return; }
  if (charts.size === 0) parent.replaceChildren();
  for (const tag of tags) {
    if (charts.has(tag)) continue;
    const canvas = el("canvas", { role: "img" });
    const legend = el("div", { class: "legend" });
    const chart = { node: el("div", { class: "chart", "data-tag": tag }, el("h3", {}, titles(tag)), canvas, legend), canvas, legend, pointer: null };
    canvas.addEventListener("pointermove", (event) => { chart.pointer = event.offsetX; drawOne(tag); });
    canvas.addEventListener("pointerleave", () => { chart.pointer = null; drawOne(tag); });
    charts.set(tag, chart);
    const before = tags.slice(tags.indexOf(tag) + 1).map((other) => charts.get(other)?.node).find(Boolean);
    parent.insertBefore(chart.node, before ?? null);
  }
  const [chosen, all] = [options(), marks()];
  for (const tag of tags) paint(tag, groups.get(tag), runs, all, chosen);
}

function drawOne(tag) {
  const curves = store.curves.filter((curve) => curve && curve.tag === tag);
  const runs = [...new Set(store.curves.filter(Boolean).map((curve) => curve.run))].sort();
  paint(tag, curves, runs, marks(), options());
}

function paint(tag, curves, runs, all, chosen) {
  const chart = charts.get(tag);
  const series = curves.map((curve) => ({ name: curve.run || "train", key: runs.indexOf(curve.run), points: curve.points }));
  const under = draw(chart.canvas, series, all, chosen, chart.pointer);
  const texts = series.map((one) => {
    const hit = under?.find((other) => other.name === one.name)?.point ?? one.points.at(-1);
    return { key: one.key, text: `${one.name} ${number(hit?.[2])} at step ${count(hit?.[0])}` };
  });
  chart.canvas.setAttribute("aria-label", `${titles(tag)}: ${texts.map((one) => one.text).join(", ")}`);
  replace(chart.legend, ...texts.map((one) => el("span", {}, el("i", { class: `k${one.key % 8}` }), one.text)));
}

function numbers(state) {
  const job = state.job ?? {};
  const until = state.ended ?? Date.now();
  const sum = (key) => { const list = state.tasks.map((task) => task.status?.[key]).filter((value) => typeof value === "number"); return list.length ? list.reduce((a, b) => a + b, 0) : null; };
  const most = state.tasks.map((task) => task.status?.max_steps).find((value) => typeof value === "number");
  const left = state.state === "running" && most && state.steps_per_s > 0 ? Math.max(0, most - state.step) / state.steps_per_s : null;
  const up = state.tasks.filter((task) => task.state === "running").length;
  const evals = store.curves.filter((curve) => curve && curve.run !== "" && curve.points.length && /auc|accuracy/.test(curve.tag)).sort((a, b) => rank(a.tag) - rank(b.tag));
  const list = [
    ["step", most ? `${count(state.step)} / ${count(most)}` : count(state.step)],
    ["steps per second", number(state.steps_per_s)],
    ["loss", number(state.loss)],
    evals.length ? [`${evals[0].tag}, ${evals[0].run}`, number(evals[0].points.at(-1)[2])] : ["checkpoints", count(state.checkpoints.length)],
    ["tasks up", `${up} / ${state.tasks.length}`],
    [left === null ? "elapsed" : `elapsed, ${span(left * 1000)} left`, job.started ? span(until - job.started) : "–"],
  ];
  const rate = sum("examples_per_s");
  if (rate !== null) list.splice(2, 0, ["examples per second", number(rate)]);
  cost(state);
  replace($("numbers"), ...list.map(([label, value]) => el("div", { class: "number" }, el("b", {}, value), el("span", {}, label))));
}

// What the processes of a finished run used.
function cost(state) {
  const roles = state.usage?.roles ?? [];
  $("cost-card").hidden = roles.length === 0;
  if (roles.length === 0) return;
  const total = (key) => { const list = roles.map((one) => one[key]).filter((value) => typeof value === "number"); return list.length ? list.reduce((a, b) => a + b, 0) : null; };
  const rows = roles.length > 1 ? [...roles, { role: "total", tasks: total("tasks"), cpu_seconds: total("cpu_seconds"), sent_bytes: total("sent_bytes"), received_bytes: total("received_bytes") }] : roles;
  const columns = [
    { head: "Role", cell: (u) => u.role },
    { head: "Tasks", n: true, cell: (u) => count(u.tasks) },
    { head: "CPU time", n: true, cell: (u) => cpuTime(u.cpu_seconds) },
    { head: "Peak memory", n: true, cell: (u) => bytes(u.peak_bytes) },
    { head: "Sent", n: true, cell: (u) => bytes(u.sent_bytes) },
    { head: "Received", n: true, cell: (u) => bytes(u.received_bytes) },
  ];
  replace($("cost"), table("Cost", columns, rows));
}

function topology(state) {
  const of = (...roles) => state.tasks.filter((task) => roles.includes(task.task.split("/")[0]));
  const [trainers, servers] = [of("chief", "worker").slice(0, 24), [...of("ps").slice(0, 24), ...of("evaluator")]];
  if (trainers.length + servers.length === 0) { replace($("topology"), el("p", { class: "empty" }, "No launcher wrote into this directory; only curves and checkpoints are known.")); return; }
  const height = Math.max(trainers.length, servers.length, 1) * 46 + 6;
  const picture = svg("svg", { viewBox: `0 0 480 ${height}`, role: "img", "aria-label": state.tasks.map((task) => `${task.task} ${task.state}`).join(", ") });
  const traffic = (task) => (task.status?.bytes_in_per_s ?? 0) + (task.status?.bytes_out_per_s ?? 0);
  const all = servers.reduce((sum, task) => sum + traffic(task), 0);
  const place = (list, at) => (list.length ? ((at + 0.5) * height) / list.length : 0);
  trainers.forEach((a, i) => servers.forEach((b, j) => {
    if (b.task.startsWith("evaluator")) return;
    const live = a.state === "running" && b.state === "running";
    // The width shows the server's share of the traffic.
    const width = 1 + (live && all > 0 ? (3 * traffic(b)) / all : 0);
    picture.append(svg("line", { x1: 214, y1: place(trainers, i), x2: 268, y2: place(servers, j), class: live ? "live" : "", "stroke-width": width.toFixed(1) }));
  }));
  const node = (task, x, y) => {
    const status = task.status ?? {};
    const details = [];
    if (typeof status.steps_per_s === "number") details.push(`${Math.round(status.steps_per_s)}/s`);
    if (typeof status.lag === "number") details.push(`lag ${status.lag}`);
    if (typeof status.bytes === "number") details.push(bytes(status.bytes));
    if (task.attempt > 1) details.push(`attempt ${task.attempt}`);
    picture.append(svg("rect", { x, y: y - 19, width: 208, height: 38, rx: 7 }), svg("circle", { cx: x + 14, cy: y, r: 5, class: task.state }));
    const label = svg("text", { x: x + 26, y: y - 2 }); label.textContent = task.task;
    const small = svg("text", { x: x + 26, y: y + 12, class: "small" }); small.textContent = [task.state, ...details].join(" · ");
    picture.append(label, small);
  };
  trainers.forEach((task, i) => node(task, 4, place(trainers, i)));
  servers.forEach((task, i) => node(task, 268, place(servers, i)));
  replace($("topology"), picture);
}

function events() {
  const stopped = new Set(store.events.filter((event) => event.kind === "told").map((event) => `${event.task} ${event.attempt}`));
  const bad = (event) => event.kind === "killed" || event.kind === "given-up" || (event.kind === "exited" && event.exit !== 0 && !stopped.has(`${event.task} ${event.attempt}`));
  const names = { told: "stopping", "given-up": "given up" };
  const words = (event) => (event.kind === "evaluation" ? event.text : `${event.task ? `${event.task} ` : ""}${names[event.kind] ?? event.kind}${event.text ? `: ${event.text}` : ""}`);
  const items = store.events.slice(-300).reverse().sort((a, b) => b.at - a.at).map((event) => el("li", {},
    el("time", {}, time(event.at)), el("span", { class: `mark ${bad(event) ? "failed" : ""}`, "aria-hidden": "true" }, signs[event.kind] ?? "·"),
    el("span", { class: bad(event) ? "failed" : undefined }, words(event))));
  $("events").replaceChildren(...(items.length ? items : [el("li", { class: "empty" }, "Nothing yet.")]));
}

export function show(kinds) {
  if (store.state && (kinds.has("state") || kinds.has("points"))) { numbers(store.state); topology(store.state); }
  if (kinds.has("events")) events();
  if (kinds.has("points") || kinds.has("events")) drawCharts();
}

export function start() {
  for (const id of ["smoothing", "axis", "log-scale"]) $(id).addEventListener("input", drawCharts);
  addEventListener("resize", drawCharts);
  events(); drawCharts();
}
export const redraw = drawCharts;
