// The statistics of the training data, which are fetched when the view is open and they have changed.
import { $, count, el, number, replace, table } from "./dom.js";
import { api, store } from "./store.js";

let found = null;
let version = null;
let order = null;

const share = (part, of) => (part > 0 && of > 0 ? (part / of < 0.0005 ? "<0.1 %" : `${(100 * part / of).toFixed(1)} %`) : "–");
const unknown = (c) => (c.unknown === undefined ? "–" : c.unknown === 0 ? "none" : share(c.unknown, c.values));
const many = (c) => c.unknown !== undefined && c.unknown > 0.5 * c.values;

// One bar with the share of each class.
function balance(label) {
  const classes = Object.entries(label?.classes ?? {});
  $("label-card").hidden = classes.length === 0;
  if (classes.length === 0) return;
  const shown = classes.slice(0, 12);
  const part = ([name, n]) => `${name === "" ? "missing" : name} ${share(n, label.rows)}`;
  const piece = ([, n], at) => { const one = el("span", { class: `k${at % 8}` }); one.style.flexGrow = String(n); return one; };
  replace($("label-balance"),
    el("div", { class: "balance", role: "img", "aria-label": `${label.name}: ${shown.map(part).join(", ")}` }, ...shown.map(piece)),
    el("div", { class: "legend" }, label.name, ...shown.map((one, at) => el("span", {}, el("i", { class: `k${at % 8}` }), `${part(one)}, ${count(one[1])}`)),
      classes.length > shown.length ? `and ${classes.length - shown.length} more` : null));
}

function draw() {
  if (!found) {
    $("data-warnings").hidden = true;
    $("label-card").hidden = true;
    replace($("data-table"), el("p", { class: "empty" }, "No statistics: phalanx train writes those of its first thousand batches."));
    return;
  }
  $("data-warnings").hidden = found.warnings.length === 0;
  replace($("data-warnings"), ...found.warnings.map((text) => el("li", {}, text)));
  balance(found.columns.find((c) => c.role === "label"));
  const at = (share) => (c) => number(c.quantiles?.[share]);
  const columns = [
    { head: "Column", cell: (c) => (c.role === "input" ? c.name : `${c.name} (${c.role})`), sort: (c) => c.name },
    { head: "Kind", cell: (c) => c.kind, sort: (c) => c.kind },
    { head: "Missing", n: true, cell: (c) => share(c.missing, c.rows), sort: (c) => c.missing },
    { head: "Unknown", n: true, cell: (c) => ({ class: many(c) ? "failed" : "", text: unknown(c) }), sort: (c) => (c.values ? c.unknown / c.values : -1) },
    { head: "Distinct", n: true, cell: (c) => (c.distinct_is_exact ? "" : "~") + count(c.distinct), sort: (c) => c.distinct },
    { head: "Min", n: true, cell: (c) => number(c.min) },
    { head: "Mean", n: true, cell: (c) => number(c.mean) },
    { head: "1 %", n: true, cell: at("0.01") },
    { head: "25 %", n: true, cell: at("0.25") },
    { head: "Median", n: true, cell: at("0.5") },
    { head: "75 %", n: true, cell: at("0.75") },
    { head: "99 %", n: true, cell: at("0.99") },
    { head: "Max", n: true, cell: (c) => number(c.max) },
  ];
  const rows = `${found.complete ? "All" : "The first"} ${count(found.rows)} rows of the training files`;
  replace($("data-table"), table(rows, columns, found.columns, order, (next) => { order = next; draw(); }));
}

export async function show() {
  const wanted = store.state?.statistics ?? null;
  if (wanted !== version) {
    version = wanted;
    try {
      const answer = await fetch(api("api/statistics"));
      if (answer.ok) found = await answer.json();
    } catch { version = null; /* asked again with the next state */ }
    draw();
  } else if (!$("data-table").hasChildNodes()) draw();
}
