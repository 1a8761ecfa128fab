// Where the shards of variables and tables lie, which is fetched when the view is open.
import { $, bytes, count, el, replace, table } from "./dom.js";
import { api, store } from "./store.js";

const MOST_ROWS = 2000;
// Rows of tables are created while the job trains.
const AGAIN_MS = 3000;
let found = null;
let fetched = 0;
let placed = null;
let order = null;

export const shapeOf = (v) => (v.table ? `[?, ${v.shape.join(", ")}]` : `[${v.shape.join(", ")}]`);
// Whether each of several tasks holds all of it, as mirrored workers do.
const isMirrored = (v) => v.shards.length > 1 && v.shards.every((s) => s.rows && String(s.rows) === String(v.shards[0].rows));
const rowsOf = (s) => (s.rows ? `${count(s.rows[0])} to ${count(s.rows[1])}` : s.count === undefined ? "by id" : `by id, ${count(s.count)} now`);

function draw() {
  const wanted = $("variable-filter").value.toLowerCase();
  const all = found.flatMap((v) => v.shards.map((s, at) => ({ v, s, at })));
  const rows = all.filter(({ v, s }) => `${v.name} ${s.task}`.toLowerCase().includes(wanted));
  const columns = [
    { head: "Name", wrap: true, cell: ({ v }) => v.name, sort: ({ v }) => v.name },
    { head: "Kind", cell: ({ v }) => (v.table ? "table" : "variable"), sort: ({ v }) => String(v.table) },
    { head: "Shape", cell: ({ v }) => shapeOf(v) },
    { head: "Type", cell: ({ v }) => v.dtype },
    { head: "Held by", cell: ({ s }) => s.task, sort: ({ s }) => s.task },
    { head: "Shard", n: true, cell: ({ v, at }) => `${isMirrored(v) ? "copy " : ""}${at + 1} of ${v.shards.length}` },
    { head: "Rows", n: true, cell: ({ s }) => rowsOf(s), sort: ({ s }) => s.rows?.[0] ?? s.count ?? -1 },
    { head: "Bytes", n: true, cell: ({ s }) => bytes(s.bytes), sort: ({ s }) => s.bytes ?? -1 },
  ];
  const shown = rows.slice(0, MOST_ROWS);
  $("variable-count").textContent = `${count(rows.length)} of ${count(all.length)} shards of ${count(found.length)} variables and tables`;
  replace($("variables-table"), shown.length ? table("Variables and tables", columns, shown, order, (next) => { order = next; draw(); })
    : el("p", { class: "empty" }, "No name matches."),
  ...(shown.length < rows.length ? [el("p", { class: "dim" }, `The first ${count(MOST_ROWS)} are shown. Filter for the others, or use phalanx status --variables.`)] : []));
}

export async function showVariables() {
  const now = store.state?.placed ?? 0;
  $("variables-head").hidden = now === 0;
  if (now === 0) {
    replace($("variables-table"), el("p", { class: "empty" }, "No variables yet: the task that creates them records where they lie."));
    return;
  }
  if (placed === now && Date.now() - fetched < AGAIN_MS) return;
  [placed, fetched] = [now, Date.now()];
  try {
    const answer = await fetch(api("api/variables"));
    if (answer.ok) found = await answer.json();
  } catch { placed = null; /* asked again with the next state */ }
  if (found) draw();
}

export function startVariables() {
  $("variable-filter").addEventListener("input", () => { if (found) draw(); });
}
