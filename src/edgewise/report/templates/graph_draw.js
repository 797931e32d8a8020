// Numbers, colours and drawing of a profile's graph, onto a canvas or into an SVG.
const TIMES = [[1e-6, "µs"]]; // as in the tables: one unit for all times
const SIZES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const COUNTS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const SCALES = { s: TIMES, B: SIZES, MAC: COUNTS, "": COUNTS, "op/s": COUNTS.map(([size, prefix]) => [size, `${prefix}op/s`]) };

export const significant = (value) => {
  const size = Math.abs(value);
  if (size && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return Number(value.toPrecision(3)).toFixed(size ? Math.max(0, 2 - Math.floor(Math.log10(size))) : 0);
};

export function quantity(value, unit) {
  if (unit === "dB") return `${(Math.round(value * 10) / 10).toFixed(1)} dB`.replace("-", "−");
  if (unit === "1") return `${(value * 100).toFixed(1)} %`;
  const scales = SCALES[unit];
  if (!scales) return `${significant(value)} ${unit}`.trim();
  if (!value) return "0";
  const [size, name] = scales.find(([least]) => Math.abs(value) >= least * 0.9995) ?? scales.at(-1);
  const whole = size === 1 && Number.isInteger(value);
  return `${whole ? value : significant(value / size)} ${name}`.trim().replace("-", "−");
}

const RAMPS = {
  light: { heat: ["#faf3e3", "#f8c98d", "#e8813f", "#b5301f", "#64091b"], change: ["#174ea6", "#8db4ee", "#eef0f3", "#f0a668", "#a63d08"] },
  dark: { heat: ["#2b2f37", "#5f3b29", "#a04b22", "#e3803a", "#ffd68f"], change: ["#9cc3ff", "#3c6cb4", "#2b313a", "#a5561e", "#ffb37a"] },
};
const STEPS = 64;
const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function spread(stops) {
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (step / (STEPS - 1)) * (stops.length - 1);
    const from = Math.min(Math.floor(at), stops.length - 2);
    const [a, b] = [parts(stops[from]), parts(stops[from + 1])];
    const mixed = a.map((part, index) => Math.round(part + (b[index] - part) * (at - from)));
    const light = mixed.map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
    return { fill: `rgb(${mixed.join(",")})`, ink: luminance > 0.179 ? "#000000" : "#ffffff" };
  });
}

// Of a change that is not clear: no more colour than tells its sign.
const PALE = 0.25;

// The colours of a metric over the values of what is shown: fill and ink of a value, and ends for the legend.
export function scaleOf(key, values, dark) {
  const known = values.filter((value) => value !== null);
  const ramp = spread(RAMPS[dark ? "dark" : "light"][key === "change" ? "change" : "heat"]);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const widest = Math.max(Math.abs(least), Math.abs(most)) || 1;
  const places = {
    change: (value) => 0.5 + 0.5 * Math.sign(value) * Math.sqrt(Math.abs(value) / widest),
    roof: (value) => 1 - value,
    snr: (value) => (most > least ? (most - value) / (most - least) : 0.5),
  };
  const place = places[key] ?? ((value) => Math.sqrt(Math.max(value, 0) / widest));
  const ends = { change: [-widest, 0, widest], roof: [1, 0.5, 0], snr: [most, (most + least) / 2, least] };
  return {
    ramp,
    ends: known.length ? (ends[key] ?? [0, widest / 4, widest]) : [],
    of: (value, isClear = true) => {
      if (value === null) return null;
      const part = Math.min(Math.max(place(value), 0), 1);
      return ramp[Math.round((isClear || key !== "change" ? part : 0.5 + PALE * (part - 0.5)) * (STEPS - 1))];
    },
  };
}

export class CanvasSurface {
  constructor(context, ratio) {
    this.context = context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
  }
  rect(x, y, width, height, { fill, stroke, dash, line = 1 }) {
    const context = this.context;
    if (fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, width, height);
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = line;
      context.setLineDash(dash ? [4, 3] : []);
      context.strokeRect(x, y, width, height);
    }
  }
  path(points, { stroke, dash, line = 1 }) {
    const context = this.context;
    context.strokeStyle = stroke;
    context.lineWidth = line;
    context.setLineDash(dash ? [4, 3] : []);
    context.beginPath();
    points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  }
  text(text, x, y, { fill, size, weight = 400 }) {
    this.context.fillStyle = fill;
    this.context.font = `${weight} ${size}px system-ui, sans-serif`;
    this.context.fillText(text, x, y);
  }
}

export class SvgSurface {
  constructor(width, height, ground) {
    this.root = this.add("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "sans-serif" });
    this.rect(0, 0, width, height, { fill: ground });
  }
  add(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
    this.root?.append(made);
    return made;
  }
  rect(x, y, width, height, { fill = "none", stroke, dash, line }) {
    this.add("rect", { x, y, width, height, fill, stroke, "stroke-width": line, "stroke-dasharray": dash ? "4 3" : undefined });
  }
  path(points, { stroke, dash, line }) {
    this.add("polyline", { points: points.join(" "), fill: "none", stroke, "stroke-width": line, "stroke-dasharray": dash ? "4 3" : undefined });
  }
  text(text, x, y, { fill, size, weight }) {
    this.add("text", { x, y, fill, "font-size": size, "font-weight": weight, "dominant-baseline": "middle" }).textContent = text;
  }
}

const roomOf = (width, size) => Math.floor(width / (size * 0.64));
const fit = (text, width, size) => {
  const room = roomOf(width, size);
  if (text.length <= room) return text;
  return room < 4 ? "" : `…${text.slice(text.length - room + 1)}`;
};

// Draws what of a scene is in sight. `look(id)` tells label, name, op, value, whether that is a time, fill, ink, dashed, dim, frame and bold of an item.
export function draw(surface, scene, view, size, colours, look) {
  const at = ({ x, y }) => [x * view.kx + view.x, y * view.ky + view.y];
  const seen = (x, y, width, height) => x + width > 0 && y + height > 0 && x < size.width && y < size.height;
  const frames = scene.items.filter((item) => item.frame);
  for (const item of frames) {
    const [x, y] = at(item);
    surface.rect(x, y, item.w * view.kx, item.h * view.ky, { fill: colours.frame, stroke: colours.rule });
    if (item.w * view.kx > 40) surface.text(fit(`▾ ${look(item.id).label}`, item.w * view.kx - 12, 11), x + 6, y + 10 * Math.min(view.ky, 1.2), { fill: colours.soft, size: 11, weight: 600 });
  }
  for (const edge of scene.edges) {
    const points = edge.points.map(at);
    const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    if (!seen(left, top, Math.max(...xs) - left + 1, Math.max(...ys) - top + 1)) continue;
    const chosen = edge.from === scene.chosen || edge.to === scene.chosen;
    surface.path(points, { stroke: chosen ? colours.accent : colours.edge, dash: edge.dashed, line: chosen ? 2 : 1 });
  }
  for (const item of scene.items) {
    if (item.frame) continue;
    const [x, y] = at(item);
    const [width, height] = [item.w * view.kx, item.h * view.ky];
    if (!seen(x, y, width, height)) continue;
    const told = look(item.id);
    const gap = width > 3 ? 0.5 : 0;
    const stroke = told.fill && width < 12 ? undefined : told.dashed ? colours.ink : colours.rule;
    surface.rect(x + gap, y + gap, Math.max(width - 2 * gap, 0.5), height - 2 * gap, { fill: told.dim ? colours.paper : (told.fill ?? colours.paper), stroke, dash: told.dashed || !told.fill });
    const ink = told.dim || !told.fill ? colours.ink : told.ink;
    if (width > 34 && height > 11) {
      const two = height > 30;
      const label = told.bold && told.label.length > roomOf(width - 12, 12) ? told.name : told.label;
      surface.text(fit(label, width - 12, 12), x + 6, y + height * (two ? 0.33 : 0.5), { fill: ink, size: 12, weight: told.bold ? 650 : 400 });
      // A number stands there whole or not at all.
      const whole = item.piece === undefined ? told.value : `${told.timed ? quantity(item.piece, "s") : "part"} of ${told.value}`;
      const parts = item.piece === undefined ? told.value.split(", ") : [];
      const values = [told.op ? `${told.op} · ${whole}` : whole, whole, parts[0] ?? "", parts.at(-1) ?? "", ""];
      const value = values.find((each) => each.length <= roomOf(width - 12, 11));
      if (two) surface.text(value, x + 6, y + height * 0.7, { fill: ink, size: 11 });
    }
    if (told.hit) surface.rect(x - 1, y - 1, width + 2, height + 2, { stroke: colours.ink, line: 2 });
  }
  for (const item of scene.items.filter(({ id }) => id === scene.chosen)) {
    const [x, y] = at(item);
    surface.rect(x - 2, y - 2, item.w * view.kx + 4, item.h * view.ky + 4, { stroke: colours.accent, line: 3 });
  }
}
