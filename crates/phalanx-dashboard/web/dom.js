// Small helpers. Text from a run is only ever inserted as text: nothing here parses markup.
export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const whole = new Intl.NumberFormat("en-US");
export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));
export function number(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const size = Math.abs(n);
  if (size !== 0 && (size < 0.001 || size >= 1e7)) return n.toExponential(3);
  return size >= 1000 ? whole.format(Math.round(n)) : n.toPrecision(4).replace(/\.?0+$/, "");
}
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
  return `${at === 0 ? n : n.toFixed(1)} ${units[at]}`;
}
// CPU time, which is the sum over many processes.
export const cpuTime = (s) => (s === null || s === undefined ? "–" : s < 1000 ? `${s.toFixed(1)} s` : `${whole.format(Math.round(s))} s`);
export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}
export function time(ms, millis = false) {
  const text = new Date(ms).toTimeString().slice(0, 8);
  return millis ? `${text}.${String(ms % 1000).padStart(3, "0")}` : text;
}

// A table from columns [{head, n, cell(row), sort(row)}]; keeps the chosen order between calls.
export function table(caption, columns, rows, order, changed) {
  const head = columns.map((column, at) => {
    const sorted = order && order.column === at ? (order.down ? "descending" : "ascending") : undefined;
    const press = () => { changed({ column: at, down: order && order.column === at ? !order.down : true }); };
    const inside = column.sort && changed ? el("button", { type: "button", onclick: press }, column.head + (sorted ? (order.down ? " ▾" : " ▴") : "")) : column.head;
    return el("th", { scope: "col", class: column.n ? "n" : undefined, "aria-sort": sorted }, inside);
  });
  let list = rows;
  if (order && columns[order.column] && columns[order.column].sort) {
    const key = columns[order.column].sort;
    list = [...rows].sort((a, b) => { const [x, y] = [key(a), key(b)]; const c = x < y ? -1 : x > y ? 1 : 0; return order.down ? -c : c; });
  }
  const body = list.map((row) => el("tr", {}, ...columns.map((column) => {
    const cell = column.cell(row);
    // A cell is a text, a node, or a text with a class. Some nodes have a `text` of their own.
    const styled = cell && !(cell instanceof Node) && cell.text !== undefined;
    return el("td", { "data-head": column.head, class: [column.n ? "n" : "", column.wrap ? "wrap" : "", styled && cell.class ? cell.class : ""].join(" ").trim() || undefined },
      styled ? cell.text : cell);
  })));
  return el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}

export function replace(parent, ...children) {
  // Keep the keyboard focus when the table is rebuilt.
  const focused = document.activeElement && parent.contains(document.activeElement) ? [...parent.querySelectorAll("button")].indexOf(document.activeElement) : -1;
  parent.replaceChildren(...children);
  if (focused >= 0) parent.querySelectorAll("button")[focused]?.focus();
}
