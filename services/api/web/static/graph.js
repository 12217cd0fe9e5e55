// The graph explorer: the URL selects the first nodes; the user expands neighbourhoods from there.
import { Drawing, MAX_DRAWN } from "./graph-data.js";
import { Layout } from "./graph-layout.js";
import { List, plural } from "./graph-list.js";
import { canDraw, Picture } from "./graph-picture.js";
import { Side } from "./graph-side.js";
import { View } from "./graph-view.js";

const NEWEST_BROUGHT = 100;

class Explorer {
  constructor(root) {
    this.stage = document.getElementById("stage");
    this.message = document.getElementById("stage-status");
    this.view = new View(root, document.getElementById("legend"));
    this.drawing = new Drawing(root.dataset.agent);
    this.graph = this.drawing.graph;
    this.layout = new Layout(this.graph, () => this.settled());
    this.list = new List(this.graph, this.view, (id) => this.choose(id, { goThere: true }));
    this.side = new Side(root.dataset.agent, (id) => this.goTo(id));
    this.picture = null;
    this.listen(root);
  }

  async begin() {
    const chosen = this.view.chosen;
    await this.bring(this.view.entry());
    this.draw();
    if (chosen) this.choose(this.graph.hasNode(chosen) ? chosen : this.drawing.first, {});
    else this.refresh();
  }

  draw() {
    if (!canDraw()) {
      this.stage.dataset.state = "none";
      this.showMessage("No picture can be drawn here, for this browser has no WebGL; the list below has all of it.");
      document.getElementById("listed").open = true;
      return;
    }
    this.picture = new Picture(this.stage, this.graph, this.view);
    this.picture.onChoose = (id) => this.choose(id, {});
    this.picture.onUnfold = (id) => this.unfold(id);
    this.picture.onPin = () => this.refresh();
    this.layout.settle();
  }

  // Adds the result of `query`, unless the picture is full.
  async bring(query, neighbour = null) {
    this.showMessage("Looking…");
    let added;
    try {
      added = await this.drawing.bring(query, neighbour);
    } catch (error) {
      this.showMessage(error.message);
      return 0;
    }
    const more = added.isFull ? `The picture is full at ${MAX_DRAWN.toLocaleString()} nodes: hide some.` : added.isCut ? "There is more." : "";
    this.showMessage(`${plural(added.nodes, "node")} came in. ${more}`);
    return added.nodes + added.edges;
  }

  async unfold(id) {
    if (!id) return;
    const changed = await this.bring(new URLSearchParams({ node: id, limit: "100" }), id);
    if (changed) this.layout.settle();
    this.refresh();
  }

  goTo(id) {
    if (this.graph.hasNode(id)) return this.choose(id, { goThere: true });
    return this.unfold(id).then(() => this.choose(id, { goThere: true }));
  }

  choose(id, { goThere = false }) {
    this.view.choose(id && this.graph.hasNode(id) ? id : null, this.graph);
    if (this.view.chosen) this.side.show(this.view.chosen);
    if (goThere && this.view.chosen) this.picture?.goTo(this.view.chosen);
    this.refresh();
  }

  refresh() {
    this.view.write();
    this.picture?.refresh();
    this.list.refresh();
    const { chosen } = this.view;
    for (const name of ["unfold", "pin", "hide"]) this.button(name).disabled = !chosen;
    const isPinned = Boolean(chosen && this.graph.getNodeAttribute(chosen, "fixed"));
    this.button("pin").setAttribute("aria-pressed", String(isPinned));
    this.button("pin").textContent = isPinned ? "Unpin" : "Pin";
    this.button("shown").hidden = !this.view.hidden.size;
    this.stage.dataset.nodes = this.graph.order;
  }

  settled() {
    this.stage.dataset.state = "settled";
  }

  showMessage(words) {
    this.message.textContent = words;
  }

  button(name) {
    return document.querySelector(`[data-do="${name}"]`);
  }

  listen(root) {
    const todo = {
      unfold: () => this.unfold(this.view.chosen),
      pin: () => this.pin(),
      hide: () => this.hide(),
      shown: () => { this.view.hidden.clear(); this.refresh(); },
      closer: () => this.picture?.zoom(1 / 1.5),
      farther: () => this.picture?.zoom(1.5),
      fit: () => this.picture?.fit(),
      newer: () => this.bringNewer(),
      "list-more": () => this.list.showMore(),
    };
    document.body.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) todo[button.dataset.do]?.();
    });
    const keys = { Enter: todo.unfold, p: todo.pin, Delete: todo.hide, 0: todo.fit, "+": todo.closer, "-": todo.farther, Escape: () => this.choose(null, {}) };
    this.stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const then = event.key.startsWith("Arrow") ? () => this.step(event.key) : keys[event.key];
      if (!then) return;
      event.preventDefault();
      then();
    });
    document.getElementById("legend").addEventListener("change", () => this.filter());
    for (const name of ["query.completed", "insight.completed"]) {
      document.body.addEventListener(name, () => { this.button("newer").hidden = false; });
    }
  }

  async filter() {
    const isWider = this.view.read();
    if (isWider && await this.bring(this.view.entry())) this.layout.settle();
    this.refresh();
  }

  async bringNewer() {
    this.button("newer").hidden = true;
    if (await this.bring(new URLSearchParams({ begin: "newest", limit: String(NEWEST_BROUGHT) }))) this.layout.settle();
    this.refresh();
  }

  pin() {
    const { chosen } = this.view;
    if (!chosen) return;
    this.graph.updateNodeAttribute(chosen, "fixed", (isFixed) => !isFixed);
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
    if (next) this.choose(next, { goThere: true });
  }
}

const root = document.getElementById("explorer");
if (root) new Explorer(root).begin();
