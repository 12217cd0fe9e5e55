// What the picture shows, and how; kept in the address, so that it can be shared.
const MS_A_DAY = 86_400_000;
const AGES_DAYS = [1, 7, 31, 92];
const WRITTEN = ["node", "edge", "focus", "path", "search", "until", "type", "days", "colour"];

export class View {
  constructor(root, graph) {
    this.root = root;
    this.graph = graph;
    this.address = new URL(location.href);
    const params = this.address.searchParams;
    this.chosen = params.get("node");
    this.edgeId = params.get("edge");
    this.edge = null;
    this.focus = this.chosen ? Math.min(3, Number(params.get("focus")) || 0) : 0;
    this.pathTo = this.chosen ? params.get("path") : null;
    this.path = null;
    this.words = params.get("search") ?? "";
    this.matches = null;
    this.until = Number(params.get("until")) * 1000 || null;
    this.near = new Set();
    this.hidden = new Set();
    this.inFocus = null;
    if (params.get("colour") === "age") this.input("colour", "age").checked = true;
    this.read();
  }

  input(name, value) {
    return [...this.root.querySelectorAll(`[name="${name}"]`)].find((input) => input.value === value);
  }

  // Reads the legend and the filters; returns true if more may be visible than before.
  read() {
    const before = { types: this.types, days: this.days };
    const boxes = [...this.root.querySelectorAll('[name="type"]')];
    this.types = new Map(boxes.map((box) => [box.value, { kind: Number(box.dataset.kind), isShown: box.checked, text: box.parentElement.querySelector(".legend-name").textContent }]));
    this.days = Number(this.root.querySelector('[name="days"]').value);
    this.colour = this.root.querySelector('[name="colour"]:checked').value;
    if (!before.types) return false;
    const isOlder = before.days !== 0 && (this.days === 0 || this.days > before.days);
    return isOlder || boxes.some((box) => box.checked && !before.types.get(box.value)?.isShown);
  }

  // Parameters of the first request.
  entry() {
    const params = new URLSearchParams();
    for (const name of ["begin", "limit"]) {
      const value = this.address.searchParams.get(name);
      if (value) params.set(name, value);
    }
    for (const name of this.selectedTypes()) params.append("type", name);
    if (this.days) params.set("days", String(this.days));
    return params;
  }

  selectedTypes() {
    const types = [...this.types].filter(([, type]) => type.isShown).map(([name]) => name);
    return types.length === this.types.size ? [] : types;
  }

  write() {
    const url = new URL(this.address);
    for (const name of WRITTEN) url.searchParams.delete(name);
    const values = {
      node: this.chosen,
      edge: this.edgeId,
      focus: this.focus || null,
      path: this.pathTo,
      search: this.words || null,
      until: this.until ? Math.ceil(this.until / 1000) : null,
      days: this.days || null,
      colour: this.colour === "type" ? null : this.colour,
    };
    for (const [name, value] of Object.entries(values)) if (value) url.searchParams.set(name, String(value));
    for (const name of this.selectedTypes()) url.searchParams.append("type", name);
    history.replaceState(history.state, "", url);
  }

  choose(id) {
    this.chosen = id;
    this.edge = this.edgeId = null;
    this.near = new Set(id ? this.graph.neighbors(id) : []);
    if (!id) [this.focus, this.inFocus] = [0, null];
    if (!id || (this.path && !this.path.nodes.has(id))) this.leavePath();
  }

  chooseEdge(key) {
    this.choose(null);
    this.edge = key;
    this.near = new Set(key ? this.graph.extremities(key) : []);
  }

  followPaths(to, paths) {
    const { graph } = this;
    const pairs = new Set(paths.flatMap((path) => path.slice(1).flatMap((id, place) => [`${path[place]} ${id}`, `${id} ${path[place]}`])));
    const edges = new Set(graph.filterEdges((_, __, from, to_) => pairs.has(`${from} ${to_}`)));
    this.pathTo = to;
    this.path = { paths, nodes: new Set([this.chosen, to, ...paths.flat()]), edges };
  }

  leavePath() {
    [this.pathTo, this.path] = [null, null];
  }

  // Nodes within so many steps of the chosen one; 0 is all nodes.
  setFocus(steps) {
    this.focus = this.chosen ? steps : 0;
    this.inFocus = this.focus ? within(this.graph, this.chosen, steps) : null;
  }

  isSeen(id, node = this.graph.getNodeAttributes(id)) {
    if (this.hidden.has(id)) return false;
    if (this.inFocus && !this.inFocus.has(id)) return false;
    if (this.types.get(node.typeName)?.isShown === false) return false;
    if (this.until && node.created > this.until) return false;
    return !this.days || Date.now() - node.touched <= this.days * MS_A_DAY;
  }

  // Of an edge whose ends are seen.
  isEdgeSeen(edge) {
    return !this.until || edge.created <= this.until;
  }

  seen() {
    return this.graph.filterNodes((id, node) => this.isSeen(id, node));
  }

  // Whether something else stands out.
  isDimmed(id) {
    if (this.path) return !this.path.nodes.has(id);
    if (this.matches) return !this.matches.has(id) && id !== this.chosen;
    if (this.inFocus) return false;
    return Boolean(this.chosen || this.edge) && id !== this.chosen && !this.near.has(id);
  }

  standsOut(id) {
    return id === this.chosen || id === this.pathTo || Boolean(this.path?.nodes.has(id) || this.matches?.has(id) || this.near.has(id));
  }

  kind(typeName) {
    return this.types.get(typeName)?.kind ?? 0;
  }

  typeText(typeName) {
    return this.types.get(typeName)?.text ?? typeName;
  }

  // 1 is the most recent.
  age(touched) {
    const days = (Date.now() - touched) / MS_A_DAY;
    const index = AGES_DAYS.findIndex((most) => days <= most);
    return index < 0 ? AGES_DAYS.length + 1 : index + 1;
  }
}

function within(graph, start, steps) {
  const reached = new Set([start]);
  let edge = [start];
  for (let step = 0; step < steps; step += 1) {
    edge = edge.flatMap((id) => graph.neighbors(id)).filter((id) => !reached.has(id) && reached.add(id));
  }
  return reached;
}
