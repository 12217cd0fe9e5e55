// What of the picture is seen, and how: kept in the address, so that it can be sent to somebody.
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
    return [...this.legend.querySelectorAll(`[name="${name}"]`)].find((each) => each.value === value);
  }

  // As the legend has it; true where more may be seen than before.
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

  // Which data the picture begins with.
  entry() {
    const asked = new URLSearchParams();
    for (const name of ["node", "depth", "begin", "search", "limit"]) {
      const value = this.address.searchParams.get(name);
      if (value) asked.set(name, value);
    }
    for (const name of this.typesAsked()) asked.append("type", name);
    if (this.days) asked.set("days", String(this.days));
    return asked;
  }

  typesAsked() {
    const shown = [...this.types].filter(([, type]) => type.isShown).map(([name]) => name);
    return shown.length === this.types.size ? [] : shown;
  }

  write() {
    const url = new URL(this.address);
    for (const name of ["node", "type", "days", "colour"]) url.searchParams.delete(name);
    if (this.chosen) url.searchParams.set("node", this.chosen);
    for (const name of this.typesAsked()) url.searchParams.append("type", name);
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

  // 1 is the freshest.
  age(touched) {
    const days = (Date.now() - touched) / MS_A_DAY;
    const found = AGES_DAYS.findIndex((most) => days <= most);
    return found < 0 ? AGES_DAYS.length + 1 : found + 1;
  }
}
