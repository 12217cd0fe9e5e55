// Updates running durations, progress bars and retry times between two responses of the server.
import { formatTimes } from "./times.js";

const TICK_MS = 250;
let aheadMs = 0;

function setClock() {
  const clock = document.querySelector("[data-now]");
  if (clock) aheadMs = Date.parse(clock.dataset.now) - Date.now();
}

const secondsSince = (moment) => Math.max(0, (Date.now() + aheadMs - Date.parse(moment)) / 1000);

function tick() {
  for (const element of document.querySelectorAll("[data-since]")) setText(element, span(secondsSince(element.dataset.since)));
  for (const bars of document.querySelectorAll("[data-open]")) grow(bars, secondsSince(bars.dataset.open));
  formatTimes(document.getElementById("now") ?? document);
}

function setText(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function grow(bars, total) {
  for (const axis of bars.querySelectorAll("svg")) axis.setAttribute("viewBox", `0 0 ${total} 1`);
  for (const bar of bars.querySelectorAll("[data-grows]")) bar.setAttribute("width", Math.max(0, total - bar.getAttribute("x")));
}

// The same format as `filters.duration`, in whole seconds.
function span(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${whole / 60} min`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

setClock();
tick();
setInterval(tick, TICK_MS);
document.body.addEventListener("htmx:after:swap", () => { setClock(); tick(); });
