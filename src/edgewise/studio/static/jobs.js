// The list of jobs follows what happens: how far a job is at once, the rows when they change.
import { poll, watch } from "./events.js";

const known = new Map();
const place = (element) => element.closest("form")?.action ?? element.href ?? element.value;

async function reload() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [old, made] = [document, page].map((each) => each.getElementById("jobs"));
  if (old.innerHTML === made.innerHTML) return;
  for (const ticked of old.querySelectorAll("input:checked")) {
    made.querySelector(`input[value="${CSS.escape(ticked.value)}"]`)?.setAttribute("checked", "");
  }
  const focused = old.contains(document.activeElement) && place(document.activeElement);
  old.replaceWith(made);
  if (focused) [...made.querySelectorAll("a, button, input")].find((each) => place(each) === focused)?.focus();
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
poll(reload);
