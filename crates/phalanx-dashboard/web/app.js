// The frame around the views: tabs, keys, themes, the state at the top.
import { $, span } from "./dom.js";
import { connect, listen, store } from "./store.js";
import * as data from "./data.js";
import * as logs from "./logs.js";
import * as overview from "./overview.js";
import * as tables from "./tables.js";
import { askToStop, startStop } from "./stop.js";
import { nextTheme, startTheme } from "./theme.js";

const names = ["overview", "tasks", "servers", "logs", "checkpoints", "data", "config"];
let current = "overview";

function open(name, focus = false) {
  current = name;
  for (const one of names) {
    const tab = $(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === name));
    tab.tabIndex = one === name ? 0 : -1;
    $(one).hidden = one !== name;
    if (one === name) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  if (focus) $(`tab-${name}`).focus();
  // The slash keeps the browser from moving the focus to the view.
  history.replaceState(null, "", `${location.pathname}${location.search}#/${name}`);
  draw(new Set(["state", "events", "points", "lines"]));
}

function draw(kinds) {
  if (current === "overview") overview.show(kinds);
  else if (current === "logs") logs.show(kinds);
  else if (current === "data") data.show();
  else if (kinds.has("state")) tables.show(current);
}

function header() {
  const { state, connected } = store;
  if (!state) return;
  const job = state.job ?? {};
  const parts = (job.model_dir ?? "").split("/").filter((part) => part !== "" && part !== "model");
  const name = store.run || (parts.at(-1) ?? "run");
  $("name").textContent = name;
  document.title = `${name} · ${state.state} · Phalanx`;
  $("state").textContent = state.stopping ? "stopping" : state.state;
  $("stop").hidden = !state.can_be_stopped;
  $("state").className = `pill ${state.state}`;
  $("clock").textContent = job.started ? span((state.ended ?? Date.now()) - job.started) : "";
  const silent = Date.now() - store.heard;
  const stale = !connected || (state.state === "running" && silent > 12000);
  $("stale").hidden = !stale && !state.problem;
  if (state.problem) $("stale").textContent = state.problem;
  if (stale) $("stale").textContent = `No update since ${new Date(store.heard).toTimeString().slice(0, 8)}: the launcher has exited or cannot be reached. The last known state is shown.`;
}

function keys(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const number = Number(event.key);
  if (number >= 1 && number <= names.length) open(names[number - 1], true);
  else if (event.key === "/") { event.preventDefault(); open("logs"); $("log-filter").focus(); }
  else if (event.key === "f") { $("log-follow").checked = !$("log-follow").checked; draw(new Set(["lines"])); }
  else if (event.key === "t") nextTheme();
  else if (event.key === "?") $("help").showModal();
}

$("tabs").addEventListener("click", (event) => { if (event.target.id.startsWith("tab-")) open(event.target.id.slice(4)); });
$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) { event.preventDefault(); open(names[(names.indexOf(current) + step + names.length) % names.length], true); }
});
document.addEventListener("keydown", keys);
$("help-open").addEventListener("click", () => $("help").showModal());
overview.start(); tables.start(); logs.start(); startStop();
startTheme(() => { if (current === "overview") overview.redraw(); });
$("back").hidden = store.run === "";
$("back").href = `./?t=${encodeURIComponent(store.token)}`;
$("stop").addEventListener("click", () => askToStop(store.run, $("name").textContent));
listen((kinds) => { header(); draw(kinds); });
setInterval(header, 1000);
const asked = location.hash.replace(/^#\/?/, "");
open(names.includes(asked) ? asked : "overview");
connect();
