// The picture's nodes as a table, for screen readers and for reading.
import { formatTimes } from "./times.js";

const ROWS = 100;

export class List {
  constructor(graph, view, choose) {
    this.graph = graph;
    this.view = view;
    this.choose = choose;
    this.rows = ROWS;
    this.details = document.getElementById("listed");
    this.body = document.getElementById("listed-rows");
    this.count = document.getElementById("listed-count");
    this.details.addEventListener("toggle", () => this.refresh());
    this.body.addEventListener("click", (event) => {
      const button = event.target.closest("[data-chooses]");
      if (button) this.choose(button.dataset.chooses);
    });
  }

  // Nodes with most edges come first.
  ordered() {
    const { graph, view } = this;
    return graph.filterNodes((id, node) => view.isSeen(id, node)).sort((a, b) => graph.degree(b) - graph.degree(a));
  }

  showMore() {
    this.rows += ROWS;
    this.refresh();
  }

  refresh() {
    const seen = this.ordered();
    const isSeen = new Set(seen);
    const edges = this.graph.filterEdges((id, edge, from, to) => isSeen.has(from) && isSeen.has(to)).length;
    this.count.textContent = `${plural(seen.length, "node")}, ${plural(edges, "edge")}`;
    if (!this.details.open) return;
    this.body.replaceChildren(...seen.slice(0, this.rows).map((id) => this.row(id)));
    formatTimes(this.body);
    document.querySelector('[data-do="list-more"]').hidden = seen.length <= this.rows;
  }

  row(id) {
    const node = this.graph.getNodeAttributes(id);
    const button = made("button", { type: "button", className: "quiet", textContent: node.name });
    button.dataset.chooses = id;
    if (id === this.view.chosen) button.setAttribute("aria-current", "true");
    const at = new Date(node.touched).toISOString();
    const row = made("tr", {});
    row.append(cell(button), cell(node.typeName), cell(this.graph.degree(id).toLocaleString(), "number"), cell(made("time", { dateTime: at, textContent: at })));
    return row;
  }
}

function cell(content, className = "") {
  const made_ = made("td", { className });
  made_.append(content);
  return made_;
}

function made(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

export function plural(number, one) {
  return `${number.toLocaleString()} ${one}${number === 1 ? "" : "s"}`;
}
