// Draws the graph on a canvas and handles the pointer.
import { extent } from "./graph-data.js";
import { colours, drawTag, Labels, STANDS_OUT } from "./graph-looks.js";

const MANY_EDGES = 600;
const CROWD_OF_EDGES = 2_000;
const FEW_NODES = 60;
const FEW_OBSTACLES = 400;
const MAX_EDGE_LABELS = 40;
const MAX_HOVERED_EDGES = 200;
const EDGE_REACH_PX = 6;
const EDGE_WIDTH = 1.4;
const WIDER = 1.6;
const CHOSEN_WIDER = 0.8;
const MAX_EDGE_WIDTH = 5;
const TITLE_GAP_PX = 16;
const SLOW_FRAME_MS = 40;
const SLOW_FRAMES = 6;
const PAUSE_MS = 3_000;
const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export function canDraw() {
  const context = document.createElement("canvas").getContext("webgl2");
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return context !== null;
}

// Arrow heads that are seen on thin edges too. One program for all edges: each takes the browser a while to compile.
function arrows() {
  return Sigma.rendering.createEdgeArrowProgram({ extremity: "target", lengthToThicknessRatio: 5, widenessToThicknessRatio: 3.6 });
}

// A node without support is a ring.
function circles() {
  return Sigma.rendering.createNodeBorderProgram({
    borders: [{ size: { value: 0.16 }, color: { attribute: "rim" } }, { size: { fill: true }, color: { attribute: "color" } }],
  });
}

export class Picture {
  constructor(stage, graph, view) {
    this.graph = graph;
    this.view = view;
    this.stage = stage;
    this.tools = stage.parentElement.querySelectorAll(".legend, .stage-tools, .node-tools, .stage-foot");
    this.looks = colours();
    this.labels = new Labels(this.looks);
    this.onChoose = this.onChooseEdge = this.onOpen = this.onPathTo = () => {};
    [this.hovered, this.hoveredEdge, this.block] = [null, null, null];
    this.sigma = new Sigma(graph, stage, {
      nodeReducer: (id, node) => this.node(id, node),
      edgeReducer: (id, edge) => this.edge(id, edge),
      defaultNodeType: "circle",
      nodeProgramClasses: { circle: circles() },
      edgeProgramClasses: { arrow: arrows(), line: Sigma.rendering.EdgeLineProgram },
      defaultDrawNodeLabel: (_, data) => this.wantLabel(data),
      defaultDrawNodeHover: (context, data) => this.drawTag(context, data),
      labelFont: this.looks.letters,
      labelSize: 12,
      labelDensity: 1.2,
      labelGridCellSize: 90,
      labelRenderedSizeThreshold: 2,
      minCameraRatio: 0.01,
      maxCameraRatio: 4,
      stagePadding: 40,
      zIndex: true,
      allowInvalidContainer: true,
    });
    this.listen();
    this.watchFrames();
  }

  node(id, node) {
    const { view, looks } = this;
    if (!view.isSeen(id, node)) return { ...node, hidden: true };
    const isDimmed = view.isDimmed(id);
    const kind = view.kind(node.typeName);
    let color = view.colour === "age" ? looks.ages[view.age(node.touched)] : looks.kinds[kind];
    if (isDimmed) color = view.colour === "age" ? looks.dimmed : looks.dimmedKinds[kind];
    const style = { ...node, color: node.isUnsupported ? looks.ground : color, rim: node.isUnsupported ? color : looks.ground };
    if (id === view.chosen || id === view.pathTo) return { ...style, highlighted: true, forceLabel: true, rank: 1e6, zIndex: 3 };
    if (isDimmed) return { ...style, label: null, zIndex: 0 };
    const degree = this.graph.degree(id);
    if (view.standsOut(id)) return { ...style, forceLabel: true, isStrong: Boolean(view.matches?.has(id) || view.path?.nodes.has(id)), rank: STANDS_OUT + degree, zIndex: 2 };
    return { ...style, forceLabel: node.isHub || this.graph.order <= FEW_NODES, rank: degree, zIndex: 1 };
  }

  edge(id, edge) {
    const { view, looks, graph } = this;
    if (!view.isEdgeSeen(edge)) return { ...edge, hidden: true };
    const isMany = graph.size > MANY_EDGES;
    const isCrowd = graph.size > CROWD_OF_EDGES;
    if (this.isStrong(id)) return { ...edge, label: null, type: "arrow", color: looks.accent, size: edgeWidth(edge.sites) + CHOSEN_WIDER, zIndex: 2 };
    const [from, to] = graph.extremities(id);
    const isDimmed = view.isDimmed(from) || view.isDimmed(to) || (view.chosen && !view.inFocus && !view.matches);
    const color = isDimmed ? looks.dimmedLine : isCrowd ? looks.crowdedLine : isMany ? looks.fineLine : looks.line;
    // Thousands of arrow heads would cover each other, and take most of the time of a frame.
    return { ...edge, label: null, type: isCrowd ? "line" : "arrow", color, size: isMany ? 0.8 : edgeWidth(edge.sites), zIndex: isDimmed ? 0 : 1 };
  }

  isStrong(id) {
    const { view, graph } = this;
    if (view.path) return view.path.edges.has(id);
    return id === view.edge || Boolean(view.chosen && graph.hasExtremity(id, view.chosen));
  }

  wantLabel(data) {
    if (!data.label || data.highlighted) return;
    this.labels.want({ text: data.label, x: data.x, y: data.y, size: data.size, rank: data.rank ?? 0, isStrong: data.isStrong, isHub: data.isHub });
  }

  refresh() {
    this.sigma.refresh();
  }

  // After a change of places only.
  moved(block) {
    this.block = block;
    this.refresh();
  }

  finishFrame() {
    const { sigma, labels } = this;
    const context = sigma.getCanvases().labels.getContext("2d");
    if (!this.isMoving() || !sigma.getSetting("hideLabelsOnMove")) {
      this.drawHoveredEdges(context);
      this.obstacles().forEach((box) => labels.reserve(box));
      this.wantEdgeLabels();
      this.drawBlockTitle(context);
      labels.draw(context, this.frame());
    }
    labels.begin();
  }

  drawHoveredEdges(context) {
    if (!this.hovered && !this.hoveredEdge) return;
    const edges = this.hovered ? this.graph.edges(this.hovered).slice(0, MAX_HOVERED_EDGES) : [this.hoveredEdge];
    context.strokeStyle = this.looks.accent;
    context.lineWidth = 1.8;
    context.beginPath();
    for (const id of edges) {
      const ends = this.ends(id);
      if (!ends) continue;
      context.moveTo(ends[0].x, ends[0].y);
      context.lineTo(ends[1].x, ends[1].y);
    }
    context.stroke();
  }

  wantEdgeLabels() {
    const { view, graph } = this;
    let ids = [];
    if (this.hovered) ids = graph.edges(this.hovered);
    else if (this.hoveredEdge) ids = [this.hoveredEdge];
    else if (view.path) ids = [...view.path.edges];
    else if (view.edge) ids = [view.edge];
    else if (view.chosen) ids = graph.edges(view.chosen);
    if (ids.length > MAX_EDGE_LABELS) return;
    const named = new Map();
    for (const id of ids) {
      const ends = this.ends(id);
      if (!ends) continue;
      const pair = graph.extremities(id).sort().join(" ");
      const text = graph.getEdgeAttribute(id, "label");
      if (named.has(pair)) named.get(pair).text += `, ${text}`;
      else named.set(pair, { text, x: (ends[0].x + ends[1].x) / 2, y: (ends[0].y + ends[1].y) / 2, along: { x: ends[1].x - ends[0].x, y: ends[1].y - ends[0].y }, length: Math.hypot(ends[0].x - ends[1].x, ends[0].y - ends[1].y), rank: STANDS_OUT - 1, isEdge: true });
    }
    named.forEach((label) => this.labels.want(label));
  }

  // Tags are drawn before the other labels, which leave them room.
  drawTag(context, data) {
    // The library draws once before it is constructed.
    if (!this.sigma) return;
    const taken = [...this.labels.reserved, ...this.obstacles(data.key)];
    drawTag(context, data, this.looks, { isChosen: data.key === this.view.chosen, stage: this.frame(), taken }).forEach((box) => this.labels.reserve(box));
  }

  // The box of the stage.
  frame() {
    return { x: 0, y: 0, ...this.sigma.getDimensions() };
  }

  // What labels lie on only if they must: tools, and nodes unless there are many.
  obstacles(except = null) {
    const stage = this.stage.getBoundingClientRect();
    const boxes = [...this.tools].map((element) => element.getBoundingClientRect()).filter(({ width }) => width)
      .map(({ left, top, width, height }) => ({ x: left - stage.left, y: top - stage.top, width, height }));
    if (this.graph.order > FEW_OBSTACLES) return boxes;
    for (const id of this.graph.nodes()) {
      const node = this.sigma.getNodeDisplayData(id);
      if (!node || node.hidden || id === except || this.view.isDimmed(id)) continue;
      const { x, y } = this.sigma.framedGraphToViewport(node);
      const size = this.sigma.scaleSize(node.size) * 0.8;
      boxes.push({ x: x - size, y: y - size, width: 2 * size, height: 2 * size, isNode: true });
    }
    return boxes;
  }

  // Both ends of an edge on the stage; null if it is not seen.
  ends(id) {
    const { graph, view } = this;
    const nodes = graph.extremities(id);
    if (!view.isEdgeSeen(graph.getEdgeAttributes(id)) || !nodes.every((node) => view.isSeen(node))) return null;
    return nodes.map((node) => this.sigma.graphToViewport(graph.getNodeAttributes(node)));
  }

  drawBlockTitle(context) {
    if (!this.block || this.view.path || this.view.until) return;
    const { x, y, count } = this.block;
    const at = this.sigma.graphToViewport({ x, y });
    at.y -= TITLE_GAP_PX;
    const text = `${count.toLocaleString()} without edges`;
    context.font = `500 11px ${this.looks.letters}`;
    context.fillStyle = this.looks.soft;
    context.fillText(text, at.x, at.y);
    this.labels.reserve({ x: at.x, y: at.y - 11, width: context.measureText(text).width, height: 14 });
  }

  goTo(id) {
    const at = this.sigma.getNodeDisplayData(id);
    if (at) this.animate({ x: at.x, y: at.y, ratio: Math.min(this.sigma.getCamera().ratio, 1) });
  }

  zoom(by) {
    const camera = this.sigma.getCamera();
    this.animate({ ratio: camera.getBoundedRatio(camera.getState().ratio * by) });
  }

  // Shows these nodes as large as fits; all that are seen without any.
  fit(ids = this.view.seen()) {
    const { sigma, graph } = this;
    sigma.setCustomBBox(null);
    sigma.refresh();
    const box = extent(graph, ids);
    const at = (x, y) => sigma.viewportToFramedGraph(sigma.graphToViewport({ x, y }));
    const [low, high] = [at(box.left, box.bottom), at(box.right, box.top)];
    const room = this.room();
    // At ratio 1, this many pixels are one unit of the framed graph.
    const { width, height } = sigma.getDimensions();
    const unit = Math.min(width, height) - 2 * sigma.getStagePadding();
    const ratio = Math.max((Math.abs(high.x - low.x) * unit) / room.width, (Math.abs(high.y - low.y) * unit) / room.height, ids.length < 2 ? 0.6 : 0.08);
    const [aside, down] = [room.x + room.width / 2 - width / 2, room.y + room.height / 2 - height / 2];
    this.animate({ x: (low.x + high.x) / 2 - (aside * ratio) / unit, y: (low.y + high.y) / 2 + (down * ratio) / unit, ratio, angle: 0 });
  }

  // The part of the stage that nothing lies on, with room for the labels beside the outer nodes.
  room() {
    const { width, height } = this.sigma.getDimensions();
    const legend = document.getElementById("types").offsetWidth;
    const isBeside = legend < width / 3;
    const left = isBeside ? legend + 24 : 24;
    if (!isBeside) return { x: left, y: 56, width: Math.max(width - left - 64, 80), height: Math.max(height - 96, 80) };
    const top = this.view.chosen ? 72 : 32;
    return { x: left, y: top, width: Math.max(width - left - 88, 80), height: Math.max(height - top - 32, 80) };
  }

  animate(state) {
    const duration = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : 220;
    this.stage.dataset.moving = "yes";
    this.sigma.getCamera().animate(state, { duration, easing: "quadraticInOut" }, () => { this.stage.dataset.moving = "no"; });
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

  // The seen edge under the pointer, if any.
  edgeAt({ x, y }) {
    const { sigma, graph, view } = this;
    const at = sigma.viewportToGraph({ x, y });
    const beside = sigma.viewportToGraph({ x: x + EDGE_REACH_PX, y });
    const reach = Math.hypot(beside.x - at.x, beside.y - at.y);
    let [best, least] = [null, reach];
    graph.forEachEdge((id, edge, from, to, a, b) => {
      if (Math.min(a.x, b.x) - reach > at.x || Math.max(a.x, b.x) + reach < at.x || Math.min(a.y, b.y) - reach > at.y || Math.max(a.y, b.y) + reach < at.y) return;
      const distance = toSegment(at, a, b);
      if (distance < least && view.isEdgeSeen(edge) && view.isSeen(from, a) && view.isSeen(to, b)) [best, least] = [id, distance];
    });
    return best;
  }

  isMoving() {
    const mouse = this.sigma.getMouseCaptor();
    return this.sigma.getCamera().isAnimated() || mouse.isMoving || Boolean(mouse.draggedEvents) || Boolean(mouse.currentWheelDirection);
  }

  // Where frames take long, edges and labels are left out while the picture moves; without a graphics card from the start.
  watchFrames() {
    let [last, slow] = [0, this.graph.size > CROWD_OF_EDGES && this.isSoftware() ? SLOW_FRAMES : 0];
    this.sigma.on("afterRender", () => {
      const now = performance.now();
      // The slower a frame, the more it counts; a pause is no frame.
      const frames = last && now - last < PAUSE_MS ? (now - last) / SLOW_FRAME_MS : 0;
      if (this.isMoving()) slow = frames > 1 ? slow + Math.min(frames, 3) : Math.max(0, slow - 1);
      last = this.isMoving() ? now : 0;
      if (slow < SLOW_FRAMES || this.sigma.getSetting("hideEdgesOnMove")) return;
      this.sigma.setSetting("hideEdgesOnMove", true);
      this.sigma.setSetting("hideLabelsOnMove", true);
    });
  }

  isSoftware() {
    const context = this.sigma.getCanvases().nodes.getContext("webgl2");
    const names = context?.getExtension("WEBGL_debug_renderer_info");
    return Boolean(names) && /swiftshader|llvmpipe|software/i.test(context.getParameter(names.UNMASKED_RENDERER_WEBGL));
  }

  listen() {
    const { sigma } = this;
    sigma.on("afterRender", () => this.finishFrame());
    sigma.on("clickNode", ({ node, event }) => {
      if (this.hasDragged) return;
      if (event.original.shiftKey) this.onPathTo(node);
      else this.onChoose(node);
    });
    sigma.on("clickStage", ({ event }) => {
      const edge = this.edgeAt(event);
      if (edge) this.onChooseEdge(edge);
      else this.onChoose(null);
    });
    sigma.on("doubleClickNode", ({ node, preventSigmaDefault }) => { preventSigmaDefault(); this.onOpen(node); });
    sigma.on("enterNode", ({ node }) => this.hover(node, null));
    sigma.on("leaveNode", () => this.hover(null, null));
    sigma.on("moveBody", ({ event }) => {
      if (this.held) this.drag(event);
      else if (!this.hovered && !this.isMoving()) this.hover(null, this.edgeAt(event));
    });
    this.listenToDragging();
    const repaint = () => {
      this.looks = this.labels.looks = colours();
      sigma.refresh();
    };
    document.addEventListener("vigil:theme", repaint);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    new ResizeObserver(() => { sigma.resize(); sigma.refresh(); }).observe(this.stage);
  }

  hover(node, edge) {
    if (node === this.hovered && edge === this.hoveredEdge) return;
    [this.hovered, this.hoveredEdge] = [node, edge];
    this.stage.classList.toggle("over", Boolean(node ?? edge));
    this.sigma.scheduleRender();
  }

  // A node that was dragged stays where it was put.
  listenToDragging() {
    const { sigma } = this;
    [this.held, this.hasDragged] = [null, false];
    sigma.on("downNode", ({ node }) => { [this.held, this.hasDragged] = [node, false]; });
    const letGo = () => { this.held = null; };
    sigma.on("upNode", letGo);
    sigma.on("upStage", letGo);
  }

  drag(event) {
    const { sigma } = this;
    this.hasDragged = true;
    if (!sigma.getCustomBBox()) sigma.setCustomBBox(sigma.getBBox());
    this.graph.mergeNodeAttributes(this.held, { ...sigma.viewportToGraph(event), fixed: true });
    event.preventSigmaDefault();
    event.original.preventDefault();
  }
}

// The more sites support an edge, the wider it is; without a count it is as wide as with one.
export function edgeWidth(sites) {
  return Math.min(MAX_EDGE_WIDTH, EDGE_WIDTH + WIDER * Math.log2(Math.max(1, sites ?? 1)));
}

function toSegment(at, a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const share = Math.max(0, Math.min(1, ((at.x - a.x) * dx + (at.y - a.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(at.x - a.x - share * dx, at.y - a.y - share * dy);
}
