// Tasks, servers, checkpoints, configuration.
import { $, bytes, count, el, number, replace, span, table, time } from "./dom.js";
import { draw } from "./chart.js";
import { store } from "./store.js";
import { showVariables, startVariables } from "./variables.js";

const orders = {};
const keep = (name, draw) => (order) => { orders[name] = order; draw(); };
const spoken = (value, form = number) => (typeof value === "number" ? form(value) : "–");

function rates() {
  const series = [...store.rates].map(([name, points], at) => ({ name, key: at, points }));
  draw($("rates"), series, [], { axis: "time", smoothing: 0, log: false, start: (store.state.job?.started ?? 0) / 1000 });
  const legend = series.map((one) => el("span", {}, el("i", { class: `k${one.key % 8}` }), `${one.name} ${number(one.points.at(-1)?.[2])}`));
  replace($("rates-legend"), ...(legend.length ? legend : ["No trainer has reported its rate."]));
}

function tasks() {
  rates();
  const { tasks: rows, ended } = store.state;
  const until = ended ?? Date.now();
  const columns = [
    { head: "Task", cell: (t) => t.task, sort: (t) => t.task },
    { head: "State", cell: (t) => ({ class: t.state, text: t.state }), sort: (t) => t.state },
    { head: "Pid", n: true, cell: (t) => t.pid ?? "–" },
    { head: "Attempt", n: true, cell: (t) => String(t.attempt), sort: (t) => t.attempt },
    { head: "For", n: true, cell: (t) => (t.since ? span(until - t.since) : "–") },
    { head: "Steps/s", n: true, cell: (t) => spoken(t.status?.steps_per_s), sort: (t) => t.status?.steps_per_s ?? -1 },
    { head: "Step", n: true, cell: (t) => spoken(t.status?.global_step || null, count) },
    { head: "Lag", n: true, cell: (t) => spoken(t.status?.lag, count), sort: (t) => t.status?.lag ?? -1 },
    { head: "CPU", n: true, cell: (t) => (t.cpu === null ? "–" : `${Math.round(t.cpu * 100)} %`), sort: (t) => t.cpu ?? -1 },
    { head: "Memory", n: true, cell: (t) => bytes(t.memory), sort: (t) => t.memory ?? -1 },
    { head: "Address", cell: (t) => t.address || "–" },
    { head: "Last end", wrap: true, cell: (t) => (t.last_error ? t.last_error : t.exit === 0 ? "exit code 0" : "–") },
  ];
  replace($("tasks-table"), rows.length ? table("Tasks", columns, rows, orders.tasks, keep("tasks", tasks)) : el("p", { class: "empty" }, "No tasks: no launcher wrote into this directory."));
}

// One bar with the share of each server.
function balance(what, rows, of, form) {
  const loads = rows.map((task) => of(task) ?? 0);
  const sum = loads.reduce((a, b) => a + b, 0);
  if (sum === 0) return null;
  const part = (at) => `${rows[at].task} ${Math.round((loads[at] / sum) * 100)} %`;
  return el("div", {}, el("div", { class: "balance", role: "img", "aria-label": `${what}: ${rows.map((_, at) => part(at)).join(", ")}` },
    ...rows.map((_, at) => { const piece = el("span", { class: `k${at % 8}` }); piece.style.flexGrow = String(loads[at]); return piece; })),
  el("div", { class: "legend" }, what, ...rows.map((_, at) => el("span", {}, el("i", { class: `k${at % 8}` }), `${part(at)}, ${form(loads[at])}`))));
}

function servers() {
  const rows = store.state.tasks.filter((task) => task.task.startsWith("ps/"));
  const bars = [
    balance("held", rows, (task) => task.status?.bytes, bytes),
    balance("moved", rows, (task) => Math.round((task.status?.bytes_in_per_s ?? 0) + (task.status?.bytes_out_per_s ?? 0)), (n) => `${bytes(n)}/s`),
  ].filter(Boolean);
  const silent = rows.length ? "The servers have not reported what they hold." : "This job has no parameter servers.";
  replace($("balance"), ...(bars.length ? bars : [el("p", { class: "empty" }, silent)]));
  const columns = [
    { head: "Server", cell: (t) => t.task, sort: (t) => t.task },
    { head: "State", cell: (t) => ({ class: t.state, text: t.state }) },
    { head: "Exchanges/s", n: true, cell: (t) => spoken(t.status?.exchanges_per_s), sort: (t) => t.status?.exchanges_per_s ?? -1 },
    { head: "Pushes/s", n: true, cell: (t) => spoken(t.status?.pushes_per_s) },
    { head: "Mean time", n: true, cell: (t) => (typeof t.status?.mean_micros === "number" ? `${number(t.status.mean_micros)} µs` : "–") },
    { head: "Longest", n: true, cell: (t) => (typeof t.status?.max_micros === "number" ? `${number(t.status.max_micros)} µs` : "–") },
    { head: "In/s", n: true, cell: (t) => spoken(t.status?.bytes_in_per_s, (n) => bytes(Math.round(n))) },
    { head: "Out/s", n: true, cell: (t) => spoken(t.status?.bytes_out_per_s, (n) => bytes(Math.round(n))) },
    { head: "Variables", n: true, cell: (t) => spoken(t.status?.variables?.length, count) },
    { head: "Tables", n: true, cell: (t) => spoken(t.status?.tables?.length, count) },
    { head: "Holds", n: true, cell: (t) => spoken(t.status?.bytes, bytes) },
    { head: "CPU", n: true, cell: (t) => (t.cpu === null ? "–" : `${Math.round(t.cpu * 100)} %`) },
    { head: "Memory", n: true, cell: (t) => bytes(t.memory) },
  ];
  replace($("servers-table"), rows.length ? table("Parameter servers", columns, rows, orders.servers, keep("servers", servers)) : el("p", { class: "empty" }, "No parameter servers."));
  showVariables();
}

// The results of evaluations at a step.
function evaluated(step) {
  const curves = store.curves.filter((curve) => curve && curve.run !== "" && /^(epoch_)?(auc|accuracy|loss|average_loss)$/.test(curve.tag));
  const results = curves.flatMap((curve) => curve.points.filter((point) => point[0] === step).slice(-1).map((point) => `${curve.tag.replace(/^epoch_/, "")} ${number(point[2])}`));
  return results.length ? results.sort().slice(0, 3).join(", ") : "–";
}

function checkpoints() {
  const rows = [...store.state.checkpoints].reverse();
  const dir = store.state.job?.model_dir ?? "";
  const until = store.state.ended ?? Date.now();
  const columns = [
    { head: "Step", n: true, cell: (c) => count(c.step), sort: (c) => c.step },
    { head: "Name", cell: (c) => c.name },
    { head: "Written", cell: (c) => time(c.at), sort: (c) => c.at },
    { head: "Age", n: true, cell: (c) => span(until - c.at) },
    { head: "Evaluated", cell: (c) => evaluated(c.step) },
    { head: "Size", n: true, cell: (c) => bytes(c.bytes), sort: (c) => c.bytes },
    { head: "Data files", n: true, cell: (c) => String(c.shards) },
  ];
  const check = () => el("p", { class: "dim" }, "Check the newest: ", el("code", {}, `phalanx checkpoint verify ${dir ? `${dir}/` : ""}${rows[0].name}`));
  replace($("checkpoints-table"), ...(rows.length ? [table("Checkpoints", columns, rows, orders.checkpoints, keep("checkpoints", checkpoints)), check()]
    : [el("p", { class: "empty" }, dir ? `No checkpoints in ${dir} yet.` : "No checkpoints yet.")]));
}

const quoted = (word) => (/^[\w./:,=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function config() {
  const job = store.state.job ?? {};
  const command = (job.program ?? []).map(quoted).join(" ");
  $("command").textContent = command || "unknown: no launcher wrote into this directory";
  $("cluster").textContent = job.cluster ? JSON.stringify(job.cluster, null, 2) : "unknown";
  const rows = [["directory", job.directory], ["model directory", job.model_dir], ["host", job.host], ["launcher process", job.launcher_pid],
    ["started", job.started ? new Date(job.started).toISOString() : undefined], ["phalanx", job.version]].filter((row) => row[1] !== undefined);
  replace($("config-table"), table("Settings", [{ head: "Name", cell: (r) => r[0] }, { head: "Value", wrap: true, cell: (r) => String(r[1]) }], rows));
}

const views = { tasks, servers, checkpoints, config };
export function show(view) { if (store.state && views[view]) views[view](); }
export function start() {
  startVariables();
  $("copy").addEventListener("click", async () => {
    try { await navigator.clipboard.writeText($("command").textContent); $("copy").textContent = "Copied"; } catch { $("copy").textContent = "Not allowed"; }
    setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
  });
}
