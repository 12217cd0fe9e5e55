// The list of iterations: runs of quiet ones unfold.
import { formatTimes } from "./times.js";

const unfolded = new Set();

async function toggle(link) {
  const id = link.dataset.unfolds;
  const body = document.getElementById(id);
  if (unfolded.delete(id)) return apply();
  unfolded.add(id);
  if (!body.childElementCount) {
    link.setAttribute("aria-busy", "true");
    const answer = await fetch(link.dataset.part, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (!answer?.ok) return location.assign(link.href);
    body.innerHTML = await answer.text();
    formatTimes(body);
    link.removeAttribute("aria-busy");
  }
  apply();
}

// The server's rows know nothing of what is unfolded: applied after each of its answers.
function apply() {
  for (const link of document.querySelectorAll("[data-unfolds]")) {
    const isOpen = unfolded.has(link.dataset.unfolds);
    link.setAttribute("aria-expanded", String(isOpen));
    document.getElementById(link.dataset.unfolds).hidden = !isOpen;
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-unfolds]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  toggle(link);
});
document.body.addEventListener("htmx:after:swap", apply);
apply();
