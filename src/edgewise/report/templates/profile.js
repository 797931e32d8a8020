// Long tables begin with 20 rows; filtering of layers, and the way from a chart to a layer's row. The page reads without any of it.
{
  const FIRST = 20;
  for (const table of (document.getElementById("part") ?? document).querySelectorAll("section > .scroll > table")) {
    const rows = Math.max(...[...table.tBodies].map((body) => body.rows.length));
    if (rows <= FIRST + 5) continue;
    table.classList.add("folded");
    const more = document.createElement("button");
    Object.assign(more, { type: "button", className: "more" });
    more.textContent = `Show all ${rows} rows`;
    more.addEventListener("click", () => unfold(table));
    table.parentElement.after(more);
  }
  const unfold = (table) => {
    if (!table.classList.contains("folded")) return;
    table.classList.remove("folded");
    table.parentElement.nextElementSibling.remove();
  };
  for (const box of document.querySelectorAll(".filter")) {
    const field = box.querySelector("input");
    const told = box.querySelector("output");
    const rows = [...document.getElementById(field.dataset.table).querySelectorAll("tr[data-words]")];
    const apply = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length) unfold(rows[0].closest("table"));
      let count = 0;
      let time = 0;
      let share = 0;
      for (const row of rows) {
        row.hidden = !words.every((word) => row.dataset.words.includes(word));
        if (row.hidden) continue;
        count += 1;
        time += Number(row.dataset.time || 0);
        share += Number(row.dataset.share || 0);
      }
      told.textContent = words.length
        ? `${count} of ${rows.length} rows: ${Number(time.toPrecision(3))} ${field.dataset.unit}, ${share.toFixed(1)} %`
        : "";
    };
    box.hidden = false;
    field.addEventListener("input", apply);
  }

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const rowOf = (mark) => {
    const figure = mark.closest("figure");
    return document.getElementById(`layer-${figure.dataset.run}-${mark.dataset.layer}`);
  };
  const place = (event) => {
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - width - 8))}px`;
    const below = event.clientY + 18;
    tip.style.top = `${below + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : below}px`;
  };
  for (const mark of document.querySelectorAll("figure[data-run] [data-layer]")) {
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
