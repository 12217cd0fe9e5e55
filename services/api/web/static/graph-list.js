// What the picture shows as tables of nodes and edges, for screen readers and for reading.
import { formatTimes } from "./times.js";

const ROWS = 100;
const MAX_COUNTED_SITES = 8;

export class List {
  constructor(graph, view, { onChoose, onChooseEdge }) {
    this.graph = graph;
    this.view = view;
    this.rows = ROWS;
    this.details = document.getElementById("listed");
    this.bodies = { node: document.getElementById("listed-rows"), edge: document.getElementById("listed-edges") };
    this.count = document.getElementById("listed-count");
    this.details.addEventListener("toggle", () => this.refresh());
    this.details.addEventListener("change", () => { this.rows = ROWS; this.refresh(); });
    this.details.addEventListener("click", (event) => {
      const button = event.target.closest("[data-chooses], [data-chooses-edge]");
      if (button?.dataset.chooses) onChoose(button.dataset.chooses);
      else if (button) onChooseEdge(button.dataset.choosesEdge);
    });
  }

  // Nodes with most edges come first.
  ordered() {
    const { graph, view } = this;
    return view.seen().sort((a, b) => graph.degree(b) - graph.degree(a));
  }

  showMore() {
    this.rows += ROWS;
    this.refresh();
  }

  refresh() {
    const seen = this.ordered();
    const isSeen = new Set(seen);
    const edges = this.graph.filterEdges((_, edge, from, to) => isSeen.has(from) && isSeen.has(to) && this.view.isEdgeSeen(edge));
    this.count.textContent = `${plural(seen.length, "node")}, ${plural(edges.length, "edge")}`;
    if (!this.details.open) return;
    const kind = this.details.querySelector('[name="listed"]:checked').value;
    for (const table of this.details.querySelectorAll("table")) table.hidden = table.dataset.lists !== kind;
    const rows = kind === "node" ? seen : edges;
    const row = kind === "node" ? (id) => this.nodeRow(id) : (id) => this.edgeRow(id);
    this.bodies[kind].replaceChildren(...rows.slice(0, this.rows).map(row));
    formatTimes(this.bodies[kind]);
    document.querySelector('[data-do="list-more"]').hidden = rows.length <= this.rows;
  }

  nodeRow(id) {
    const node = this.graph.getNodeAttributes(id);
    const row = made("tr");
    const swatch = made("i", { className: "swatch" });
    swatch.dataset.kind = this.view.kind(node.typeName);
    const type = made("span", { className: "typed" });
    type.append(swatch, this.view.typeText(node.typeName));
    row.append(cell(this.button(id)), cell(type), cell(this.graph.degree(id).toLocaleString(), "number", "Edges here"), cell(time(node.created), "", "Known since"), cell(time(node.touched), "", "Updated"));
    return row;
  }

  edgeRow(id) {
    const [from, to] = this.graph.extremities(id);
    const edge = made("button", { type: "button", className: "quiet", textContent: this.graph.getEdgeAttribute(id, "typeName") });
    edge.dataset.choosesEdge = id;
    if (id === this.view.edge) edge.setAttribute("aria-current", "true");
    const row = made("tr");
    const { sites } = this.graph.getEdgeAttributes(id);
    row.append(cell(this.button(from)), cell(edge), cell(this.button(to)), cell(sites < MAX_COUNTED_SITES ? String(sites || "–") : `${MAX_COUNTED_SITES}+`, "number", "Sites"));
    return row;
  }

  button(id) {
    const button = made("button", { type: "button", className: "quiet", textContent: this.graph.getNodeAttribute(id, "name") });
    button.dataset.chooses = id;
    if (id === this.view.chosen) button.setAttribute("aria-current", "true");
    return button;
  }
}

export function time(at) {
  const iso = new Date(at).toISOString();
  return made("time", { dateTime: iso, textContent: iso });
}

// On a phone, `label` stands in place of the heading of the column.
function cell(content, className = "", label = "") {
  const td = made("td", { className });
  if (label) td.dataset.label = label;
  td.append(content);
  return td;
}

export function made(tag, properties = {}) {
  return Object.assign(document.createElement(tag), properties);
}

export function plural(number, one) {
  return `${number.toLocaleString()} ${one}${number === 1 ? "" : "s"}`;
}
