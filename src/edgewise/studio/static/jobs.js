// The list of jobs follows what happens: how far a job is at once, the rows when they change.
import { poll, watch } from "./events.js";
import { reload } from "./reload.js";

const known = new Map();

watch(({ kind, data }) => {
  if (kind === "list" || known.get(data.id) !== data.shown) {
    if (kind === "job") known.set(data.id, data.shown);
    reload("jobs").catch(() => {});
    return;
  }
  const cell = document.querySelector(`[data-job="${CSS.escape(data.id)}"]`);
  if (cell) cell.textContent = data.waiting || data.where;
});
poll(() => reload("jobs"));
