// Light, dark, or as the system: chosen by the user and kept by the browser.
import { $ } from "./dom.js";

const themes = ["auto", "light", "dark"];
let redraw = () => {};

function set(name) {
  if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("phalanx-theme", name); } catch { /* a browser without storage forgets it */ }
  redraw();
}

export const nextTheme = () => set(themes[(themes.indexOf($("theme").textContent.slice(7)) + 1) % themes.length]);

// Calls back after a change, because canvases have to be drawn again.
export function startTheme(changed) {
  let kept = "auto";
  try { kept = localStorage.getItem("phalanx-theme") ?? "auto"; } catch { /* as above */ }
  set(themes.includes(kept) ? kept : "auto");
  redraw = changed;
  $("theme").addEventListener("click", nextTheme);
}
