// Runs on every page: times, the state of the live stream, keyboard shortcuts, the palette, the theme.
import { listenToQuestions } from "./confirm.js";
import { followEvents } from "./live.js";
import { formatTimes } from "./times.js";
import { listenToPalette, openPalette } from "./palette.js";

const REFRESH_TIMES_MS = 10_000;

function whenReady() {
  formatTimes();
  setInterval(formatTimes, REFRESH_TIMES_MS);
  document.body.addEventListener("htmx:after:swap", () => formatTimes());
  watchStream();
  listenToKeys();
  listenToPalette();
  showTabs();
  nameTheme();
  document.addEventListener("vigil:theme", nameTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  document.body.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });
  listenToQuestions();
  document.body.addEventListener("click", onClick);
  document.body.addEventListener("click", copy);
  document.body.addEventListener("htmx:error", sayFailed);
  document.body.addEventListener("htmx:response:error", sayFailed);
}

function onClick(event) {
  const button = event.target.closest("button, summary, [data-opens-palette]");
  closeMenus(event.target);
  focusWrongField(event.target.closest('a[href^="#"][href$="-error"]'));
  if (!button) return;
  if (button.matches("[data-theme-switch]")) switchTheme();
  else if (button.matches("[data-opens-palette]")) openPalette();
  else if (button.dataset.opens) document.getElementById(button.dataset.opens)?.showModal();
  else if (button.dataset.fills) fill(document.getElementById(button.dataset.fills), button.dataset.text);
  else if (button.dataset.folds) fold(button, document.getElementById(button.dataset.folds));
}

// A menu closes when something else is clicked.
function closeMenus(target) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(target)) menu.open = false;
}

// A link to an error leads on to the field that it is about, or to the first of a group.
function focusWrongField(link) {
  const field = link && document.querySelector(`[aria-describedby~="${link.hash.slice(1)}"]`);
  const input = field?.matches("fieldset") ? field.querySelector("input") : field;
  // After the browser has followed the link.
  if (input) setTimeout(() => input.focus());
}

function fill(field, text) {
  field.value = text;
  field.focus();
}

function fold(button, element) {
  const isOpen = element.toggleAttribute("data-open");
  button.setAttribute("aria-expanded", String(isOpen));
}

// Rows of tabs that are wider than the window start at the current tab; an edge that hides tabs fades.
function showTabs() {
  const rows = document.querySelectorAll(".tabs");
  const fade = (row) => {
    row.toggleAttribute("data-more-before", row.scrollLeft > 1);
    row.toggleAttribute("data-more-after", row.scrollLeft + row.clientWidth < row.scrollWidth - 1);
  };
  for (const row of rows) {
    const current = row.querySelector("[aria-current]")?.parentElement;
    if (current) row.scrollLeft = current.offsetLeft - row.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
    row.addEventListener("scroll", () => fade(row), { passive: true });
    new ResizeObserver(() => fade(row)).observe(row);
  }
}

function watchStream() {
  const state = document.getElementById("live-state");
  if (!state) return;
  const setConnection = (name, words) => {
    state.dataset.state = name;
    state.querySelector("[data-word]").textContent = words;
  };
  const on = (name, then) => document.body.addEventListener(name, then);
  on("vigil:live", () => setConnection("live", "Live"));
  on("vigil:away", () => setConnection("broken", "Reconnecting"));
  addEventListener("offline", () => setConnection("broken", "Offline"));
}

const PLACES = { a: "/agents", i: "/inbox", c: "/costs", o: "/operate", s: "/settings" };
const CHORD_MS = 1_000;

function listenToKeys() {
  let startedMs = 0;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); }
    } else if (event.key === "?") {
      document.getElementById("keys")?.showModal();
    } else if (event.key === "t" && Date.now() - startedMs >= CHORD_MS) {
      switchTheme();
    } else if (event.key === "g") {
      startedMs = Date.now();
    } else if (Date.now() - startedMs < CHORD_MS && PLACES[event.key]) {
      startedMs = 0;
      if (document.querySelector(`[data-key="${event.key}"]`)) location.assign(PLACES[event.key]);
    }
  });
}

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function nameTheme() {
  const word = document.querySelector("[data-theme-word]");
  if (word) word.textContent = isDark() ? "Light theme" : "Dark theme";
}

function switchTheme() {
  const root = document.documentElement;
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("vigil-theme", root.dataset.theme);
  nameTheme();
  document.dispatchEvent(new CustomEvent("vigil:theme"));
}

async function copy(event) {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  const words = button.querySelector("[data-copies-word]") ?? button;
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
    words.textContent = "Copied";
  } catch {
    words.textContent = "Copy it manually";
  }
}

function sayFailed(event) {
  const message = document.getElementById("page-error");
  if (!message) return;
  const status = event.detail?.ctx?.response?.status;
  message.textContent = status ? `Vigil could not answer this request (${status}). Try again in a moment.` : "Vigil cannot be reached. Check that it is running, then try again.";
  message.hidden = false;
}

whenReady();
// Scripts of the page that listen to events run after this one.
addEventListener("load", followEvents);
