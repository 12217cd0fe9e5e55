// The nodes and edges of the picture, loaded from the API in parts.
export const MAX_DRAWN = 3_000;
const SPREAD = 100;
const NEIGHBOUR_SPREAD = 8;
const MAX_LABEL_CHARS = 48;

export class Drawing {
  constructor(agent) {
    this.agent = agent;
    this.graph = new graphology.MultiDirectedGraph();
    this.first = null;
  }

  // Adds new nodes and edges. New nodes are placed next to `neighbour`.
  async bring(query, neighbour = null) {
    const layout = await this.ask(query);
    const room = MAX_DRAWN - this.graph.order;
    const fresh = layout.nodes.filter(([id]) => !this.graph.hasNode(id));
    const nodes = fresh.slice(0, Math.max(0, room));
    const at = neighbour && this.graph.hasNode(neighbour) ? this.graph.getNodeAttributes(neighbour) : null;
    for (const node of nodes) this.addNode(node, layout.types, at);
    const edges = layout.edges.filter((edge) => this.addEdge(edge, layout)).length;
    this.first ??= layout.nodes[0]?.[0] ?? null;
    this.size();
    return { nodes: nodes.length, edges, isCut: layout.cut, isFull: nodes.length < fresh.length };
  }

  async ask(query) {
    const answer = await fetch(`/agents/${this.agent}/graph/data?${query}`, { headers: { Accept: "application/json" } })
      .catch(() => { throw new Error("Vigil is not reached. Try again in a moment."); });
    if (answer.status === 404) throw new Error("There is no such node.");
    if (!answer.ok || answer.redirected) throw new Error(`Vigil could not answer this (${answer.status}). Try again in a moment.`);
    return answer.json();
  }

  addNode([id, type, name, touched, isUnsupported], types, at) {
    const [x, y] = place(id);
    this.graph.addNode(id, {
      x: at ? at.x + (x / SPREAD) * NEIGHBOUR_SPREAD : x,
      y: at ? at.y + (y / SPREAD) * NEIGHBOUR_SPREAD : y,
      name,
      label: label(name),
      typeName: types[type],
      touched,
      isUnsupported: isUnsupported === 1,
      fixed: false,
    });
  }

  // Two nodes have at most one edge of each type and direction.
  addEdge([from, to, type], { nodes, types }) {
    const { graph } = this;
    const [[source], [target]] = [nodes[from], nodes[to]];
    const key = `${source} ${types[type]} ${target}`;
    if (graph.hasEdge(key) || !graph.hasNode(source) || !graph.hasNode(target)) return false;
    graph.addDirectedEdgeWithKey(key, source, target, { typeName: label(types[type]) });
    return true;
  }

  // A node's size grows with its number of edges, and shrinks with the number of nodes.
  size() {
    const { graph } = this;
    const scale = Math.max(0.45, Math.min(1, 18 / Math.sqrt(graph.order || 1)));
    const sized = (id, node) => ({ ...node, size: scale * Math.min(16, 3.5 + 1.6 * Math.sqrt(graph.degree(id))) });
    graph.updateEachNodeAttributes(sized, { attributes: ["size"] });
  }
}

// Computed from the id, so that the same graph starts with the same layout.
function place(id) {
  let seed = 2166136261;
  for (const letter of id) seed = Math.imul(seed ^ letter.charCodeAt(0), 16777619);
  const turn = ((seed >>> 16) / 65536) * 2 * Math.PI;
  const far = Math.sqrt((seed & 0xffff) / 65536) * SPREAD;
  return [Math.cos(turn) * far, Math.sin(turn) * far];
}

// Names come from web pages: removes characters that would reverse or hide the text around them.
export function label(name) {
  const plain = name.replace(/\p{C}+/gu, " ").trim();
  const letters = [...plain];
  return letters.length > MAX_LABEL_CHARS ? `${letters.slice(0, MAX_LABEL_CHARS - 1).join("")}…` : plain;
}
