// What the picture shows, and how; stored in the URL, so that it can be shared.
const MS_A_DAY = 86_400_000;
const AGES_DAYS = [1, 7, 31, 92];

export class View {
  constructor(root, legend) {
    this.legend = legend;
    this.chosen = root.dataset.chosen || null;
    this.near = new Set();
    this.hidden = new Set();
    this.address = new URL(location.href);
    if (this.address.searchParams.get("colour") === "age") this.input("colour", "age").checked = true;
    this.read();
  }

  input(name, value) {
    return [...this.legend.querySelectorAll(`[name="${name}"]`)].find((input) => input.value === value);
  }

  // Reads the legend; returns true if more may be visible than before.
  read() {
    const before = { types: this.types, days: this.days };
    const boxes = [...this.legend.querySelectorAll('[name="type"]')];
    this.types = new Map(boxes.map((box) => [box.value, { kind: Number(box.dataset.kind), isShown: box.checked }]));
    this.days = Number(this.legend.querySelector('[name="days"]:checked').value);
    this.colour = this.legend.querySelector('[name="colour"]:checked').value;
    document.getElementById("ages").hidden = this.colour !== "age";
    if (!before.types) return false;
    const isOlder = before.days !== 0 && (this.days === 0 || this.days > before.days);
    return isOlder || boxes.some((box) => box.checked && !before.types.get(box.value)?.isShown);
  }

  // Parameters of the first request.
  entry() {
    const params = new URLSearchParams();
    for (const name of ["node", "depth", "begin", "search", "limit"]) {
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
    for (const name of ["node", "type", "days", "colour"]) url.searchParams.delete(name);
    if (this.chosen) url.searchParams.set("node", this.chosen);
    for (const name of this.selectedTypes()) url.searchParams.append("type", name);
    if (this.days) url.searchParams.set("days", String(this.days));
    if (this.colour !== "type") url.searchParams.set("colour", this.colour);
    history.replaceState(history.state, "", url);
  }

  choose(id, graph) {
    this.chosen = id;
    this.near = new Set(id ? graph.neighbors(id) : []);
  }

  isSeen(id, node) {
    if (this.hidden.has(id)) return false;
    if (this.types.get(node.typeName)?.isShown === false) return false;
    return !this.days || Date.now() - node.touched <= this.days * MS_A_DAY;
  }

  kind(typeName) {
    return this.types.get(typeName)?.kind ?? 0;
  }

  // 1 is the most recent.
  age(touched) {
    const days = (Date.now() - touched) / MS_A_DAY;
    const index = AGES_DAYS.findIndex((most) => days <= most);
    return index < 0 ? AGES_DAYS.length + 1 : index + 1;
  }
}
