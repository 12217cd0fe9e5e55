// Has the worker arrange the nodes that are seen, and applies what it answers.
const SHOWN_EVERY_MS = 250;
const SHOWN_EVERY_MS_OF_MANY = 900;
const MANY_NODES = 1_000;

export class Layout {
  constructor(graph, source, { onMove, onSettled }) {
    this.graph = graph;
    this.onMove = onMove;
    this.onSettled = onSettled;
    this.run = 0;
    this.ids = [];
    this.block = null;
    this.shownAt = 0;
    this.worker = new Worker(source);
    this.worker.addEventListener("message", ({ data }) => { if (data.run === this.run) this.apply(data); });
    this.worker.addEventListener("error", () => this.onSettled());
  }

  // Arranges these nodes for a stage of that size, anew or from where they are.
  settle(ids, stage, isFresh = true) {
    const { graph } = this;
    this.run += 1;
    this.ids = ids;
    if (!ids.length) { this.onSettled(); return; }
    const index = new Map(ids.map((id, place) => [id, place]));
    const places = new Float32Array(2 * ids.length);
    const [sizes, fixed, kinds] = [new Float32Array(ids.length), new Uint8Array(ids.length), new Uint16Array(ids.length)];
    const kindOf = new Map();
    ids.forEach((id, place) => {
      const node = graph.getNodeAttributes(id);
      places.set([node.x, node.y], 2 * place);
      sizes[place] = node.size;
      fixed[place] = node.fixed ? 1 : 0;
      if (!kindOf.has(node.typeName)) kindOf.set(node.typeName, kindOf.size);
      kinds[place] = kindOf.get(node.typeName);
    });
    const ends = [];
    graph.forEachEdge((_, __, from, to) => { if (index.has(from) && index.has(to)) ends.push(index.get(from), index.get(to)); });
    const many = ids.length > 2_000 ? 150 : ids.length > 300 ? 300 : 600;
    const message = { run: this.run, places, sizes, kinds, fixed, edges: Uint32Array.from(ends), rounds: isFresh ? many : Math.round(many / 4), stage, isFresh };
    this.shownAt = performance.now();
    this.worker.postMessage(message);
  }

  apply({ places, block, isDone }) {
    const every = this.ids.length > MANY_NODES ? SHOWN_EVERY_MS_OF_MANY : SHOWN_EVERY_MS;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!isDone && (isStill || performance.now() - this.shownAt < every)) return;
    this.shownAt = performance.now();
    const index = new Map(this.ids.map((id, place) => [id, place]));
    this.graph.updateEachNodeAttributes((id, node) => {
      const place = index.get(id);
      if (place === undefined || node.fixed) return node;
      node.x = places[2 * place];
      node.y = places[2 * place + 1];
      return node;
    }, { attributes: ["x", "y"] });
    this.block = block;
    this.onMove(isDone);
    if (isDone) this.onSettled();
  }
}
