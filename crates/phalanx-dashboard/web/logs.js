// All lines are in memory, and only the visible ones in the document.
import { $, count, el, time } from "./dom.js";
import { api, store } from "./store.js";

const ROW = 18;
let found = [];
let seen = 0;
let dropped = 0;
let test = () => true;
let words = null;

function compile() {
  const text = $("log-filter").value;
  const task = $("log-task").value;
  const wanted = task === "" ? null : Number(task);
  let match = null;
  words = null;
  const regex = /^\/(.+)\/(i?)$/.exec(text);
  try { if (regex) match = new RegExp(regex[1], regex[2]); } catch { match = null; }
  const low = text.toLowerCase();
  if (text !== "" && !match) words = low;
  test = (line) => (wanted === null || line[1] === wanted) && (match ? match.test(line[2]) : low === "" || line[2].toLowerCase().includes(low));
}

// Filters the new lines, or all lines after a change of the filter.
function update(all) {
  if (all || dropped !== store.dropped || seen > store.lines.length) { found = []; seen = 0; dropped = store.dropped; }
  for (; seen < store.lines.length; seen += 1) if (test(store.lines[seen])) found.push(seen);
  $("log-count").textContent = `${count(found.length)} of ${count(store.lines.length)} lines`;
}

function row(line) {
  const name = store.state?.tasks[line[1]]?.task ?? "";
  const body = el("span", {});
  const text = line[2];
  const at = words ? text.toLowerCase().indexOf(words) : -1;
  if (at >= 0) body.append(text.slice(0, at), el("mark", {}, text.slice(at, at + words.length)), text.slice(at + words.length));
  else body.textContent = text;
  return el("div", { class: "row" }, el("time", {}, time(line[0], true)), el("b", { class: `t${line[1] % 8}` }, name), body);
}

function paint() {
  const view = $("log-view");
  $("log-space").style.height = `${found.length * ROW}px`;
  if ($("log-follow").checked) view.scrollTop = found.length * ROW;
  const from = Math.max(0, Math.floor(view.scrollTop / ROW) - 5);
  const rows = found.slice(from, from + Math.ceil(view.clientHeight / ROW) + 10).map((at) => row(store.lines[at]));
  $("log-rows").style.transform = `translateY(${from * ROW}px)`;
  $("log-rows").replaceChildren(...(rows.length ? rows : [el("div", { class: "row dim" }, store.lines.length ? "No line matches." : "No output yet.")]));
}

function tasks() {
  const select = $("log-task");
  const names = store.state?.tasks.map((task) => task.task) ?? [];
  if (select.options.length === names.length + 1) return;
  const chosen = select.value;
  select.replaceChildren(el("option", { value: "" }, "all"), ...names.map((name, at) => el("option", { value: String(at) }, name)));
  select.value = chosen;
}

export function show(kinds) {
  if (kinds.has("state")) tasks();
  if (kinds.has("connection")) update(true); else update(false);
  paint();
}

export function start() {
  const again = () => { compile(); update(true); paint(); };
  $("log-filter").addEventListener("input", again);
  $("log-task").addEventListener("input", again);
  $("log-follow").addEventListener("input", paint);
  $("log-view").addEventListener("scroll", () => {
    const view = $("log-view");
    const end = view.scrollTop + view.clientHeight >= view.scrollHeight - ROW * 2;
    if (!end && $("log-follow").checked && view.dataset.user === "yes") $("log-follow").checked = false;
    paint();
  });
  // Only scrolling by the user ends following.
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    $("log-view").addEventListener(kind, () => { $("log-view").dataset.user = "yes"; setTimeout(() => { $("log-view").dataset.user = "no"; }, 400); }, { passive: true });
  }
  $("log-download").href = api("api/logs");
  compile();
}
