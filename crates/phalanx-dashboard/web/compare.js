// The curves of several runs in the same charts, and what differs between their configurations.
import { $, count, el, number, replace, table } from "./dom.js";
import { draw } from "./chart.js";
import { rank, titles } from "./curves.js";
import { apiOf } from "./store.js";

const AGAIN_MS = 2000;
const MOST_CHARTS = 40;
// By name: curves, settings, and whether they still change.
const known = new Map();
const charts = new Map();
const places = new Map();
let shown = [];
let summaries = new Map();

// The colour of each run. It stays while the run is chosen, whichever other runs are.
export function colours(names) {
  for (const name of places.keys()) if (!names.includes(name)) places.delete(name);
  for (const name of names) {
    if (places.has(name)) continue;
    const taken = new Set(places.values());
    places.set(name, [...Array(8).keys()].find((place) => !taken.has(place)) ?? 0);
  }
  return places;
}

async function json(path, name) {
  const answer = await fetch(apiOf(path, name));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function fetchRun(name) {
  const before = known.get(name);
  const summary = summaries.get(name);
  const changed = !before || before.state !== summary?.state || before.step !== summary?.step;
  const due = !before || Date.now() - before.at > AGAIN_MS;
  if (!changed || !due || before?.busy) return;
  if (before) before.busy = true;
  try {
    const [curves, settings] = await Promise.all([json("api/curves", name), json("api/settings", name)]);
    known.set(name, { curves, settings, state: summary?.state, step: summary?.step, at: Date.now(), busy: false });
    redraw();
    difference();
  } catch { if (before) before.busy = false; /* asked again with the next list */ }
}

function options() {
  return { axis: $("axis").value, smoothing: Number($("smoothing").value), log: $("log-scale").checked, start: 0 };
}

// Times are counted from the launch of each run, so that runs of different days lie over each other.
function seriesOf(name) {
  const found = known.get(name);
  if (!found) return [];
  const first = Math.min(...found.curves.flatMap((curve) => (curve.points.length ? [curve.points[0][1]] : [])), Infinity);
  const started = summaries.get(name)?.started;
  const start = started ? Math.min(started / 1000, first) : first;
  return found.curves.filter((curve) => curve.points.length).map((curve) => ({
    tag: curve.run === "" ? curve.tag : `${curve.tag} · ${curve.run}`,
    plain: curve.tag,
    name, key: places.get(name) ?? 0,
    points: curve.points.map(([step, wall, value]) => [step, wall - start, value]),
  }));
}

function chartOf(tag) {
  if (!charts.has(tag)) {
    const canvas = el("canvas", { role: "img" });
    const legend = el("div", { class: "legend" });
    const chart = { node: el("div", { class: "chart", "data-tag": tag }, el("h3", {}, ""), canvas, legend), canvas, legend, pointer: null, series: [] };
    canvas.addEventListener("pointermove", (event) => { chart.pointer = event.offsetX; paint(tag); });
    canvas.addEventListener("pointerleave", () => { chart.pointer = null; paint(tag); });
    charts.set(tag, chart);
  }
  return charts.get(tag);
}

function paint(tag) {
  const chart = charts.get(tag);
  const under = draw(chart.canvas, chart.series, [], options(), chart.pointer);
  const texts = chart.series.map((one) => {
    const hit = under?.find((other) => other.name === one.name)?.point ?? one.points.at(-1);
    return { key: one.key, text: `${one.name} ${number(hit?.[2])} at step ${count(hit?.[0])}` };
  });
  chart.canvas.setAttribute("aria-label", `${tag}: ${texts.map((one) => one.text).join(", ")}`);
  replace(chart.legend, ...texts.map((one) => el("span", {}, el("i", { class: `k${one.key}` }), one.text)));
}

export function redraw() {
  const groups = new Map();
  for (const series of shown.flatMap(seriesOf)) {
    if (!groups.has(series.tag)) groups.set(series.tag, []);
    groups.get(series.tag).push(series);
  }
  const order = (a, b) => rank(groups.get(a)[0].plain) - rank(groups.get(b)[0].plain) || a.localeCompare(b);
  const tags = [...groups.keys()].sort(order).slice(0, MOST_CHARTS);
  const nodes = tags.map((tag) => {
    const chart = chartOf(tag);
    chart.series = groups.get(tag);
    chart.node.querySelector("h3").textContent = tag.replace(chart.series[0].plain, titles(chart.series[0].plain));
    return chart.node;
  });
  const parent = $("charts");
  const same = nodes.length > 0 && nodes.length === parent.children.length && nodes.every((node, at) => parent.children[at] === node);
  if (!same) parent.replaceChildren(...(nodes.length ? nodes : [el("p", { class: "empty" }, "These runs have no curves: they come from event files.")]));
  tags.forEach(paint);
}

function difference() {
  const loaded = shown.filter((name) => known.has(name));
  const values = new Map(loaded.map((name) => [name, new Map(known.get(name).settings)]));
  const names = [...new Set(loaded.flatMap((name) => [...values.get(name).keys()]))];
  const rows = names.map((name) => ({ name, of: loaded.map((run) => values.get(run).get(name)) }));
  const differs = (row) => new Set(row.of).size > 1;
  const all = $("all-settings").checked;
  const list = rows.filter((row) => all || differs(row));
  if (loaded.length < 2 && !all) {
    replace($("difference"), el("p", { class: "empty" }, "Check another run to see what differs."));
    return;
  }
  if (list.length === 0) {
    replace($("difference"), el("p", { class: "empty" }, rows.length ? `All ${count(rows.length)} settings are the same.` : "These runs have recorded no settings."));
    return;
  }
  const columns = [{ head: "Setting", cell: (row) => ({ class: differs(row) ? "differs" : "", text: row.name }) },
    ...loaded.map((run, at) => ({ head: run, wrap: true, cell: (row) => ({ class: differs(row) ? "differs" : "", text: row.of[at] ?? "–" }) }))];
  replace($("difference"), table(all ? "All settings" : "Settings that differ", columns, list));
}

// Shows these runs. `runs` are the summaries of all.
export function compare(names, runs) {
  summaries = new Map(runs.map((run) => [run.name, run]));
  const wanted = names.filter((name) => summaries.has(name));
  const changed = wanted.join("\n") !== shown.join("\n");
  shown = wanted;
  colours(names);
  replace($("compare-legend"), ...shown.map((name) => el("span", {}, el("i", { class: `k${places.get(name)}` }), name)));
  if (changed) { redraw(); difference(); }
  shown.forEach(fetchRun);
}

for (const id of ["smoothing", "axis", "log-scale"]) $(id).addEventListener("input", redraw);
$("all-settings").addEventListener("input", difference);
addEventListener("resize", redraw);
