// The runs of a folder: the list, and which of them are compared.
import { $, count, cpuTime, el, number, replace, span, table } from "./dom.js";
import { colours, compare, redraw } from "./compare.js";
import { apiOf, store } from "./store.js";
import { askToStop, startStop } from "./stop.js";
import { startTheme } from "./theme.js";

const EVERY_MS = 1000;
const MOST = 8;
let runs = [];
let chosen = [];
let order = null;
let heard = 0;

const link = (name) => `run?t=${encodeURIComponent(store.token)}&run=${encodeURIComponent(name)}`;
const when = (ms) => (ms ? new Date(ms).toLocaleString("en-GB", { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" }) : "–");
const lasted = (r) => (r.started ? (r.ended ?? (r.state === "running" ? Date.now() : r.started)) - r.started : -1);

function choose(names) {
  chosen = names;
  history.replaceState(null, "", `${location.pathname}${location.search}#${chosen.map(encodeURIComponent).join(",")}`);
  draw();
}

function box(r) {
  const full = chosen.length >= MOST && !chosen.includes(r.name);
  const input = el("input", { type: "checkbox", "aria-label": `Compare ${r.name}`, disabled: full, onchange: (event) => choose([...chosen.filter((other) => other !== r.name), ...(event.target.checked ? [r.name] : [])]) });
  input.checked = chosen.includes(r.name);
  return el("span", { class: "choose" }, input, input.checked ? el("i", { class: `k${colours(chosen).get(r.name)}` }) : null);
}

function metric(r) {
  if (!r.metric) return "–";
  return `${r.metric.tag.replace(/^epoch_/, "")} ${number(r.metric.value)}`;
}

function draw() {
  const wanted = $("run-filter").value.toLowerCase();
  const shown = runs.filter((r) => `${r.name} ${r.state}`.toLowerCase().includes(wanted));
  const columns = [
    { head: "Compare", cell: box },
    { head: "Run", cell: (r) => el("a", { href: link(r.name) }, r.name), sort: (r) => r.name },
    { head: "State", cell: (r) => ({ class: r.state, text: r.stopping ? "stopping" : r.state }), sort: (r) => r.state },
    { head: "Steps", n: true, cell: (r) => count(r.step), sort: (r) => r.step ?? -1 },
    { head: "Loss", n: true, cell: (r) => number(r.loss), sort: (r) => r.loss ?? Infinity },
    { head: "Last metric", n: true, cell: metric, sort: (r) => r.metric?.value ?? -Infinity },
    { head: "Started", n: true, cell: (r) => when(r.started), sort: (r) => r.started ?? 0 },
    { head: "Duration", n: true, cell: (r) => (lasted(r) >= 0 ? span(lasted(r)) : "–"), sort: lasted },
    { head: "CPU time", n: true, cell: (r) => cpuTime(r.cpu_seconds), sort: (r) => r.cpu_seconds ?? -1 },
    { head: "Tasks", cell: (r) => r.tasks || "–" },
    { head: "Action", cell: (r) => (r.can_be_stopped ? el("button", { type: "button", "aria-label": `Stop ${r.name}`, onclick: () => askToStop(r.name, r.name) }, "Stop") : "") },
  ];
  const focused = document.activeElement?.getAttribute("aria-label");
  replace($("runs-table"), shown.length ? table("Runs", columns, shown, order, (next) => { order = next; draw(); })
    : el("p", { class: "empty" }, runs.length ? "No run matches." : "Reading the runs …"));
  // The list is rebuilt every second; a checkbox that has the focus keeps it.
  if (focused) [...$("runs-table").querySelectorAll("[aria-label]")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
  $("clear").hidden = chosen.length === 0;
  $("compare-hint").textContent = chosen.length === 0 ? "Check two or more runs to compare them." : `${chosen.length} of at most ${MOST} runs are compared.`;
  $("comparison").hidden = chosen.length === 0;
  compare(chosen, runs);
}

async function look() {
  try {
    const answer = await fetch(apiOf("api/runs", ""));
    if (answer.ok) {
      const found = await answer.json();
      [runs, heard] = [found.runs, Date.now()];
      $("folder").textContent = found.folder;
      document.title = `${found.folder} · Phalanx`;
      const running = runs.filter((r) => r.state === "running").length;
      $("run-count").textContent = `${count(runs.length)} ${runs.length === 1 ? "run" : "runs"}, ${running} running`;
      draw();
    }
  } catch { /* shown below */ }
  const silent = Date.now() - heard > 5 * EVERY_MS;
  $("stale").hidden = !silent;
  if (silent) $("stale").textContent = "The dashboard cannot be reached. The last known state is shown.";
  setTimeout(look, EVERY_MS);
}

chosen = location.hash.slice(1).split(",").filter((name) => name !== "").map(decodeURIComponent).slice(0, MOST);
$("run-filter").addEventListener("input", draw);
$("clear").addEventListener("click", () => choose([]));
startStop();
startTheme(redraw);
look();
