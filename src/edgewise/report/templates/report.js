"use strict";
// Sorting by click, one button for all details, and everything open on paper. The page reads without any of it.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const numeric = head.classList.contains("number");
      const key = (row) => {
        const cell = row.cells[column];
        if (!numeric) return cell.textContent.trim();
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row, index) => ({ row, index, key: key(row) }));
      rows.sort((a, b) => {
        // What is not known comes last in either direction.
        if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.index - b.index;
        const order = numeric ? a.key - b.key : a.key.localeCompare(b.key);
        return (ascending ? order : -order) || a.index - b.index;
      });
      for (const { row } of rows) body.append(row);
    });
  });
}
// The numbers of a long table are no buttons: each of them presses the ? of its heading, or that of the table.
document.addEventListener("click", (event) => {
  const cell = event.target.closest("table.long td.number"), table = cell?.closest("table");
  if (!cell || event.target.closest("a, button") || !getSelection().isCollapsed) return;
  const how = [table.tHead.rows[0].cells[cell.cellIndex], table.caption].map((one) => one?.querySelector(".how"));
  how.find(Boolean)?.click();
});
const details = [...document.querySelectorAll("details")];
for (const toggle of document.querySelectorAll(".toggle-all")) {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const own = details.filter((one) => one.parentElement === toggle.parentElement.parentElement);
    const open = own.some((one) => !one.open);
    for (const one of own) one.open = open;
    toggle.textContent = open ? "Close all" : "Open all";
  });
}
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const around = target && target.closest("details");
  if (around) around.open = true;
};
window.addEventListener("hashchange", reveal);
reveal();
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = details.filter((one) => !one.open);
  for (const one of closed) one.open = true;
});
window.addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});
// Long tables begin with 20 rows; filtering of rows, and the way from a chart to the row of a mark.
{
  const FIRST = 20;
  for (const table of document.querySelectorAll(".result table.sortable")) {
    const rows = Math.max(...[...table.tBodies].map((body) => body.rows.length));
    if (rows <= FIRST + 5) continue;
    table.classList.add("folded");
    const more = document.createElement("button");
    Object.assign(more, { type: "button", className: "more" });
    more.textContent = `Show all ${rows} rows`;
    more.addEventListener("click", () => unfold(table));
    table.after(more);
  }
  const unfold = (table) => {
    if (!table.classList.contains("folded")) return;
    table.classList.remove("folded");
    table.nextElementSibling.remove();
  };
  for (const box of document.querySelectorAll(".filter")) {
    const [field, told, table] = [box.querySelector("input"), box.querySelector("output"), box.nextElementSibling.querySelector("table")];
    const rows = [...table.querySelectorAll("tr[data-words]")];
    const heads = [...table.tHead.rows[0].cells].map((head) => head.querySelector("button")?.textContent ?? "");
    const sums = heads.flatMap((head, at) => (head === "%" || head.startsWith("Time (") ? [[at, head.slice(6, -1)]] : []));
    const apply = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length) unfold(table);
      for (const row of rows) row.hidden = !words.every((word) => row.dataset.words.includes(word));
      const shown = rows.filter((row) => !row.hidden);
      const said = sums.map(([at, unit]) => {
        const sum = shown.reduce((total, row) => total + Number(row.cells[at].dataset.value || 0), 0);
        return unit ? `${Number(sum.toPrecision(3))} ${unit}` : `${sum.toFixed(1)} %`;
      });
      told.textContent = words.length ? `${shown.length} of ${rows.length} rows: ${said.join(", ")}` : "";
    };
    box.hidden = false;
    field.addEventListener("input", apply);
  }

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const rowOf = (mark) => document.getElementById(mark.closest("figure").dataset.rows + mark.dataset.layer);
  const place = (event) => {
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - width - 8))}px`;
    const below = event.clientY + 18;
    tip.style.top = `${below + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : below}px`;
  };
  for (const mark of document.querySelectorAll("figure[data-rows] [data-layer]")) {
    const row = rowOf(mark);
    if (!row) continue;
    mark.addEventListener("pointerenter", (event) => {
      tip.textContent = row.dataset.tip;
      tip.hidden = false;
      place(event);
    });
    mark.addEventListener("pointermove", place);
    mark.addEventListener("pointerleave", () => {
      tip.hidden = true;
    });
    mark.addEventListener("click", () => show(row));
  }
  const show = (row) => {
    for (const other of document.querySelectorAll("tr.chosen")) other.classList.remove("chosen");
    row.hidden = false;
    unfold(row.closest("table"));
    row.classList.add("chosen");
    const inside = row.querySelector("details");
    if (inside) inside.open = true;
    row.scrollIntoView({ block: "center" });
  };
  const follow = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("tr[data-words]")) show(target);
  };
  window.addEventListener("hashchange", follow);
  follow();
}
