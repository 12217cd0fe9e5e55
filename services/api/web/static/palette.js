// The palette: finds agents and what they hold, and runs commands. The server lists the results.

const dialog = () => document.getElementById("palette");
const options = () => [...dialog().querySelectorAll('[role="option"]')];

export function listenToPalette() {
  const palette = dialog();
  if (!palette) return;
  palette.addEventListener("keydown", onKey);
  palette.addEventListener("htmx:after:swap", () => select(0));
  palette.addEventListener("click", (event) => {
    // A click on the backdrop is one on the dialog itself.
    if (event.target === palette) palette.close();
    if (event.target.closest('[role="option"]')) palette.close();
  });
  palette.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(options().find((option) => option.getAttribute("aria-selected") === "true"));
  });
}

export function openPalette() {
  const palette = dialog();
  if (!palette || palette.open) return;
  const input = palette.querySelector("input");
  input.value = "";
  palette.showModal();
  input.focus();
  input.dispatchEvent(new CustomEvent("palette"));
}

function onKey(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  event.preventDefault();
  const list = options();
  const current = list.findIndex((option) => option.getAttribute("aria-selected") === "true");
  select((current + (event.key === "ArrowDown" ? 1 : -1) + list.length) % Math.max(list.length, 1));
}

function select(place) {
  options().forEach((option, index) => {
    option.setAttribute("aria-selected", String(index === place));
    if (index === place) option.scrollIntoView({ block: "nearest" });
  });
  const input = dialog().querySelector("input");
  const chosen = options()[place];
  if (chosen) input.setAttribute("aria-activedescendant", chosen.id);
  else input.removeAttribute("aria-activedescendant");
}

function run(option) {
  option?.click();
}
