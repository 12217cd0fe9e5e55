// Filters that the reader has saved in this browser, and keys that walk through the rows of the list.

const NAME_LENGTH = 40;

function setUp() {
  for (const place of document.querySelectorAll("[data-saved-filters]")) show(place);
  document.addEventListener("keydown", walk);
}

function key(place) {
  return `vigil-filters-${place.dataset.savedFilters}`;
}

function load(place) {
  try {
    return JSON.parse(localStorage.getItem(key(place)) ?? "[]");
  } catch {
    return [];
  }
}

function store(place, filters) {
  localStorage.setItem(key(place), JSON.stringify(filters));
  show(place);
}

function show(place) {
  place.replaceChildren();
  const filters = load(place);
  for (const filter of filters) {
    const chip = element("span", { className: "saved-filter" });
    chip.append(element("a", { href: `?${filter.query}`, textContent: filter.name }));
    const remove = element("button", { type: "button", textContent: "×", title: `Remove the filter ${filter.name}` });
    remove.setAttribute("aria-label", remove.title);
    remove.addEventListener("click", () => store(place, filters.filter((other) => other.query !== filter.query)));
    chip.append(remove);
    place.append(chip);
  }
  const query = cleaned(place.dataset.query);
  if (!query || filters.some((filter) => filter.query === query)) return;
  const save = element("button", { type: "button", className: "quiet small", textContent: "Save filter" });
  save.addEventListener("click", () => store(place, [...filters, { query, name: nameOf(query) }]));
  place.append(save);
}

function cleaned(query) {
  const parameters = new URLSearchParams(query);
  for (const [name, value] of [...parameters]) if (!value || name === "cursor" || name === "part") parameters.delete(name);
  return parameters.toString();
}

function nameOf(query) {
  return [...new URLSearchParams(query).values()].join(", ").slice(0, NAME_LENGTH);
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

function walk(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog[open]")) return;
  if (event.key === "n") location.assign("/agents/new");
  if (event.key !== "j" && event.key !== "k" && event.key !== "Enter") return;
  const rows = [...document.querySelectorAll("[data-agent-row]")];
  const current = rows.findIndex((row) => row.hasAttribute("data-chosen"));
  if (event.key === "Enter") {
    if (current >= 0 && event.target === document.body) rows[current].querySelector("a").click();
    return;
  }
  const next = Math.min(Math.max(current + (event.key === "j" ? 1 : -1), 0), rows.length - 1);
  rows[current]?.removeAttribute("data-chosen");
  rows[next]?.setAttribute("data-chosen", "");
  rows[next]?.scrollIntoView({ block: "nearest" });
}

setUp();
