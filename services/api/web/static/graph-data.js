// The nodes and edges of the picture, loaded from the API in parts.
export const MAX_DRAWN = 6_000;
const SPREAD = 100;
const NEIGHBOUR_SPREAD = 0.02;
const MAX_LABEL_CHARS = 48;
const MS = 1000;

export class Drawing {
  constructor(agent) {
    this.agent = agent;
    this.graph = new graphology.MultiDirectedGraph({ allowSelfLoops: false });
  }

  // Adds new nodes and edges. New nodes are placed next to `neighbour`. Returns the ids of the answer, known or new.
  async bring(query, neighbour = null) {
    return this.add(await this.ask(`graph/data?${query}`), neighbour);
  }

  async bringPaths(from, to) {
    const answer = await this.ask(`graph/paths?${new URLSearchParams({ from, to })}`);
    const added = this.add(answer, from);
    return { ...added, paths: answer.paths.map((path) => path.map((place) => added.ids[place])) };
  }

  add(answer, neighbour) {
    const ids = answer.names.map((_, place) => uuid(answer.ids, place));
    const fresh = ids.map((_, place) => place).filter((place) => !this.graph.hasNode(ids[place]));
    const places = fresh.slice(0, Math.max(0, MAX_DRAWN - this.graph.order));
    const at = this.beside(neighbour);
    const unsupported = new Set(answer.unsupported);
    for (const place of places) this.addNode(answer, ids[place], place, unsupported.has(place), at);
    let edges = 0;
    for (let place = 0; place < answer.from.length; place += 1) edges += this.addEdge(answer, ids, place);
    this.size();
    return { ids, nodes: places.length, edges, isCut: answer.cut, isFull: places.length < fresh.length };
  }

  // Answers what the API has for `query`, without adding it.
  async ask(query) {
    const answer = await fetch(`/agents/${this.agent}/${query}`, { headers: { Accept: "application/json" } })
      .catch(() => { throw new Error("Vigil cannot be reached. Try again in a moment."); });
    if (answer.status === 404) throw new Error("This node no longer exists.");
    if (!answer.ok || answer.redirected) throw new Error(`Vigil could not answer (${answer.status}). Try again in a moment.`);
    return answer.json();
  }

  addNode(answer, id, place, isUnsupported, at) {
    const [x, y] = scatter(id);
    const name = answer.names[place];
    const created = answer.since + answer.created[place] * MS;
    this.graph.addNode(id, {
      x: at ? at.x + x * at.spread : x * SPREAD,
      y: at ? at.y + y * at.spread : y * SPREAD,
      name,
      label: label(name),
      typeName: answer.types[answer.kinds[place]],
      created,
      touched: created + answer.touched[place] * MS,
      isUnsupported,
      fixed: false,
    });
  }

  // Two nodes have at most one edge of each type and direction. Returns 1 for a new edge.
  addEdge(answer, ids, place) {
    const { graph } = this;
    const [source, target] = [ids[answer.from[place]], ids[answer.to[place]]];
    const typeName = answer.types[answer.via[place]];
    const key = edgeKey(source, typeName, target);
    if (source === target || graph.hasEdge(key) || !graph.hasNode(source) || !graph.hasNode(target)) return 0;
    const ends = Math.max(graph.getNodeAttribute(source, "created"), graph.getNodeAttribute(target, "created"));
    graph.addDirectedEdgeWithKey(key, source, target, { typeName, label: label(typeName), created: ends + answer.later[place] * MS });
    return 1;
  }

  beside(neighbour) {
    if (!neighbour || !this.graph.hasNode(neighbour)) return null;
    const { x, y } = this.graph.getNodeAttributes(neighbour);
    const { width } = extent(this.graph);
    return { x, y, spread: Math.max(width * NEIGHBOUR_SPREAD, 1) };
  }

  // A node's size grows with its number of edges, and shrinks with the number of nodes.
  size() {
    const { graph } = this;
    const scale = Math.max(0.3, Math.min(1, 12 / Math.sqrt(graph.order || 1)));
    graph.updateEachNodeAttributes((id, node) => ({ ...node, size: Math.max(2.2, scale * Math.min(18, 5 + 1.8 * Math.sqrt(graph.degree(id)))) }));
  }
}

export function edgeKey(source, typeName, target) {
  return `${source} ${typeName} ${target}`;
}

// The box around the nodes, or around some of them.
export function extent(graph, ids = graph.nodes()) {
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const id of ids) {
    const { x, y } = graph.getNodeAttributes(id);
    [left, right, bottom, top] = [Math.min(left, x), Math.max(right, x), Math.min(bottom, y), Math.max(top, y)];
  }
  return Number.isFinite(left) ? { left, right, bottom, top, width: right - left, height: top - bottom } : { left: 0, right: 0, bottom: 0, top: 0, width: 0, height: 0 };
}

function uuid(digits, place) {
  const hex = digits.slice(place * 32, place * 32 + 32);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

// A point of the unit disc that depends on the id alone, so that the same graph starts with the same layout.
function scatter(id) {
  let seed = 2166136261;
  for (const letter of id) seed = Math.imul(seed ^ letter.charCodeAt(0), 16777619);
  const turn = ((seed >>> 16) / 65536) * 2 * Math.PI;
  const far = Math.sqrt((seed & 0xffff) / 65536);
  return [Math.cos(turn) * far, Math.sin(turn) * far];
}

// Names come from web pages: removes characters that would reverse or hide the text around them.
export function label(name) {
  const plain = name.replace(/\p{C}+/gu, " ").trim();
  const letters = [...plain];
  return letters.length > MAX_LABEL_CHARS ? `${letters.slice(0, MAX_LABEL_CHARS - 1).join("").trimEnd()}…` : plain;
}
