// Search in the picture: matches stand out, Enter moves between them. Those that are not drawn are offered.
import { made, plural } from "./graph-list.js";

const WAIT_MS = 300;
const LISTED = 8;

export class Search {
  constructor(drawing, view, { onChange, onChoose }) {
    this.drawing = drawing;
    this.view = view;
    this.onChange = onChange;
    this.onChoose = onChoose;
    this.input = document.getElementById("find");
    this.count = document.getElementById("find-count");
    this.more = document.getElementById("find-more");
    this.ordered = [];
    this.place = -1;
    this.latest = 0;
    this.input.addEventListener("input", () => this.look());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); this.move(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); this.clear(); }
    });
    this.more.addEventListener("click", (event) => {
      const button = event.target.closest("[data-brings]");
      if (button) this.bring(button.dataset.brings);
    });
  }

  clear() {
    this.input.value = "";
    this.look();
    document.getElementById("stage").focus();
  }

  // Matches in the picture at once, those of the whole graph in a moment.
  look() {
    const words = this.input.value.trim();
    this.latest += 1;
    this.view.words = words;
    this.place = -1;
    this.offer(null);
    this.mark(words ? this.inPicture(words) : null);
    if (!words) return;
    const asked = this.latest;
    this.input.setAttribute("aria-busy", "true");
    setTimeout(() => this.lookFurther(words, asked), WAIT_MS);
  }

  inPicture(words) {
    const parts = words.toLowerCase().split(/\s+/u);
    return new Set(this.drawing.graph.filterNodes((_, node) => parts.every((part) => node.name.toLowerCase().includes(part))));
  }

  async lookFurther(words, asked) {
    if (asked !== this.latest) return;
    const answer = await this.drawing.ask(`graph/data?${new URLSearchParams({ search: words, limit: "50" })}`).catch(() => null);
    if (asked !== this.latest) return;
    this.input.removeAttribute("aria-busy");
    if (!answer) return;
    this.answer = answer;
    const { graph } = this.drawing;
    const found = answer.names.map((name, place) => ({ name, id: answer.ids.slice(32 * place, 32 * place + 32) }));
    const known = new Map(graph.mapNodes((id) => [id.replaceAll("-", ""), id]));
    const matches = new Set(this.view.matches);
    for (const { id } of found) if (known.has(id)) matches.add(known.get(id));
    this.mark(matches);
    this.offer(found.filter(({ id }) => !known.has(id)));
  }

  // Adds what was found outside of the picture; the one chosen is gone to.
  bring(id) {
    const { ids } = this.drawing.add(this.answer, null);
    this.offer(null);
    this.mark(new Set([...(this.view.matches ?? []), ...ids.filter((each) => this.drawing.graph.hasNode(each))]), true);
    const chosen = ids.find((each) => each.replaceAll("-", "") === id);
    if (chosen) this.onChoose(chosen);
  }

  mark(matches, hasGrown = false) {
    const { graph } = this.drawing;
    this.view.matches = matches;
    this.ordered = matches ? [...matches].filter((id) => this.view.isSeen(id)).sort((a, b) => graph.degree(b) - graph.degree(a)) : [];
    this.tell();
    this.onChange(hasGrown);
  }

  move(by) {
    if (!this.ordered.length) return;
    this.place = (this.place + by + this.ordered.length) % this.ordered.length;
    if (this.place < 0) this.place = 0;
    this.tell();
    this.onChoose(this.ordered[this.place]);
  }

  tell() {
    const { length } = this.ordered;
    if (!this.view.matches) this.count.textContent = "";
    else if (!length) this.count.textContent = "No match in view";
    else this.count.textContent = this.place < 0 ? plural(length, "match").replace("matchs", "matches") : `${this.place + 1} of ${length}`;
    for (const name of ["find-next", "find-previous"]) document.querySelector(`[data-do="${name}"]`).disabled = !length;
  }

  offer(found) {
    this.more.hidden = !found?.length;
    if (!found?.length) { this.more.replaceChildren(); return; }
    const all = made("button", { type: "button", className: "small", textContent: `Add ${found.length === 1 ? "it" : `all ${found.length}`}` });
    all.dataset.brings = "all";
    const words = made("span", { textContent: `${plural(found.length, "match").replace("matchs", "matches")} not in view:` });
    const buttons = found.slice(0, LISTED).map(({ name, id }) => {
      const button = made("button", { type: "button", className: "quiet small found", textContent: name });
      button.dataset.brings = id;
      return button;
    });
    this.more.replaceChildren(words, ...buttons, all);
  }
}
