// The graph of a profile or a model: colours, folding, search, keyboard, details, two profiles as one. Without it the page is a table.
import { CanvasSurface, SvgSurface, draw, quantity, scaleOf } from "./graph_draw.js";
import { flame, lane } from "./graph_places.js";

const MOST_DRAWN = 400; // nodes that are laid out along their edges; above, in the order of execution
const MOST_FRAMES = 24; // around unfolded blocks; dagre's time grows with their square
const READABLE = 0.55; // scale below which names on nodes can't be read
const PATIENCE = 6000; // ms for a layout
const NODE = { w: 176, h: 44 };
let worker = newWorker(); // it loads while the rest begins
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("graph-data").textContent);
const { names, parents, values, metrics, members } = data;
const count = data.ops.length;
const text = (number) => data.texts[number] ?? "";
const isBlock = (id) => id >= count;
const kids = new Map();
const placed = new Set();
for (let node = 0; node < count; node += 1) {
  for (let child = node; ; child = parents[child]) {
    const parent = parents[child];
    if (!kids.has(parent)) kids.set(parent, []);
    kids.get(parent).push(child);
    if (parent < 0 || placed.has(parent)) break;
    placed.add(parent);
  }
}
const above = (id) => {
  const found = [];
  for (let parent = parents[id]; parent >= 0; parent = parents[parent]) found.unshift(parent);
  return found;
};
const words = Array.from({ length: count }, (_, node) => {
  const index = members ? members[node][0][0] : node;
  const layers = data.runs[0].layers;
  return [names[node], text(data.ops[node]), index === undefined ? "" : `${text(layers.kernel[index])} ${layers.nodes[index] || ""}`].join(" ").toLowerCase();
});
const links = [];
for (const [key, dashed] of [["edges", false], ["order", true]]) {
  for (let index = 0; index < data[key].length; index += 2) links.push([data[key][index], data[key][index + 1], dashed]);
}

const canvas = at("graph-canvas");
const stage = at("graph-stage");
const told = at("graph-told");
const first = data.keys[0];
const state = { metric: first, view: "graph", chosen: -1, open: new Set(data.opened), hits: new Set(), search: "" };
let scene = { items: [], edges: [], chosen: -1 };
let view = { x: 0, y: 0, kx: 1, ky: 1 };
let looks = new Map();
let colours = {};
let pending = 0;

// What of the tree is to be seen.
function visible() {
  const found = [];
  const walk = (id) => (isBlock(id) && state.open.has(id) ? kids.get(id).forEach(walk) : found.push(id));
  kids.get(-1).forEach(walk);
  return found;
}
const shownOf = (node) => above(node).find((block) => !state.open.has(block)) ?? node;
function shownEdges() {
  const shown = Array.from({ length: count }, (_, node) => shownOf(node));
  const found = new Map();
  for (const [a, b, dashed] of links) {
    const [from, to] = [shown[a], shown[b]];
    const key = from * names.length + to;
    if (from !== to && (!found.has(key) || !dashed)) found.set(key, { from, to, dashed });
  }
  return [...found.values()];
}

// The times that widths show.
const widthKey = () => (state.metric === "after" ? "after" : "time");

// Layout: by the worker, or at once.
let turn = 0;
let timer = 0;
let neighbours = { before: new Map(), after: new Map() };
function arrange({ keep = false } = {}) {
  const ids = visible();
  const edges = shownEdges();
  neighbours = { before: group(edges, "to"), after: group(edges, "from") };
  turn += 1;
  clearTimeout(timer);
  const tree = { count, above, isBlock, isOpen: (id) => state.open.has(id) };
  if (state.view === "flame" || state.view === "timeline") {
    const starts = state.view === "timeline" && !members ? data.runs[0].layers.start : null;
    settle(flame(tree, values[widthKey()], starts), state.view, keep);
  } else if (state.view === "lane" || ids.length > MOST_DRAWN) {
    settle(lane(ids, stage.clientWidth / stage.clientHeight), "lane", keep);
  } else {
    worker ??= newWorker();
    const unfolded = [...state.open].filter((id) => above(id).every((block) => state.open.has(block)));
    const frames = unfolded.length > MOST_FRAMES ? [] : unfolded;
    const nodes = ids.map((id) => ({ id, parent: frames.length ? parents[id] : -1, ...NODE }));
    worker.keep = keep;
    worker.postMessage({ turn, nodes, frames: frames.map((id) => ({ id, parent: parents[id] })), edges });
    stage.setAttribute("aria-busy", "true");
    timer = setTimeout(giveUp, PATIENCE);
  }
}
function group(edges, end) {
  const found = new Map();
  for (const edge of edges) (found.get(edge[end]) ?? found.set(edge[end], []).get(edge[end])).push(edge);
  return found;
}
function newWorker() {
  const made = new Worker(new URL("graph_layout.js", import.meta.url), { type: "module" });
  made.onmessage = ({ data: done }) => {
    if (done.turn !== turn) return;
    clearTimeout(timer);
    settle(done, "graph", made.keep);
  };
  made.onerror = (event) => {
    event.preventDefault();
    giveUp();
  };
  return made;
}
function giveUp() {
  clearTimeout(timer);
  worker?.terminate();
  worker = null;
  at("graph-note").textContent = "The layout along the edges took too long: layers are in the order of execution. Fold blocks for a smaller drawing.";
  settle(lane(visible(), stage.clientWidth / stage.clientHeight), "lane", false);
}
function settle(made, layout, keep) {
  const old = keep && scene.items.find((item) => item.id === state.chosen);
  const before = old && { x: old.x * view.kx + view.x, y: old.y * view.ky + view.y };
  scene = made;
  stage.dataset.layout = layout;
  stage.dataset.visible = scene.items.filter((item) => !item.frame).length;
  stage.removeAttribute("aria-busy");
  const now = before && scene.items.find((item) => item.id === state.chosen);
  if (now) Object.assign(view, { x: before.x - now.x * view.kx, y: before.y - now.y * view.ky });
  else {
    fitView();
    if (state.chosen >= 0) reveal(state.chosen);
  }
  recolour();
}

// Colours and numbers.
const dark = matchMedia("(prefers-color-scheme: dark)");
const BOUNDS = { sum: "≥ ", max: "≥ ", min: "≤ " }; // of what is partly known
const valueOf = (id, key = state.metric) => values[key][id];
const boundOf = (id, key) => text(data.bounds[key]?.[id]); // of a time that is less than the profiler can tell
// A change that may be of either sign has the colour of none.
const shadeOf = (id) => (state.metric === "change" && boundOf(id, "change") && !isClear(id) ? 0 : valueOf(id));
function shownValue(id, key = state.metric) {
  const value = valueOf(id, key);
  if (value === null) return aloneOf(id, key) || "n/a";
  if (boundOf(id, key)) return boundOf(id, key);
  const sign = key === "change" && value > 0 ? "+" : "";
  const bound = isBlock(id) && data.lacking[key]?.[id] && key !== "change" ? (BOUNDS[metrics[key].sums] ?? "") : "";
  return `${bound}${sign}${quantity(value, metrics[key].unit)}`;
}
// Of work that was added or removed, the whole time is the change.
const isChange = (id) => ["added", "removed"].includes(verdictOf(id));
// Which run alone has the work, where the other one should have the value.
function aloneOf(id, key = state.metric) {
  const side = data.alone?.[id] ?? -1;
  const has = key === "change" ? isChange(id) : side === Number(key === "after");
  return side < 0 || has ? "" : `only in ${data.runs[side].name}`;
}
// Whose values the colours and widths show; nothing of a model that was not profiled.
function shownWords() {
  const [one, two] = data.runs;
  if (!one.label) return "";
  const of = (key) => `${metrics[key].title.split(": ")[0]} (${key === "change" ? `${two.name} less ${one.name}` : members ? (key === "after" ? two : one).name : one.label})`;
  if (!scene.wide) return `Colours: ${of(state.metric)}`;
  return state.metric === widthKey() ? `Colours and widths: ${of(state.metric)}` : `Colours: ${of(state.metric)}; widths: ${of(widthKey())}`;
}
const boundNote = (words) => `${words}: ${words.startsWith("<") ? data.below : data.partly}`;
const verdictOf = (id) => (data.verdicts ? text(data.verdicts[id]) : "");
const isClear = (id) => !data.verdicts || data.clear[id];
function recolour() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  colours = { ink: of("--ink"), soft: of("--soft"), paper: of("--paper"), rule: of("--rule"), accent: of("--accent"), edge: dark.matches ? "#5b6776" : "#9aa6b4", alone: dark.matches ? { fill: "#5d4a86", ink: "#ffffff" } : { fill: "#d9c8f2", ink: "#000000" }, frame: dark.matches ? "rgba(255,255,255,0.035)" : "rgba(20,40,70,0.035)" };
  // Blocks over their layers in the flame view are as wide as their time; colours are for the layers.
  const items = scene.items.filter((item) => !item.frame && !state.open.has(item.id));
  const scale = scaleOf(state.metric, items.map((item) => shadeOf(item.id)), dark.matches);
  looks = new Map();
  for (const { id } of scene.items) {
    const verdict = verdictOf(id);
    const label = isBlock(id) ? `${names[id]} (${leaves(id)})` : names[id].split(";")[0];
    const dashed = !isClear(id);
    looks.set(id, { label, name: names[id], timed: state.metric === "time", op: isBlock(id) ? "" : text(data.ops[id]), value: [shownValue(id), valueOf(id) === null && (aloneOf(id) || !isChange(id)) ? "" : verdict].filter(Boolean).join(", "), bold: isBlock(id), dashed, ...(state.open.has(id) ? { fill: colours.rule, ink: colours.ink } : aloneOf(id) ? colours.alone : scale.of(shadeOf(id), !dashed)) });
  }
  const ends = scale.ends.map((value) => quantity(value, metrics[state.metric].unit));
  at("graph-ramp").style.background = `linear-gradient(90deg, ${scale.ramp.filter((_, step) => step % 7 === 0).map((each) => each.fill).join(", ")})`;
  at("graph-ends").replaceChildren(...ends.map((end) => Object.assign(document.createElement("span"), { textContent: end })));
  const lacking = items.filter((item) => valueOf(item.id) === null && !aloneOf(item.id)).length;
  at("graph-alone").hidden = !items.some((item) => aloneOf(item.id));
  at("graph-alone").firstElementChild.style.background = colours.alone.fill;
  at("graph-lacking").textContent = lacking ? `${lacking} without a value: ${metrics[state.metric].why || "see each"}` : "";
  at("graph-shows").textContent = shownWords();
  stage.dataset.metric = state.metric;
  tell();
  redraw();
}
const sizes = new Map();
function leaves(id) {
  if (!isBlock(id)) return 1;
  if (!sizes.has(id)) sizes.set(id, kids.get(id).reduce((sum, child) => sum + leaves(child), 0));
  return sizes.get(id);
}

// Drawing.
function redraw() {
  pending ||= requestAnimationFrame(() => {
    pending = 0;
    const ratio = window.devicePixelRatio || 1;
    const size = { width: stage.clientWidth, height: stage.clientHeight };
    if (canvas.width !== size.width * ratio || canvas.height !== size.height * ratio) Object.assign(canvas, { width: size.width * ratio, height: size.height * ratio });
    const surface = new CanvasSurface(canvas.getContext("2d"), ratio);
    surface.context.clearRect(0, 0, size.width, size.height);
    paint(surface, view, size);
    if (scene.items.length) stage.dataset.drawn = Number(stage.dataset.drawn ?? 0) + 1;
  });
}
function paint(surface, view, size) {
  scene.chosen = state.chosen;
  draw(surface, scene, view, size, colours, (id) => {
    const look = looks.get(id);
    return state.search ? { ...look, hit: state.hits.has(id), dim: !state.hits.has(id) } : look;
  });
}
function bounds() {
  const [left, top] = [Math.min(...scene.items.map((item) => item.x)), Math.min(...scene.items.map((item) => item.y))];
  const [right, bottom] = [Math.max(...scene.items.map((item) => item.x + item.w)), Math.max(...scene.items.map((item) => item.y + item.h))];
  return { left, top, width: right - left || 1, height: bottom - top || 1 };
}
function fitView() {
  if (!scene.items.length) return;
  const { left, top, width, height } = bounds();
  const [wide, high] = [stage.clientWidth - 24, stage.clientHeight - 24];
  let scale = Math.min(wide / width, high / height, 1.2);
  // A network too large for the panel begins readable, at its hottest part or its largest clear change; 0 shows the whole.
  const begins = stage.dataset.layout === "graph" && scale < READABLE && stage.dataset.fitted !== turn.toString();
  if (begins) scale = Math.min(Math.max(wide / width, READABLE), 0.75);
  stage.dataset.fitted = turn;
  view = scene.wide
    ? { kx: wide / width, ky: 1, x: 12 - left * (wide / width), y: 12 - top }
    : { kx: scale, ky: scale, x: Math.max((wide - width * scale) / 2, 0) + 12 - left * scale, y: 12 - top * scale };
  if (begins) {
    const whole = { ...view };
    centre(hottest());
    // Nothing empty is in sight where the drawing could be.
    const kept = (at, least, most) => Math.min(Math.max(at, least), most);
    view.x = width * scale <= wide ? whole.x : kept(view.x, wide + 12 - (left + width) * scale, whole.x);
    view.y = height * scale <= high ? whole.y : kept(view.y, high + 12 - (top + height) * scale, whole.y);
  }
}
const centre = (item) => Object.assign(view, { x: (stage.clientWidth - item.w * view.kx) / 2 - item.x * view.kx, y: (stage.clientHeight - item.h * view.ky) / 2 - item.y * view.ky });
const peak = (id) => (isBlock(id) ? Math.max(...kids.get(id).map(peak)) : isClear(id) ? Math.abs(valueOf(id, first) ?? 0) : 0);
function hottest() {
  const boxes = scene.items.filter((item) => !item.frame);
  const peaks = boxes.map((item) => peak(item.id));
  const most = Math.max(...peaks);
  return most > 0 ? boxes[peaks.indexOf(most)] : boxes.reduce((a, b) => (b.y < a.y ? b : a));
}
function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const kx = Math.min(Math.max(view.kx * factor, 0.005), 400);
  const change = kx / view.kx;
  view = { kx, ky: scene.wide ? 1 : view.ky * change, x: x - (x - view.x) * change, y: scene.wide ? view.y : y - (y - view.y) * change };
  redraw();
}
function pan(x, y) {
  view = { ...view, x: view.x + x, y: view.y + y };
  redraw();
}

// Selection.
function choose(id, { look = true } = {}) {
  state.chosen = id;
  if (id >= 0) {
    const closed = above(id).filter((block) => !state.open.has(block));
    if (closed.length && look) {
      closed.forEach((block) => state.open.add(block));
      arrange({ keep: false });
    }
    if (look) reveal(id);
  }
  tell();
  remember();
  redraw();
}
function reveal(id) {
  const item = scene.items.find((each) => each.id === id && !each.frame);
  if (!item) return;
  const [x, y] = [item.x * view.kx + view.x, item.y * view.ky + view.y];
  const [width, height] = [item.w * view.kx, item.h * view.ky];
  if (x < 0 || y < 0 || x + Math.min(width, 80) > stage.clientWidth || y + height > stage.clientHeight) centre(item);
}
function fold(id) {
  if (isBlock(id) && !state.open.has(id)) state.open.add(id);
  else {
    const block = isBlock(id) ? id : parents[id];
    if (block < 0) return;
    state.open.delete(block);
    state.chosen = block;
  }
  at("graph-note").textContent = "";
  arrange({ keep: true });
  tell();
  remember();
}
function walk(way) {
  const shown = scene.items.filter((item) => !item.frame).map((item) => item.id);
  const index = shown.indexOf(state.chosen);
  if (index < 0) return choose(shown[0] ?? -1);
  const along = { ArrowDown: ["after", "to"], ArrowUp: ["before", "from"] }[way];
  if (!along) return choose(shown[index + (way === "ArrowRight" ? 1 : -1)] ?? state.chosen);
  if (scene.wide) return choose(way === "ArrowUp" ? (parents[state.chosen] >= 0 ? parents[state.chosen] : state.chosen) : (kids.get(state.chosen)?.[0] ?? state.chosen), { look: false });
  choose(neighbours[along[0]].get(state.chosen)?.[0][along[1]] ?? state.chosen);
}

// Details and what is read out.
const interval = (number) => (text(number) ? ` (95 % interval ${text(number)})` : "");
const whyOf = (id, key) => metrics[key].why || text(data.why[key]?.[id]) || (isBlock(id) ? "none of its layers has a value" : "not measured");
function valueWords(id, key) {
  const value = valueOf(id, key);
  if (value === null) return `n/a: ${whyOf(id, key)}`;
  if (boundOf(id, key)) return boundNote(boundOf(id, key));
  const ends = key === first ? interval(data.intervals[id]) : "";
  const lacking = isBlock(id) && data.lacking[key]?.[id];
  return `${shownValue(id, key)}${ends}${lacking ? `; ${lacking} of ${leaves(id)} have no value` : ""}`;
}
function layerRows(run, index, title = "") {
  const layer = data.runs[run].layers;
  const of = (key, unit) => (layer[key][index] === null ? "" : quantity(layer[key][index], unit));
  return [
    [`Layer${title}`, names[index] === layer.name[index] && !title ? "" : layer.name[index]],
    [`Time${title}`, title && (layer.time[index] === null ? "n/a" : text(layer.most[index]) || of("time", "s") + interval(layer.interval[index]))],
    ["Source operators", (layer.nodes[index] || [layer.name[index]]).join(", ")],
    ["Kernel", text(layer.kernel[index])],
    ["Steps of the engine", layer.steps[index]],
    ["Inputs", text(layer.inputs[index])],
    ["Outputs", text(layer.outputs[index])],
    ["Type of arithmetic", text(layer.dtype[index])],
    ["Provider", text(layer.provider[index])],
    ["Operations", of("ops", "")],
    ["Parameters", of("parameters", "")],
    ["Weights", of("weight_bytes", "B")],
    ["Activations in and out", of("activation_bytes", "B")],
    ["Intensity", layer.intensity[index] === null ? "" : `${quantity(layer.intensity[index], "")} operations per byte`],
    ["Attained", of("ops_per_second", "op/s")],
    ["Roof at this intensity", layer.roof[index] === null ? "" : `${of("roof", "op/s")}, limited by ${text(layer.bound[index]) || "an unknown peak"}; ${text(layer.attained[index])}`],
    ["Attributes", text(layer.attributes[index])],
    ["Note", text(layer.note[index])],
  ];
}
function detailRows(id) {
  const rows = data.keys.map((key) => [metrics[key].title, valueWords(id, key)]);
  if (data.verdicts) rows.unshift([data.verdict, { unclear: "unclear: the intervals overlap or are not known", unpaired: `unpaired: ${aloneOf(id, "change")}; no claim is made`, moved: "moved: part of this work is in other layers of one run" }[verdictOf(id)] ?? verdictOf(id)]);
  if (isBlock(id)) return [["Layers", String(leaves(id))], ...rows];
  if (!members) return [["Type", text(data.ops[id])], ["Kind", text(data.kinds[id])], ...rows, ...layerRows(0, id)];
  return [...rows, ...members[id].flatMap((layers, run) => layers.flatMap((index) => layerRows(run, index, `: ${data.runs[run].name}`)))];
}
function tell() {
  const id = state.chosen;
  stage.dataset.chosen = id;
  stage.dataset.colour = looks.get(id)?.fill ?? "";
  at("graph-one").hidden = id < 0;
  at("graph-none").hidden = id >= 0;
  if (id < 0) return void (told.textContent = "Nothing is selected.");
  const place = isBlock(id) ? `block of ${leaves(id)}` : text(data.ops[id]);
  const way = (key) => neighbours[key].get(id)?.length ?? 0;
  told.textContent = `${names[id]}, ${place}. ${metrics[state.metric].title}: ${valueWords(id, state.metric)}. ${verdictOf(id) && `${data.verdict}: ${verdictOf(id)}. `}${way("before")} before, ${way("after")} after.`;
  at("graph-name").textContent = names[id];
  const crumbs = above(id).map((block) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: names[block] });
    button.addEventListener("click", () => choose(block, { look: false }));
    return button;
  });
  at("graph-crumbs").replaceChildren(...crumbs);
  const foldable = isBlock(id) || parents[id] >= 0;
  at("graph-fold").hidden = !foldable;
  at("graph-fold").textContent = isBlock(id) && !state.open.has(id) ? "Unfold this block" : "Fold this block";
  const list = at("graph-rows");
  list.replaceChildren();
  for (const [name, words] of detailRows(id)) {
    if (!words) continue;
    list.append(Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: words }));
  }
}

// Search.
let found = [];
function search() {
  const wanted = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  found = wanted.length ? words.flatMap((each, node) => (wanted.every((word) => each.includes(word)) ? [node] : [])) : [];
  state.hits = new Set(found.flatMap((node) => [node, ...above(node)]));
  at("graph-found").textContent = wanted.length ? `${found.length} of ${count} match; Enter goes to the next` : "";
  redraw();
}
at("graph-search").addEventListener("input", (event) => {
  state.search = event.target.value.trim();
  search();
  remember();
});
at("graph-search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !found.length) return;
  event.preventDefault();
  choose(found.find((node) => node > state.chosen) ?? found[0]);
});

// The address tells metric, view, selection, search, and which blocks differ from how they are at first.
function remember() {
  const differing = Array.from({ length: names.length - count }, (_, index) => index + count).filter((id) => state.open.has(id) !== data.opened.includes(id));
  const told = { metric: state.metric === first ? "" : state.metric, view: state.view === "graph" ? "" : state.view, node: state.chosen < 0 ? "" : state.chosen, search: state.search, flip: differing.join(".") };
  const hash = new URLSearchParams(Object.entries(told).filter(([, value]) => value !== "")).toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}
function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  const number = (word) => (/^\d+$/.test(word ?? "") && Number(word) < names.length ? Number(word) : -1);
  state.metric = Object.hasOwn(metrics, said.get("metric") ?? "") ? said.get("metric") : first;
  state.view = [...at("graph-view").options].find((one) => one.value === said.get("view"))?.value ?? "graph";
  state.open = new Set(data.opened);
  for (const id of (said.get("flip") ?? "").split(".").map(number)) if (isBlock(id)) state.open.has(id) ? state.open.delete(id) : state.open.add(id);
  state.chosen = number(said.get("node"));
  if (state.chosen >= 0) above(state.chosen).forEach((block) => state.open.add(block));
  state.search = said.get("search") ?? "";
  at("graph-search").value = state.search;
  at("graph-metric").value = state.metric;
  at("graph-view").value = state.view;
  search();
  arrange();
}
addEventListener("hashchange", recall);

// Controls.
at("graph-metric").addEventListener("change", (event) => {
  const width = widthKey();
  state.metric = event.target.value;
  if (scene.wide && widthKey() !== width) arrange();
  else recolour();
  remember();
});
at("graph-view").addEventListener("change", (event) => {
  state.view = event.target.value;
  arrange();
  remember();
});
at("graph-fold").addEventListener("click", () => fold(state.chosen));
at("graph-whole").addEventListener("click", () => {
  fitView();
  redraw();
});
for (const [id, factor] of [["graph-in", 1.3], ["graph-out", 1 / 1.3]]) at(id).addEventListener("click", () => zoom(factor));
const KEYS = {
  Enter: () => state.chosen >= 0 && fold(state.chosen),
  "+": () => zoom(1.3),
  "=": () => zoom(1.3),
  "-": () => zoom(1 / 1.3),
  0: () => (fitView(), redraw()),
  "/": () => at("graph-search").focus(),
  Escape: () => choose(-1),
  Home: () => choose(scene.items.find((item) => !item.frame)?.id ?? -1),
  End: () => choose(scene.items.at(-1)?.id ?? -1),
};
stage.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
  if (step) event.shiftKey ? pan(...step) : walk(event.key);
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
});

// Pointers: one drags or selects, two pinch.
const pointers = new Map();
let moved = 0;
const local = (event) => {
  const box = stage.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
};
const hit = ({ x, y }) => {
  const inside = (item) => x >= item.x * view.kx + view.x && y >= item.y * view.ky + view.y && x <= (item.x + item.w) * view.kx + view.x && y <= (item.y + (item.frame ? 22 / view.ky : item.h)) * view.ky + view.y;
  return scene.items.findLast(inside)?.id ?? -1;
};
canvas.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, local(event));
  canvas.setPointerCapture(event.pointerId);
  moved = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const now = local(event);
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  const distance = (one) => Math.hypot(one.x - other.x, one.y - other.y) || 1;
  if (other) zoom(distance(now) / distance(before), other.x, other.y);
  else pan(now.x - before.x, now.y - before.y);
  moved += Math.hypot(now.x - before.x, now.y - before.y);
  pointers.set(event.pointerId, now);
});
for (const name of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(name, (event) => {
    if (pointers.delete(event.pointerId) && name === "pointerup" && moved < 5) choose(hit(local(event)), { look: false });
  });
}
canvas.addEventListener("dblclick", (event) => {
  const id = hit(local(event));
  if (id >= 0) fold(id);
});
stage.addEventListener(
  "wheel",
  (event) => {
    // The page scrolls until the graph is in use.
    if (!event.ctrlKey && document.activeElement !== stage) return;
    event.preventDefault();
    const { x, y } = local(event);
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y);
  },
  { passive: false },
);

// Files of what is shown.
function save(content, type, extension) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = `graph.${extension}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function whole(scaled = 1) {
  const { left, top, width, height } = bounds();
  const kx = scene.wide ? stage.clientWidth / width : scaled;
  const ky = scene.wide ? 1 : scaled;
  return { view: { kx, ky, x: 10 - left * kx, y: 10 - top * ky }, size: { width: Math.ceil(width * kx + 20), height: Math.ceil(height * ky + 20) } };
}
at("graph-svg").addEventListener("click", () => {
  const { view, size } = whole();
  const surface = new SvgSurface(size.width, size.height, colours.paper);
  paint(surface, view, size);
  save(new XMLSerializer().serializeToString(surface.root), "image/svg+xml", "svg");
});
at("graph-png").addEventListener("click", () => {
  const { width, height } = bounds();
  const { view, size } = whole(Math.min(2, 8000 / width, 8000 / height));
  const sheet = Object.assign(document.createElement("canvas"), size);
  const surface = new CanvasSurface(sheet.getContext("2d"), 1);
  surface.rect(0, 0, size.width, size.height, { fill: colours.paper });
  paint(surface, view, size);
  sheet.toBlob((blob) => save(blob, "image/png", "png"));
});
at("graph-csv").addEventListener("click", () => {
  const cell = (value) => {
    const word = typeof value === "string" && /^[=+\-@\t＝＋－＠]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\n]/.test(word) ? `"${word.replaceAll('"', '""')}"` : word;
  };
  const { keys } = data;
  const heads = ["name", "op", "block", ...keys.map((key) => (members ? metrics[key].title : key) + (metrics[key].unit && ` (${metrics[key].unit})`)), "low", "high", ...(data.verdicts ? [data.verdict] : []), "notes"];
  const rows = visible().map((id) => [names[id], isBlock(id) ? `block of ${leaves(id)}` : text(data.ops[id]), above(id).map((block) => names[block]).join("/"), ...keys.map((key) => valueOf(id, key)), values.low[id], values.high[id], ...(data.verdicts ? [verdictOf(id)] : []), keys.filter((key) => boundOf(id, key)).map((key) => `${metrics[key].title}: ${boundNote(boundOf(id, key))}`).join("; ")]);
  save([heads, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n", "text/csv", "csv");
});

at("graph-part").hidden = false;
new ResizeObserver(redraw).observe(stage);
dark.addEventListener("change", recolour);
recall();
