// The state of the run, fed by the server's stream.
const MOST_LINES = 200000;
const MOST_RATES = 1200;

export const store = {
  state: null, events: [], curves: [], lines: [], rates: new Map(), dropped: 0, heard: 0, connected: false,
  token: new URLSearchParams(location.search).get("t") ?? "",
  // The run of a folder; empty if the dashboard shows one run.
  run: new URLSearchParams(location.search).get("run") ?? "",
};
const listeners = new Set();
const dirty = new Set();
let planned = false;

// Calls back at most once per frame with what changed: state, events, points, lines, connection.
export function listen(callback) { listeners.add(callback); }

function changed(kind) {
  dirty.add(kind);
  if (planned) return;
  planned = true;
  setTimeout(() => {
    planned = false;
    const kinds = new Set(dirty);
    dirty.clear();
    for (const callback of listeners) callback(kinds);
  }, 50);
}

// The address of a request about a run of the folder, or about the only run.
export const apiOf = (path, run) => `${path}?t=${encodeURIComponent(store.token)}${run === "" ? "" : `&run=${encodeURIComponent(run)}`}`;
export const api = (path) => apiOf(path, store.run);

function reset() { store.events = []; store.curves = []; store.lines = []; store.dropped = 0; }

// The rate of each trainer since the dashboard was opened; it is kept only here.
function rates(state) {
  for (const task of state.tasks) {
    const rate = task.status?.steps_per_s;
    if (!store.rates.has(task.task) && typeof rate !== "number") continue;
    const list = store.rates.get(task.task) ?? [];
    list.push([0, Date.now() / 1000, typeof rate === "number" ? rate : task.state === "done" ? null : 0]);
    if (list.length > MOST_RATES) list.shift();
    store.rates.set(task.task, list);
  }
}

export function connect() {
  const source = new EventSource(api("api/stream"));
  const on = (kind, take) => source.addEventListener(kind, (message) => {
    store.heard = Date.now();
    take(JSON.parse(message.data));
    changed(kind);
  });
  // A stream sends everything from the beginning.
  source.onopen = () => { reset(); store.connected = true; store.heard = Date.now(); changed("connection"); };
  source.onerror = () => { store.connected = false; changed("connection"); };
  on("state", (state) => { store.state = state; rates(state); });
  on("events", (events) => { store.events.push(...events); });
  on("points", (news) => {
    for (const one of news) {
      const curve = (store.curves[one.i] ??= { run: one.run, tag: one.tag, points: [] });
      if (one.reset) curve.points = [];
      for (const point of one.points) curve.points.push(point);
    }
  });
  on("lines", ({ lines }) => {
    for (const line of lines) store.lines.push(line);
    const extra = store.lines.length - MOST_LINES;
    if (extra > 0) { store.lines.splice(0, extra); store.dropped += extra; }
  });
}
