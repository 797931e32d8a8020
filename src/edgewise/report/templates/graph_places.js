// Places of nodes that follow from their order or their times alone.
const CELL = { w: 128, h: 40 };
const GAP = 8;
const LEVEL = 44;
const LENGTH = 1200;

// Nodes in the order of execution, row after row like words.
export function lane(ids, ratio) {
  const columns = Math.max(1, Math.round(Math.sqrt((ids.length * ratio * (CELL.h + GAP)) / (CELL.w + GAP))));
  const place = (index) => ({ x: (index % columns) * (CELL.w + GAP), y: Math.floor(index / columns) * (CELL.h + GAP) });
  return { items: ids.map((id, index) => ({ id, ...place(index), ...CELL })), edges: [] };
}

// Blocks as levels over their layers, as wide as their time: one after the other, or where the profiler saw them begin.
export function flame(tree, times, starts) {
  const items = [];
  let last = [];
  let at = 0;
  for (let node = 0; node < tree.count; node += 1) {
    const time = times[node];
    const begin = starts ? starts[node] : at;
    if (time === null || time <= 0 || begin === null || begin === undefined) continue;
    at = begin + time;
    const path = [...tree.above(node), node];
    const shown = path.findIndex((id) => tree.isBlock(id) && !tree.isOpen(id));
    if (shown >= 0) path.length = shown + 1;
    const same = path.findIndex((id, level) => last[level]?.id !== id);
    last.length = same < 0 ? path.length : same;
    last.forEach((item) => Object.assign(item, { end: at, time: item.time + time }));
    for (const id of path.slice(last.length)) {
      const item = { id, begin, end: at, time, level: last.length };
      last.push(item);
      items.push(item);
    }
  }
  // A block that others interrupt has several pieces; each tells its own time.
  const pieces = new Map();
  for (const { id } of items) pieces.set(id, (pieces.get(id) ?? 0) + 1);
  for (const item of items) if (pieces.get(item.id) > 1) item.piece = item.time;
  const whole = Math.max(...items.map((item) => item.end), 1e-12);
  for (const item of items) {
    Object.assign(item, { x: (item.begin / whole) * LENGTH, w: ((item.end - item.begin) / whole) * LENGTH, y: item.level * LEVEL, h: LEVEL - 2 });
  }
  return { items, edges: [], wide: true };
}
