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
