// A worker: places of nodes by dagre, with the frames of unfolded blocks around them.
import dagre from "./vendor/dagre.js";

const TITLE = 14;
const withTitle = (frame) => ({ ...frame, y: frame.y - TITLE, h: frame.h + TITLE });

onmessage = ({ data: { turn, nodes, frames, edges } }) => {
  const graph = new dagre.graphlib.Graph({ compound: frames.length > 0 });
  graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 30, marginx: 8, marginy: 8, ranker: nodes.length > 60 ? "tight-tree" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, w, h } of nodes) graph.setNode(String(id), { width: w, height: h });
  for (const { id } of frames) graph.setNode(String(id), {});
  for (const { id, parent } of [...nodes, ...frames]) if (parent >= 0) graph.setParent(String(id), String(parent));
  for (const { from, to } of edges) graph.setEdge(String(from), String(to));
  dagre.layout(graph);
  const place = (id, more) => {
    const { x, y, width, height } = graph.node(String(id));
    return { id, x: x - width / 2, y: y - height / 2, w: width, h: height, ...more };
  };
  postMessage({
    turn,
    items: [...frames.map(({ id }) => withTitle(place(id, { frame: true }))), ...nodes.map(({ id }) => place(id))],
    edges: edges.map((edge) => ({ ...edge, points: graph.edge(String(edge.from), String(edge.to)).points })),
  });
};
