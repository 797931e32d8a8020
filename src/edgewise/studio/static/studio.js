// What every page of the studio needs. Pages read, and forms work, without it.
import { watch } from "./events.js";

const badge = document.getElementById("working");
const running = new Map();

watch(({ kind, data }) => {
  if (kind !== "job") return;
  running.delete(data.id);
  if (data.status === "running") running.set(data.id, data);
  const latest = [...running.values()].at(-1);
  badge.hidden = !latest;
  if (!latest) return;
  badge.href = `/jobs/${encodeURIComponent(latest.id)}`;
  badge.querySelector(".what").textContent = latest.title;
  badge.querySelector(".where").textContent = latest.waiting || latest.where;
});
