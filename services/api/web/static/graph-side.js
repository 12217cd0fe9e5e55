// The panel next to the graph: what is known of the chosen node or edge, loaded from its page, or the paths between two.
import { made, plural } from "./graph-list.js";
import { formatTimes } from "./times.js";

export class Side {
  constructor(agent, { onNode, onEdge }) {
    this.agent = agent;
    this.element = document.getElementById("side");
    this.start = [...this.element.childNodes];
    this.asking = null;
    this.element.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      const link = event.target.closest("a[data-node], button[data-node], a[data-edge]");
      if (!link) return;
      event.preventDefault();
      if (link.dataset.node) onNode(link.dataset.node);
      else onEdge(link.dataset.edge, link.href);
    });
  }

  // Where to begin: the nodes with most edges.
  suggest(graph, ids) {
    this.element.querySelector("#start-nodes").replaceChildren(...ids.map((id) => {
      const item = made("li");
      const button = made("button", { type: "button", className: "quiet", textContent: graph.getNodeAttribute(id, "name") });
      button.dataset.node = id;
      item.append(button, made("span", { className: "hint", textContent: plural(graph.degree(id), "edge") }));
      return item;
    }));
  }

  showStart() {
    this.asking?.abort();
    this.put(...this.start);
  }

  showNode(id) {
    return this.load(`/agents/${this.agent}/nodes/${id}?part=panel`);
  }

  // Of an edge by its id, or by its ends and type. Answers the edge's id, ends and type.
  async showEdge(reference) {
    const query = typeof reference === "string" ? `/${reference}?part=panel` : `?${new URLSearchParams({ ...reference, part: "panel" })}`;
    await this.load(`/agents/${this.agent}/edges${query}`);
    return this.element.querySelector("[data-edge-id]")?.dataset ?? null;
  }

  // Only the latest request may change the panel.
  async load(url) {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    this.element.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url, { headers: { "HX-Request": "true" }, signal });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const text = await answer.text();
      if (signal.aborted) return;
      this.element.innerHTML = text;
      this.element.scrollTop = 0;
      formatTimes(this.element);
    } catch (error) {
      if (signal.aborted) return;
      this.put(made("p", { className: "fault", textContent: "The details could not be loaded. Select the node again in a moment." }));
    }
    this.element.removeAttribute("aria-busy");
  }

  // Each path as a list of its nodes, with the types of the edges between them.
  showPaths(graph, from, to, paths) {
    this.asking?.abort();
    this.element.removeAttribute("aria-busy");
    const name = (id) => graph.getNodeAttribute(id, "name");
    const heading = made("h2", { textContent: paths.length ? plural(paths.length, "shortest path") : "No path found" });
    const ends = made("p", { className: "hint", textContent: `From ${name(from)} to ${name(to)}` });
    if (!paths.length) {
      this.put(heading, ends, made("p", { textContent: "The two nodes are not connected within four edges. Select another node, or press Esc to leave the path." }));
      return;
    }
    this.put(heading, ends, ...paths.map((path) => pathList(graph, path, name)));
  }

  put(...content) {
    this.element.replaceChildren(...content);
    this.element.scrollTop = 0;
  }
}

function pathList(graph, path, name) {
  const list = made("ol", { className: "path" });
  path.forEach((id, place) => {
    const item = made("li");
    if (place) item.append(made("span", { className: "path-edge", textContent: between(graph, path[place - 1], id) }));
    const button = made("button", { type: "button", className: "quiet", textContent: name(id) });
    button.dataset.node = id;
    item.append(button);
    list.append(item);
  });
  return list;
}

// The types of the edges between two nodes, with their directions.
function between(graph, from, to) {
  const names = (a, b) => graph.outEdges(a, b).map((id) => graph.getEdgeAttribute(id, "label"));
  return [...names(from, to).map((type) => `${type} →`), ...names(to, from).map((type) => `← ${type}`)].join(", ");
}
