// The list of jobs follows what happens: how far a job is at once, the rows when they change.
import { watch } from "./events.js";

const known = new Map();

async function reload() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const focused = document.activeElement?.closest("#jobs form")?.action;
  for (const old of document.querySelectorAll("#jobs input:checked")) {
    page.querySelector(`#jobs input[value="${CSS.escape(old.value)}"]`)?.setAttribute("checked", "");
  }
  document.getElementById("jobs").replaceWith(page.getElementById("jobs"));
  if (focused) [...document.forms].find((form) => form.action === focused)?.querySelector("button")?.focus();
}

watch(({ kind, data }) => {
  if (kind === "list" || known.get(data.id) !== data.status) {
    if (kind === "job") known.set(data.id, data.status);
    reload().catch(() => {});
    return;
  }
  const cell = document.querySelector(`[data-job="${CSS.escape(data.id)}"]`);
  if (cell) cell.textContent = data.waiting || data.where;
});
