// Stops a run after a confirmation. The dialog is in the page, so that no single click ends a job.
import { $ } from "./dom.js";
import { apiOf } from "./store.js";

let target = null;

// Asks whether to stop the run; an empty name is the only run of this dashboard.
export function askToStop(name, shown) {
  target = name;
  $("stop-name").textContent = shown;
  $("stop-error").hidden = true;
  $("stop-yes").disabled = false;
  $("stop-dialog").showModal();
  $("stop-no").focus();
}

async function stop() {
  $("stop-yes").disabled = true;
  let problem = null;
  try {
    const answer = await fetch(apiOf("api/stop", target), { method: "POST" });
    if (!answer.ok) problem = await answer.text();
  } catch { problem = "The dashboard cannot be reached."; }
  if (problem === null) { $("stop-dialog").close(); return; }
  $("stop-error").textContent = problem.trim();
  $("stop-error").hidden = false;
}

export function startStop() {
  $("stop-yes").addEventListener("click", stop);
  $("stop-no").addEventListener("click", () => $("stop-dialog").close());
}
