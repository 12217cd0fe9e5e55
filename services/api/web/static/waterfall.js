// The waterfall of an iteration: rows that fold, details beside them, both by keyboard. All rows come from the server.
import { formatTimes } from "./times.js";

const page = document.querySelector(".iteration");
const details = document.getElementById("details");
const isFolded = new Map();
let mode;
let current;
let opened;
let loading;
let focused;

const table = () => document.querySelector(".waterfall table");
const rows = () => [...table().querySelectorAll("tbody > tr")];
const shown = () => rows().filter((row) => !row.hidden);
const keyOf = (row) => row.id.replace(/^row-/, "");
const rowOf = (key) => document.getElementById(`row-${key}`);
const parentOf = (row) => (row.dataset.parent ? document.getElementById(row.dataset.parent) : null);
const hasChildren = (row) => row.hasAttribute("aria-expanded");
const isOpen = (row) => !(isFolded.get(row.id) ?? (mode === "steps" && Number(row.ariaLevel) > 1));

// The server's rows know nothing of what was folded, chosen or focused here: applied after each of its answers.
function apply() {
  const all = rows();
  if (!all.length) return;
  for (const row of all) {
    const parent = parentOf(row);
    row.hidden = Boolean(parent) && (parent.hidden || !isOpen(parent));
    if (hasChildren(row)) row.setAttribute("aria-expanded", String(isOpen(row)));
    row.setAttribute("aria-selected", String(keyOf(row) === opened));
    for (const link of row.querySelectorAll("a")) link.tabIndex = -1;
  }
  let place = document.getElementById(current);
  while (place?.hidden) place = parentOf(place);
  current = (place ?? all[0]).id;
  for (const row of all) row.tabIndex = row.id === current ? 0 : -1;
  for (const link of document.querySelectorAll("[data-rows]")) {
    if (link.dataset.rows === mode) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function focus(row) {
  if (!row) return;
  current = row.id;
  for (const each of rows()) each.tabIndex = each === row ? 0 : -1;
  row.focus();
  row.scrollIntoView({ block: "nearest" });
}

function setFolded(row, folded) {
  isFolded.set(row.id, folded);
  apply();
}

function setMode(next) {
  mode = next;
  isFolded.clear();
  setAddress((params) => params.set("rows", next), "replaceState");
  apply();
}

function setAddress(change, how = "pushState") {
  const url = new URL(location.href);
  change(url.searchParams);
  history[how](null, "", url);
}

// Only the latest request may change the panel.
async function load(key) {
  loading?.abort();
  const { signal } = (loading = new AbortController());
  opened = key;
  unfoldTo(key);
  details.hidden = false;
  page.toggleAttribute("data-has-details", true);
  details.setAttribute("aria-busy", "true");
  const url = new URL(location.href);
  url.search = new URLSearchParams({ open: key, part: "details" });
  try {
    const answer = await fetch(url, { headers: { "HX-Request": "true" }, signal });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    details.innerHTML = await answer.text();
    htmx.process(details);
    formatTimes(details);
  } catch {
    if (signal.aborted) return;
    const message = document.createElement("p");
    message.className = "fault";
    message.textContent = "The details could not be loaded. Select the row again.";
    details.replaceChildren(message);
  }
  details.scrollTop = 0;
  details.removeAttribute("aria-busy");
}

// A row that is chosen from elsewhere may be in a folded one.
function unfoldTo(key) {
  for (let row = rowOf(key) && parentOf(rowOf(key)); row; row = parentOf(row)) isFolded.set(row.id, false);
  apply();
  rowOf(key)?.scrollIntoView({ block: "nearest" });
}

function open(key) {
  setAddress((params) => params.set("open", key));
  current = `row-${key}`;
  return load(key);
}

function close() {
  loading?.abort();
  const row = opened && rowOf(opened);
  hide();
  setAddress((params) => params.delete("open"));
  focus(row || undefined);
}

function hide() {
  opened = undefined;
  details.hidden = true;
  details.replaceChildren();
  page.removeAttribute("data-has-details");
  apply();
}

function onClick(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const fold = event.target.closest("[data-folds-row]");
  const chosen = event.target.closest("[data-opens]");
  const rowsLink = event.target.closest("[data-rows]");
  const row = event.target.closest(".waterfall tbody > tr");
  if (fold) setFolded(row, isOpen(row));
  else if (event.target.closest("[data-closes]")) act(event, close);
  else if (chosen?.matches(".iteration *")) act(event, () => open(chosen.dataset.opens));
  else if (rowsLink) act(event, () => setMode(rowsLink.dataset.rows));
  else if (row && !getSelection().toString()) { open(keyOf(row)); row.focus(); }
}

function act(event, then) {
  event.preventDefault();
  event.stopPropagation();
  then();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && opened) return act(event, close);
  const row = event.target.closest?.(".waterfall tbody > tr");
  const step = row && STEPS[event.key];
  if (step) act(event, () => step(row));
}

const STEPS = {
  ArrowDown: (row) => focus(shown()[shown().indexOf(row) + 1]),
  ArrowUp: (row) => focus(shown()[shown().indexOf(row) - 1]),
  Home: () => focus(shown()[0]),
  End: () => focus(shown().at(-1)),
  ArrowRight: (row) => (hasChildren(row) && !isOpen(row) ? setFolded(row, false) : hasChildren(row) && focus(shown()[shown().indexOf(row) + 1])),
  ArrowLeft: (row) => (hasChildren(row) && isOpen(row) ? setFolded(row, true) : focus(parentOf(row))),
  Enter: (row) => open(keyOf(row)),
};

function onHistory() {
  const key = new URL(location.href).searchParams.get("open");
  if (key) load(key);
  else hide();
}

mode = document.querySelector('[data-rows="all"][aria-current]') ? "all" : "steps";
opened = page.dataset.opened || undefined;
if (opened) {
  current = `row-${opened}`;
  unfoldTo(opened);
}
apply();
// Before the page's own shortcuts.
document.addEventListener("click", onClick, true);
document.addEventListener("keydown", onKey, true);
addEventListener("popstate", onHistory);
// A focused row that the server's answer hides for a moment would lose the focus.
document.body.addEventListener("htmx:before:swap", () => { focused = document.activeElement.closest(".waterfall tbody > tr")?.id; });
document.body.addEventListener("htmx:after:swap", () => {
  apply();
  if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  focused = undefined;
});
