// What runs ticks between two answers of the server: durations, bars, how long until a step is tried again.
import { tell } from "./times.js";

const TICK_MS = 250;
let aheadMs = 0;

function setClock() {
  const told = document.querySelector("[data-now]");
  if (told) aheadMs = Date.parse(told.dataset.now) - Date.now();
}

const secondsSince = (moment) => Math.max(0, (Date.now() + aheadMs - Date.parse(moment)) / 1000);

function tick() {
  for (const each of document.querySelectorAll("[data-since]")) say(each, span(secondsSince(each.dataset.since)));
  for (const bars of document.querySelectorAll("[data-open]")) grow(bars, secondsSince(bars.dataset.open));
  tell(document.getElementById("now") ?? document);
}

function say(each, words) {
  if (each.textContent !== words) each.textContent = words;
}

function grow(bars, total) {
  for (const axis of bars.querySelectorAll("svg")) axis.setAttribute("viewBox", `0 0 ${total} 1`);
  for (const bar of bars.querySelectorAll("[data-grows]")) bar.setAttribute("width", Math.max(0, total - bar.getAttribute("x")));
}

// As `formats.span` has it, in whole seconds.
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
