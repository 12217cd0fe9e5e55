// The graph explorer: the address selects what is shown; the user looks around from there.
import { Drawing, edgeKey, MAX_DRAWN } from "./graph-data.js";
import { Layout } from "./graph-layout.js";
import { List, plural } from "./graph-list.js";
import { canDraw, Picture } from "./graph-picture.js";
import { Search } from "./graph-search.js";
import { Side } from "./graph-side.js";
import { Timeline } from "./graph-time.js";
import { View } from "./graph-view.js";

const NEIGHBOURS = "200";
const NEWEST = "100";
const SEARCHED = "50";
const SUGGESTED = 8;

class Explorer {
  constructor(root) {
    this.root = root;
    this.stage = document.getElementById("stage");
    this.message = document.getElementById("stage-status");
    this.drawing = new Drawing(root.dataset.agent);
    this.graph = this.drawing.graph;
    this.view = new View(root, this.graph);
    const toNode = (id) => this.goTo(id);
    const toEdge = (key) => this.chooseEdge(key);
    this.layout = new Layout(this.graph, root.dataset.worker, { onMove: () => this.moved(), onSettled: () => this.settled() });
    this.list = new List(this.graph, this.view, { onChoose: toNode, onChooseEdge: toEdge });
    this.side = new Side(root.dataset.agent, { onNode: toNode, onEdge: (id) => this.openEdge(id) });
    this.timeline = new Timeline(this.graph, this.view, () => this.refresh());
    this.search = new Search(this.drawing, this.view, { onChange: (hasGrown) => this.searched(hasGrown), onChoose: toNode });
    this.picture = null;
    this.isPickingPath = false;
    this.listen();
  }

  // Loads what the address names, then draws it.
  async begin() {
    const { view } = this;
    const { chosen, edgeId, focus, pathTo, words } = view;
    await this.bring(view.entry());
    if (chosen) await this.bring(new URLSearchParams({ node: chosen, depth: String(focus || 1), limit: NEIGHBOURS }), null);
    if (words) await this.bring(new URLSearchParams({ search: words, limit: SEARCHED }), null);
    await pause();
    this.timeline.refresh();
    this.side.suggest(this.graph, this.list.ordered().slice(0, SUGGESTED));
    if (words) { this.search.input.value = words; this.search.look(); }
    if (chosen) this.choose(this.graph.hasNode(chosen) ? chosen : null, {});
    if (view.chosen && focus) view.setFocus(focus);
    if (view.chosen && pathTo) await this.followPaths(pathTo);
    else if (edgeId) await this.openEdge(edgeId);
    await pause();
    this.draw();
    await pause();
    this.refresh();
  }

  draw() {
    try {
      this.picture = new Picture(this.stage, this.graph, this.view);
    } catch (error) {
      // To ask first would take as long as to begin.
      if (canDraw()) throw error;
      this.stage.replaceChildren();
      this.stage.dataset.state = "none";
      this.tell("This browser does not support WebGL, so the graph cannot be drawn. The table below lists the same nodes and edges.");
      document.getElementById("listed").open = true;
      return;
    }
    Object.assign(this.picture, {
      onChoose: (id) => (this.isPickingPath && id ? this.followPaths(id) : this.choose(id, {})),
      onChooseEdge: (key) => this.chooseEdge(key),
      onOpen: (id) => this.unfold(id),
      onPathTo: (id) => this.followPaths(id),
    });
    this.arrange();
  }

  arrange(isFresh = true) {
    if (!this.picture) return;
    this.stage.dataset.state = "moving";
    this.isFresh = isFresh;
    const { clientWidth, clientHeight } = this.stage;
    this.layout.settle(this.view.seen(), clientWidth / Math.max(clientHeight, 1), isFresh);
  }

  moved() {
    this.picture?.moved(this.layout.block);
  }

  settled() {
    this.stage.dataset.state = "settled";
    if (this.message.dataset.kind === "busy") this.tell("");
    if (this.view.path) this.picture?.fit([...this.view.path.nodes]);
    else if (this.isFresh) this.picture?.fit();
    this.isFresh = false;
  }

  // Adds the result of `query`, unless the picture is full. Returns how much came.
  async bring(query, neighbour = null) {
    this.tell("Loading…", "busy");
    try {
      const added = await this.drawing.bring(query, neighbour);
      this.tell(added.isFull ? `The graph view is full at ${MAX_DRAWN.toLocaleString()} nodes. Show fewer nodes under Display.` : "Arranging…", added.isFull ? "" : "busy");
      return added.nodes + added.edges;
    } catch (error) {
      this.tell(error.message);
      return 0;
    }
  }

  async unfold(id) {
    if (!id) return;
    if (await this.bring(new URLSearchParams({ node: id, limit: NEIGHBOURS }), id)) this.grown();
    else this.tell("All its neighbours are already shown.");
    this.choose(id, {});
  }

  // Nodes came: they get places, and the time slider their times.
  grown() {
    this.timeline.refresh();
    this.view.setFocus(this.view.focus);
    this.arrange(false);
  }

  async goTo(id) {
    if (!this.graph.hasNode(id) && await this.bring(new URLSearchParams({ node: id, limit: NEIGHBOURS }), this.view.chosen)) this.grown();
    if (!this.graph.hasNode(id)) return;
    if (this.isPickingPath) await this.followPaths(id);
    else this.choose(id, { goThere: true });
  }

  choose(id, { goThere = false }) {
    const { view } = this;
    const had = view.inFocus;
    this.pickPath(false);
    view.choose(id && this.graph.hasNode(id) ? id : null);
    if (view.chosen && view.focus) view.setFocus(view.focus);
    if (view.path) this.side.showPaths(this.graph, view.chosen, view.pathTo, view.path.paths);
    else if (view.chosen) this.side.showNode(view.chosen);
    else this.side.showStart();
    if (had && had !== view.inFocus) this.arrange(false);
    this.refresh();
    if (goThere && view.chosen && had === view.inFocus) this.picture?.fit([view.chosen, ...view.near].filter((near) => view.isSeen(near)));
  }

  async chooseEdge(key) {
    this.view.chooseEdge(key);
    this.refresh();
    const [source, target] = this.graph.extremities(key);
    const shown = await this.side.showEdge({ source, target, type: this.graph.getEdgeAttribute(key, "typeName") });
    if (shown && this.view.edge === key) this.view.edgeId = shown.edgeId;
    this.view.write();
  }

  // An edge by its id, from a link or the address.
  async openEdge(id) {
    const shown = await this.side.showEdge(id);
    if (!shown) return;
    const key = edgeKey(shown.source, shown.typeName, shown.target);
    if (!this.graph.hasEdge(key) && await this.bring(new URLSearchParams({ node: shown.source, limit: NEIGHBOURS }))) this.grown();
    this.view.chooseEdge(this.graph.hasEdge(key) ? key : null);
    this.view.edgeId = id;
    this.refresh();
  }

  async focus(steps) {
    const { view } = this;
    if (!view.chosen) return;
    const isOff = view.focus === steps || !steps;
    if (!isOff) await this.bring(new URLSearchParams({ node: view.chosen, depth: String(steps), limit: NEIGHBOURS }), view.chosen);
    view.setFocus(isOff ? 0 : steps);
    this.timeline.refresh();
    this.refresh();
    this.arrange();
  }

  pickPath(isOn) {
    this.isPickingPath = isOn && Boolean(this.view.chosen);
    this.button("path").setAttribute("aria-pressed", String(this.isPickingPath));
    if (this.isPickingPath) this.tell("Select the node that the path leads to, or press Esc to cancel.");
  }

  async followPaths(to) {
    const from = this.view.chosen;
    this.pickPath(false);
    if (!from || from === to) { this.choose(to, {}); return; }
    this.tell("Looking for paths…", "busy");
    try {
      const { paths, nodes } = await this.drawing.bringPaths(from, to);
      this.view.setFocus(0);
      this.view.followPaths(to, paths);
      this.side.showPaths(this.graph, from, to, paths);
      this.tell("");
      if (nodes) this.grown();
      else if (this.picture && this.stage.dataset.state === "settled") this.picture.fit([...this.view.path.nodes]);
    } catch (error) {
      this.tell(error.message);
    }
    this.refresh();
  }

  searched(hasGrown) {
    if (hasGrown) this.grown();
    this.refresh();
  }

  refresh() {
    const { view } = this;
    view.write();
    this.picture?.refresh();
    this.list.refresh();
    document.getElementById("node-tools").hidden = !view.chosen;
    for (const steps of [1, 2, 3]) this.button(`focus-${steps}`).setAttribute("aria-pressed", String(view.focus === steps));
    this.button("shown").hidden = !view.hidden.size;
    this.stage.dataset.nodes = this.graph.order;
    this.countTypes();
  }

  // In the legend: how many of each type are in the picture.
  countTypes() {
    const counts = new Map();
    this.graph.forEachNode((_, { typeName }) => counts.set(typeName, (counts.get(typeName) ?? 0) + 1));
    for (const box of this.root.querySelectorAll('[name="type"]')) {
      box.closest("label").querySelector("[data-count]").textContent = (counts.get(box.value) ?? 0).toLocaleString();
    }
  }

  tell(words, kind = "") {
    this.message.textContent = words;
    this.message.dataset.kind = kind;
  }

  button(name) {
    return this.root.querySelector(`[data-do="${name}"]`);
  }

  listen() {
    const { view } = this;
    const todo = {
      unfold: () => this.unfold(view.chosen),
      hide: () => this.hide(),
      shown: () => { view.hidden.clear(); this.refresh(); },
      path: () => this.pickPath(!this.isPickingPath),
      "focus-1": () => this.focus(1),
      "focus-2": () => this.focus(2),
      "focus-3": () => this.focus(3),
      closer: () => this.picture?.zoom(1 / 1.5),
      farther: () => this.picture?.zoom(1.5),
      fit: () => this.picture?.fit(),
      full: () => this.switchFullScreen(),
      newer: () => this.bringNewer(),
      play: () => this.timeline.toggle(),
      now: () => { this.timeline.pause(); this.timeline.set(Infinity); },
      "find-next": () => this.search.move(1),
      "find-previous": () => this.search.move(-1),
      "list-more": () => this.list.showMore(),
      "all-types": () => this.showTypes(() => true),
    };
    document.body.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) todo[button.dataset.do]?.();
    });
    const keys = { f: () => this.focus(view.focus ? 0 : 1), 1: todo["focus-1"], 2: todo["focus-2"], 3: todo["focus-3"], p: todo.path, e: todo.unfold, 0: todo.fit, "+": todo.closer, "=": todo.closer, "-": todo.farther, Escape: () => this.leave() };
    const stageKeys = { Enter: () => this.open(), Delete: todo.hide };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (event.target.closest("input, textarea, select, summary")) return;
      const isOnStage = event.target === this.stage;
      const isArrow = event.key.startsWith("Arrow");
      const then = isArrow && isOnStage ? () => this.step(event.key) : (isOnStage && stageKeys[event.key]) || keys[event.key];
      if (!then) return;
      event.preventDefault();
      then();
    });
    this.root.addEventListener("change", (event) => { if (event.target.matches('[name="type"], [name="days"], [name="colour"]')) this.filter(); });
    // A double click on a type shows it alone.
    this.root.addEventListener("dblclick", (event) => {
      const box = event.target.closest("label")?.querySelector('[name="type"]');
      if (box) this.showTypes((name) => name === box.value);
    });
    this.root.querySelector("form").addEventListener("change", (event) => this.reload(event));
    document.addEventListener("fullscreenchange", () => this.button("full").setAttribute("aria-pressed", String(Boolean(document.fullscreenElement))));
    for (const name of ["query.completed", "insight.completed"]) {
      document.body.addEventListener(name, () => { this.button("newer").hidden = false; });
    }
  }

  open() {
    if (this.view.chosen) location.assign(`/agents/${this.root.dataset.agent}/nodes/${this.view.chosen}`);
  }

  // Leaves the innermost of path, focus and choice.
  leave() {
    const { view } = this;
    if (this.isPickingPath) { this.pickPath(false); this.tell(""); return; }
    if (view.path) { view.leavePath(); this.choose(view.chosen, {}); return; }
    if (view.focus) { this.focus(0); return; }
    if (view.matches && !view.chosen) { this.search.clear(); return; }
    this.choose(null, {});
  }

  // Another beginning is loaded anew, with the rest of the address as it is.
  reload(event) {
    if (!event.target.matches('[name="begin"], [name="limit"]')) return;
    const url = new URL(location.href);
    url.searchParams.set(event.target.name, event.target.value);
    location.assign(url);
  }

  showTypes(isShown) {
    for (const box of this.root.querySelectorAll('[name="type"]')) box.checked = isShown(box.value);
    this.filter();
  }

  switchFullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.root.requestFullscreen().catch(() => this.tell("This browser does not allow full screen here."));
  }

  async filter() {
    const isWider = this.view.read();
    if (isWider && await this.bring(this.view.entry())) this.grown();
    else this.tell("");
    this.refresh();
  }

  async bringNewer() {
    this.button("newer").hidden = true;
    if (await this.bring(new URLSearchParams({ begin: "newest", limit: NEWEST }))) this.grown();
    this.refresh();
  }

  hide() {
    const { chosen } = this.view;
    if (!chosen) return;
    this.view.hidden.add(chosen);
    this.choose(null, {});
  }

  // Selects the neighbour in that direction; without a selection, the node with most edges.
  step(key) {
    const next = this.view.chosen ? this.picture?.neighbour(this.view.chosen, key) : this.list.ordered()[0];
    if (!next) return;
    this.choose(next, {});
    this.picture?.goTo(next);
  }
}

// Lets the browser answer the user between two pieces of work.
function pause() {
  return new Promise((resolve) => { setTimeout(resolve); });
}

const root = document.getElementById("explorer");
if (root) new Explorer(root).begin();
