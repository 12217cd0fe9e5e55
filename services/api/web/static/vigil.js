// Runs on every page: times, the state of the live stream, keyboard shortcuts, the theme.
import { formatTimes } from "./times.js";

const REFRESH_TIMES_MS = 10_000;

function whenReady() {
  formatTimes();
  setInterval(formatTimes, REFRESH_TIMES_MS);
  document.body.addEventListener("htmx:after:swap", () => formatTimes());
  watchStream();
  listenToKeys();
  document.querySelector("[data-theme-switch]")?.addEventListener("click", switchTheme);
  document.body.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });
  document.body.addEventListener("submit", askFirst);
  document.body.addEventListener("click", copy);
  document.body.addEventListener("htmx:error", sayFailed);
  document.body.addEventListener("htmx:response:error", sayFailed);
}

function watchStream() {
  const state = document.getElementById("live-state");
  if (!state) return;
  const setConnection = (name, words) => {
    state.dataset.state = name;
    state.querySelector("[data-word]").textContent = words;
  };
  const on = (name, then) => document.body.addEventListener(name, then);
  on("htmx:sse:after:connection", () => setConnection("live", "Live"));
  on("htmx:sse:error", () => setConnection("broken", "Reconnecting"));
  on("htmx:sse:close", () => setConnection("broken", "Not live"));
  addEventListener("offline", () => setConnection("broken", "Offline"));
}

const PLACES = { a: "/agents", i: "/inbox", c: "/costs", e: "/events", d: "/dead-letters", h: "/health-of-all", s: "/settings" };
const CHORD_MS = 1_000;

function listenToKeys() {
  let begun = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); }
    } else if (event.key === "?") {
      document.getElementById("keys")?.showModal();
    } else if (event.key === "g") {
      begun = Date.now();
    } else if (Date.now() - begun < CHORD_MS && PLACES[event.key]) {
      begun = 0;
      if (document.querySelector(`[data-key="${event.key}"]`)) location.assign(PLACES[event.key]);
    }
  });
}

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input, textarea, select"));
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("vigil-theme", root.dataset.theme);
  document.dispatchEvent(new CustomEvent("vigil:theme"));
}

// `data-asks` on a form: the question to confirm before it is sent.
function askFirst(event) {
  const question = event.target.dataset.asks;
  if (question && !confirm(question)) event.preventDefault();
}

async function copy(event) {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
  button.textContent = "Copied";
}

function sayFailed(event) {
  const message = document.getElementById("told");
  if (!message) return;
  const status = event.detail?.ctx?.response?.status;
  message.textContent = status ? `Vigil could not answer this (${status}). Try again in a moment.` : "Vigil is not reached. Try again in a moment.";
  message.hidden = false;
}

whenReady();
