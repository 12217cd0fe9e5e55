// Draws the graph on a canvas and handles the pointer.
import { colours, drawHover, drawLabel } from "./graph-looks.js";

const MANY_EDGES = 1_000;
const FEW_NODES = 60;
const FEW_NEIGHBOURS = 30;
const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function canDraw() {
  const context = document.createElement("canvas").getContext("webgl2");
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return context !== null;
}

export class Picture {
  constructor(stage, graph, view) {
    this.graph = graph;
    this.view = view;
    this.looks = colours();
    this.onChoose = this.onUnfold = this.onPin = () => {};
    this.sigma = new Sigma(graph, stage, {
      nodeReducer: (id, node) => this.node(id, node),
      edgeReducer: (id, edge) => this.edge(id, edge),
      defaultDrawNodeLabel: (context, data, settings) => drawLabel(context, data, settings, this.looks),
      defaultDrawNodeHover: (context, data, settings) => drawHover(context, data, settings, this.looks),
      labelFont: this.looks.letters,
      labelSize: 12,
      labelDensity: 0.6,
      labelGridCellSize: 110,
      labelRenderedSizeThreshold: 2,
      edgeLabelFont: this.looks.letters,
      edgeLabelSize: 11,
      edgeLabelColor: { color: this.looks.soft },
      renderEdgeLabels: true,
      hideEdgesOnMove: graph.size > MANY_EDGES,
      hideLabelsOnMove: graph.size > MANY_EDGES,
      minCameraRatio: 0.02,
      maxCameraRatio: 4,
      stagePadding: 50,
      zIndex: true,
      allowInvalidContainer: true,
    });
    this.stage = stage;
    this.listen();
  }

  node(id, node) {
    const { view, looks } = this;
    if (!view.isSeen(id, node)) return { ...node, hidden: true };
    const color = view.colour === "age" ? looks.ages[view.age(node.touched)] : looks.kinds[view.kind(node.typeName)];
    const style = { ...node, color: node.isUnsupported ? looks.faded : color };
    if (id === view.chosen) return { ...style, highlighted: true, forceLabel: true, zIndex: 3 };
    if (view.near.has(id)) return { ...style, forceLabel: view.near.size <= FEW_NEIGHBOURS, zIndex: 2 };
    return view.chosen ? { ...style, color: looks.faded, label: null, zIndex: 0 } : { ...style, forceLabel: this.graph.order <= FEW_NODES, zIndex: 1 };
  }

  edge(id, edge) {
    const { view, looks, graph } = this;
    const type = graph.size > MANY_EDGES ? "line" : "arrow";
    const isHere = view.chosen && graph.hasExtremity(id, view.chosen);
    if (isHere) return { ...edge, type, color: looks.accent, size: 2, label: edge.typeName, forceLabel: view.near.size <= FEW_NEIGHBOURS, zIndex: 2 };
    return { ...edge, type, color: view.chosen ? looks.fadedLine : looks.line, size: 1, label: null, zIndex: 0 };
  }

  refresh() {
    this.sigma.setSetting("hideEdgesOnMove", this.graph.size > MANY_EDGES);
    this.sigma.setSetting("hideLabelsOnMove", this.graph.size > MANY_EDGES);
    this.sigma.refresh();
  }

  goTo(id) {
    const at = this.sigma.getNodeDisplayData(id);
    if (!at) return;
    this.stage.dataset.moving = "yes";
    this.sigma.getCamera().animate({ x: at.x, y: at.y }, { duration: this.duration() }, () => { this.stage.dataset.moving = "no"; });
  }

  zoom(by) {
    const camera = this.sigma.getCamera();
    camera.animate({ ratio: camera.getBoundedRatio(camera.getState().ratio * by) }, { duration: this.duration() });
  }

  fit() {
    this.sigma.setCustomBBox(null);
    this.sigma.refresh();
    this.sigma.getCamera().animatedReset({ duration: this.duration() });
  }

  duration() {
    return matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : 200;
  }

  // The neighbour that is closest to the direction of `key`.
  neighbour(id, key) {
    const [dx, dy] = DIRECTIONS[key];
    const from = this.sigma.graphToViewport(this.graph.getNodeAttributes(id));
    let [best, least] = [null, Infinity];
    for (const other of this.graph.neighbors(id)) {
      const node = this.graph.getNodeAttributes(other);
      if (other === id || !this.view.isSeen(other, node)) continue;
      const to = this.sigma.graphToViewport(node);
      const [x, y] = [to.x - from.x, to.y - from.y];
      const along = x * dx + y * dy;
      const cost = along > 0 ? Math.hypot(x, y) + 2 * Math.abs(x * dy - y * dx) : Infinity;
      if (cost < least) [best, least] = [other, cost];
    }
    return best;
  }

  listen() {
    const { sigma } = this;
    let [held, hasMoved] = [null, false];
    sigma.on("clickNode", ({ node }) => { if (!hasMoved) this.onChoose(node); });
    sigma.on("clickStage", () => this.onChoose(null));
    sigma.on("doubleClickNode", ({ node, preventSigmaDefault }) => { preventSigmaDefault(); this.onUnfold(node); });
    sigma.on("downNode", ({ node }) => { [held, hasMoved] = [node, false]; });
    sigma.on("moveBody", ({ event }) => {
      if (!held) return;
      hasMoved = true;
      if (!sigma.getCustomBBox()) sigma.setCustomBBox(sigma.getBBox());
      this.graph.mergeNodeAttributes(held, { ...sigma.viewportToGraph(event), fixed: true });
      event.preventSigmaDefault();
      event.original.preventDefault();
    });
    const letGo = () => { if (held && hasMoved) this.onPin(held); held = null; };
    sigma.on("upNode", letGo);
    sigma.on("upStage", letGo);
    const repaint = () => {
      this.looks = colours();
      sigma.setSetting("edgeLabelColor", { color: this.looks.soft });
      sigma.refresh();
    };
    document.addEventListener("vigil:theme", repaint);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  }
}
