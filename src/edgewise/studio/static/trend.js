// The chart of a trend, made from the table below it: hover, drag to zoom, arrow keys, PNG; the server draws the SVG. The table reads without it.
import uPlot from "./vendor/uPlot.js";

const chart = document.getElementById("trend");
const rows = [...document.querySelectorAll("#points tbody tr")];
const number = (row, name) => (row.dataset[name] === "" ? null : Number(row.dataset[name]));
const bases = [...new Set(rows.map((row) => row.dataset.basis))];
const times = rows.map((row) => number(row, "t"));
let plot;

function draw() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: colour("soft"), grid: { stroke: colour("rule"), width: 1 }, ticks: { stroke: colour("rule") } };
  const date = (u, at, axes, space, step) => at.map((each) => new Date(each * 1e3).toISOString().slice(step < 86400 ? 5 : 0, step < 60 ? 19 : step < 86400 ? 16 : 10).replace("T", " "));
  const line = (basis, index) => ({
    label: basis, stroke: colour(`series-${index + 1}`), width: 2, dash: basis === "measured" ? [] : [6, 5],
    spanGaps: true, points: { show: true, size: 7, fill: basis === "measured" ? colour(`series-${index + 1}`) : colour("paper") },
  });
  const hidden = { stroke: "transparent", points: { show: false } };
  // uPlot leaves a gap at null, as where a run has no interval, and none at undefined.
  const values = (basis, name) => rows.map((row) => (row.dataset.basis === basis ? number(row, name) : undefined));
  const mark = (u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.lineWidth = devicePixelRatio;
    for (const row of rows.filter((each) => each.dataset.mark)) {
      const x = Math.round(u.valToPos(number(row, "t"), "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const change = row.dataset.mark === "change";
      ctx.strokeStyle = colour(change ? "bad" : "soft");
      ctx.setLineDash(change ? [] : [4, 4]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.fillStyle = colour("ink");
    for (const row of rows) {
      const x = u.valToPos(number(row, "t"), "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const arrow = (tip, step) => ctx.fill(new Path2D(`M${x} ${tip}l${step / 2} ${step}h${-step}z`));
      if ("last" in row.dataset) arrow(bbox.top, 10 * devicePixelRatio);
      if ("first" in row.dataset) arrow(bbox.top + bbox.height, -10 * devicePixelRatio);
    }
    ctx.restore();
  };
  const told = document.getElementById("told");
  plot?.destroy();
  plot = new uPlot({
    width: chart.clientWidth, height: 340, padding: [null, 36, null, null], legend: { show: false }, cursor: { y: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    scales: { y: { range: (u, low, high) => [Math.min(0, low), Math.min(high * 1.08, Number(chart.dataset.top))] } },
    axes: [{ ...axis, space: 90, values: date }, { ...axis, label: chart.dataset.label, size: 64 }],
    series: [{}, ...bases.flatMap((basis, index) => [hidden, hidden, line(basis, index)])],
    bands: bases.map((_, index) => ({ series: [3 * index + 2, 3 * index + 1], fill: `color-mix(in srgb, ${colour(`series-${index + 1}`)} 18%, transparent)` })),
    hooks: { draw: [mark], setCursor: [(u) => (told.textContent = u.cursor.idx == null ? "" : rows[u.cursor.idx].dataset.told)] },
  }, [times, ...bases.flatMap((basis) => ["low", "high", "v"].map((name) => values(basis, name)))], chart);
}

let at = rows.length - 1;
chart.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -rows.length, End: rows.length }[event.key];
  const zoom = { "+": 0.5, "-": 2 }[event.key];
  if (step) {
    at = Math.min(rows.length - 1, Math.max(0, at + step));
    plot.setCursor({ left: plot.valToPos(times[at], "x"), top: 10 });
  } else if (zoom) {
    const half = ((plot.scales.x.max - plot.scales.x.min) / 2) * zoom;
    plot.setScale("x", { min: Math.max(times[0], times[at] - half), max: Math.min(times.at(-1), times[at] + half) });
  } else if (event.key === "Escape") plot.setScale("x", { min: times[0], max: times.at(-1) });
  else if (event.key === "Enter") rows[at].querySelector("a").click();
  else return;
  event.preventDefault();
});
const dark = matchMedia("(prefers-color-scheme: dark)");
document.getElementById("svg").addEventListener("click", ({ currentTarget }) => {
  const address = new URL(currentTarget.href);
  address.searchParams.set("scheme", dark.matches ? "dark" : "light");
  currentTarget.href = address;
});
document.getElementById("png").addEventListener("click", () => {
  const source = plot.ctx.canvas;
  const whole = Object.assign(document.createElement("canvas"), { width: source.width, height: source.height });
  const to = whole.getContext("2d");
  to.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--paper");
  to.fillRect(0, 0, whole.width, whole.height);
  to.drawImage(source, 0, 0);
  Object.assign(document.createElement("a"), { href: whole.toDataURL("image/png"), download: "trend.png" }).click();
});
document.getElementById("figure").hidden = false;
draw();
new ResizeObserver(() => plot.setSize({ width: chart.clientWidth, height: 340 })).observe(chart);
dark.addEventListener("change", draw);
