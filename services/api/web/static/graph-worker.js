// Arranges the nodes, outside of the page's thread: forces for those with edges, a block of rows for those without.
// The library's readers of XML files name them when they load; neither is used.
self.DOMParser ??= class {};
self.Document ??= class {};
importScripts("graphology.umd.min.js", "graphology-library.min.js");

const BATCH_MS = 150;
const FORCES_MS = 7_000;
const MANY_NODES = 400;
const NOVERLAP_NODES = 1_500;
const STAGE_PX = 900;
const BLOCK_GAP = 0.06;
const BLOCK_GAP_PX = 64;
let current = 0;

onmessage = ({ data }) => {
  current = data.run;
  const work = new Work(data);
  const step = () => {
    if (current !== data.run) return;
    const isDone = work.advance();
    const positions = work.positions();
    postMessage({ run: data.run, ...positions, isDone }, [positions.places.buffer]);
    if (!isDone) setTimeout(step);
  };
  step();
};

class Work {
  constructor({ places, sizes, kinds, fixed, edges, rounds, stage, isFresh }) {
    Object.assign(this, { places, sizes, kinds, stage, left: rounds, perBatch: 4 });
    this.graph = new graphology.UndirectedGraph();
    this.orphans = [];
    const degrees = new Uint32Array(sizes.length);
    for (const end of edges) degrees[end] += 1;
    for (let node = 0; node < sizes.length; node += 1) {
      if (!degrees[node]) this.orphans.push(node);
      else this.graph.addNode(node, { x: places[2 * node], y: places[2 * node + 1], size: sizes[node], fixed: fixed[node] === 1 });
    }
    for (let edge = 0; edge < edges.length; edge += 2) this.graph.mergeEdge(edges[edge], edges[edge + 1]);
    if (isFresh && this.graph.order > MANY_NODES) this.gather();
    this.until = performance.now() + FORCES_MS;
  }

  // One batch of rounds; true when the layout is settled.
  advance() {
    const { graph } = this;
    const startedMs = performance.now();
    if (this.left > 0 && graph.order > 1) {
      const iterations = Math.min(this.left, this.perBatch);
      graphologyLibrary.layoutForceAtlas2.assign(graph, { iterations, settings: this.settings() });
      this.left -= iterations;
      this.perBatch = Math.max(1, Math.min(50, Math.round((iterations * BATCH_MS) / Math.max(1, performance.now() - startedMs))));
      if (this.left > 0 && performance.now() < this.until) return false;
    }
    this.separate();
    return true;
  }

  settings() {
    const { order } = this.graph;
    const isMany = order > MANY_NODES;
    return {
      ...graphologyLibrary.layoutForceAtlas2.inferSettings(order),
      barnesHutOptimize: isMany,
      barnesHutTheta: 0.8,
      strongGravityMode: true,
      gravity: isMany ? 0.02 : 0.15,
      scalingRatio: 10,
    };
  }

  // Many nodes begin beside those that they have most edges with: forces alone take long to sort them.
  gather() {
    const { graph } = this;
    const communities = graphologyLibrary.communitiesLouvain(graph, { rng: seeded() });
    const map = new graphology.UndirectedGraph();
    for (const name of Object.values(communities)) map.mergeNode(name);
    map.forEachNode((name) => {
      const turn = (2 * Math.PI * Number(name)) / map.order;
      map.mergeNodeAttributes(name, { x: Math.cos(turn), y: Math.sin(turn), size: 1 });
    });
    graph.forEachEdge((_, __, from, to) => {
      const [a, b] = [communities[from], communities[to]];
      if (a !== b) map.updateEdge(a, b, ({ weight = 0 }) => ({ weight: weight + 1 }));
    });
    graphologyLibrary.layoutForceAtlas2.assign(map, { iterations: 300, settings: { gravity: 0.05, strongGravityMode: true, scalingRatio: 10, edgeWeightInfluence: 0.5 } });
    const far = 12 * Math.sqrt(graph.order / map.order);
    graph.updateEachNodeAttributes((node, attributes) => {
      const at = map.getNodeAttributes(communities[node]);
      return { ...attributes, x: at.x * far + attributes.x * far * 0.02, y: at.y * far + attributes.y * far * 0.02 };
    });
  }

  // Moves nodes apart that would be drawn on top of each other.
  separate() {
    const { graph } = this;
    if (graph.order < 2 || graph.order > NOVERLAP_NODES) return;
    const box = this.box();
    const unit = Math.max(box.right - box.left, box.top - box.bottom) / STAGE_PX || 1;
    graphologyLibrary.layoutNoverlap.assign(graph, {
      maxIterations: 150,
      inputReducer: (_, node) => ({ ...node, size: node.size * unit }),
      settings: { margin: (graph.order < 200 ? 16 : 4) * unit, ratio: 1.2, expansion: 1.15 },
    });
  }

  box() {
    let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
    this.graph.forEachNode((_, { x, y }) => {
      [left, right, bottom, top] = [Math.min(left, x), Math.max(right, x), Math.min(bottom, y), Math.max(top, y)];
    });
    return { left, right, bottom, top };
  }

  positions() {
    const places = new Float32Array(this.places);
    this.graph.forEachNode((node, { x, y }) => {
      places[2 * node] = x;
      places[2 * node + 1] = y;
    });
    return { places, block: this.orphans.length ? this.putOrphans(places) : null };
  }

  // Rows below the other nodes, as wide as these, sorted by type.
  putOrphans(places) {
    const orphans = [...this.orphans].sort((a, b) => this.kinds[a] - this.kinds[b] || a - b);
    const box = this.box();
    const isAlone = !Number.isFinite(box.left);
    const width = isAlone ? (100 * this.stage.width) / this.stage.height : Math.max(box.right - box.left, 1);
    const height = isAlone ? 100 : Math.max(box.top - box.bottom, 1);
    // Room for the labels of the nodes above, and for the title of the block.
    const gap = Math.max(Math.max(width, height) * BLOCK_GAP, Math.max(width / this.stage.width, height / this.stage.height) * BLOCK_GAP_PX);
    const [left, top] = isAlone ? [0, 0] : [box.left, box.bottom - gap];
    // Few nodes have room for their names beside them.
    const stretch = orphans.length <= 60 ? 3.2 : 1;
    const columns = this.columns(orphans.length, width, height, stretch, isAlone);
    const [across, down] = [width / Math.max(columns, 1), width / Math.max(columns, 1) / stretch];
    orphans.forEach((node, place) => {
      places[2 * node] = left + across * ((place % columns) + 0.5 * (isAlone ? 1 : 0));
      places[2 * node + 1] = top - down * Math.floor(place / columns);
    });
    return { x: left, y: top, count: orphans.length };
  }

  columns(count, width, height, stretch, isAlone) {
    if (isAlone) return Math.max(1, Math.round(Math.sqrt((count * width) / height / stretch)));
    // At most a quarter as high as what stands above, and no wider spaced than a thirtieth of it.
    const least = Math.sqrt((count * width) / (height / 4) / stretch);
    return Math.max(1, Math.ceil(Math.max(least, stretch > 1 ? 4 : 40)));
  }
}

// Random numbers that are the same each time, so that the same graph gets the same layout.
function seeded() {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
