// The live event stream. Event contents come from models and web pages, so they are inserted as text only.
import { clockTodayWithSeconds, exact } from "./times.js";

const MAX_LINES = 500;
const MAX_TEXT_CHARS = 240;
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);
const list = byId("events");
const count = byId("events-count");
const away = byId("events-away");
const pauseButton = byId("events-pause");
const foldButton = byId("events-fold");
const fresh = byId("events-fresh");
const names = new Map([...document.querySelectorAll("#events-agents option")].map((option) => [option.value, option.textContent]));
const numbers = new Map();

const unnamed = new Set();
const unnumbered = new Set();
const ENDS = new Set(["iteration.completed", "iteration.failed"]);
const FOLDING = "vigil-events-fold";
const MIN_FOLDED = 2;
const unfolded = new Set();
let isFolding = localStorage.getItem(FOLDING) !== "false";
let isPaused = false;
let isScrolledAway = false;
let waiting = [];
let heldCount = 0;
let isDrawing = false;
let isConnected = false;

const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
const counted = (number, one, many = `${one}s`) => `${number.toLocaleString()} ${number === 1 ? one : many}`;
const clipped = (text) => (text.length > MAX_TEXT_CHARS ? `${text.slice(0, MAX_TEXT_CHARS)}…` : text);

const ICONS = { iteration: "refresh-cw", plan: "list-tree", query: "search", insight: "lightbulb", analysis: "brain", advice: "target", configuration: "wrench", answer: "message-square" };
const TONES = { completed: "good", produced: "good", failed: "bad", started: "busy", requested: "busy" };
const MADE = (e) => [e.queries && counted(e.queries, "query", "queries"), e.insights && counted(e.insights, "insight"), e.analyses && counted(e.analyses, "analysis", "analyses"), e.advice && `${e.advice} advice`].filter(Boolean).join(", ") || "nothing new";

const WORDS = {
  "iteration.started": (e) => `Iteration ${e.number} started, ${e.why === "run_now" ? "on request" : "on schedule"}`,
  "plan.produced": (e) => `Planned ${counted(e.queries, "query", "queries")} and ${counted(e.insights, "insight")}`,
  "plan.failed": (e) => `Planning failed: ${e.error}`,
  "query.requested": (e) => `Query: ${e.query.objective}`,
  "query.completed": (e) => `Query completed: ${counted(e.nodes, "node")} and ${counted(e.edges, "edge")} written`,
  "query.failed": (e) => `Query failed: ${e.error}`,
  "insight.requested": (e) => `Insight: ${e.insight.observation}`,
  "insight.completed": (e) => `Insight completed: ${counted(e.analyses, "analysis", "analyses")}${e.missing?.length ? `. Missing: ${e.missing.join("; ")}` : ""}`,
  "insight.failed": (e) => `Insight failed: ${e.error}`,
  "analysis.produced": (e) => `${counted(e.analysis_ids.length, "analysis is", "analyses are")} ready for advice`,
  "advice.produced": (e) => `Advice: ${e.action}`,
  "advice.completed": (e) => (e.advice ? `${counted(e.advice, "piece of advice", "pieces of advice")} written` : "No advice was written"),
  "advice.failed": (e) => `Writing advice failed: ${e.error}`,
  "iteration.completed": (e) => (e.quiet ? `Iteration ${e.number} completed: nothing was new` : `Iteration ${e.number} completed: ${MADE(e)}${e.errors?.length ? `. Failed: ${e.errors.join("; ")}` : ""}`),
  "iteration.failed": (e) => `Iteration ${e.number} failed: ${e.errors.join("; ")}`,
  "configuration.requested": () => "Configuration started",
  "configuration.completed": () => "Configuration completed",
  "configuration.failed": (e) => `Configuration failed: ${e.error}`,
  "answer.requested": () => "A message was sent to the agent",
  "answer.completed": () => "The agent answered",
  "answer.failed": (e) => `Answering failed: ${e.error}`,
};

function inWords(name, event) {
  try {
    return clipped(WORDS[name]?.(event) ?? name);
  } catch {
    return `${name}: open the details to read it`;
  }
}

// Pages that an event is about, besides its agent and its iteration.
function linksOf(name, event) {
  const at = `/agents/${encodeURIComponent(event.agent_id)}`;
  const subject = name.split(".")[0];
  if (name === "advice.produced" && event.advice_id) return [[`${at}/conclusions/${encodeURIComponent(event.advice_id)}`, "the advice"]];
  if (name === "analysis.produced") return (event.analysis_ids ?? []).slice(0, 3).map((id, place) => [`${at}/conclusions/${encodeURIComponent(id)}`, `analysis ${place + 1}`]);
  if (subject === "answer") return [[`${at}/conversation`, "conversation"]];
  if (subject === "configuration") return [[`${at}/settings`, "settings"]];
  return [];
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

// Loads what the events do not say: names of agents created after this page, and numbers of iterations.
async function learnNames() {
  const wanted = { of: [...unnamed], iteration: [...unnumbered] };
  const params = new URLSearchParams(Object.entries(wanted).flatMap(([name, ids]) => ids.map((id) => [name, id])));
  unnamed.clear();
  unnumbered.clear();
  const answer = await fetch(`/events/names?${params}`).catch(() => null);
  if (!answer?.ok) return;
  const { agents, iterations } = await answer.json();
  for (const id of wanted.of) names.set(id, agents[id] ?? null);
  for (const [id, number] of Object.entries(iterations)) numbers.set(id, number);
  for (const item of list.querySelectorAll(".event")) if (wanted.of.includes(item.dataset.agent)) showAgent(item);
  for (const link of list.querySelectorAll("[data-iteration][hidden]")) showIteration(link);
}

// A deleted agent has no name and no pages. Until the server has answered, an agent has an id only.
function showAgent(item) {
  const id = item.dataset.agent;
  const label = item.querySelector(".event-agent");
  const isNew = id && !names.has(id);
  if (isNew) unnamed.add(id);
  const name = names.get(id);
  item.toggleAttribute("data-unlinked", !name);
  const shown = name ? linkTo(`/agents/${encodeURIComponent(id)}`, name) : make("span", "", !id ? "" : isNew ? `agent ${id.slice(0, 8)}` : "deleted agent");
  shown.className = "event-agent";
  if (id && !name) shown.title = `The id of this agent is ${id}`;
  label.replaceWith(shown);
}

function linkTo(href, text) {
  const made = make("a", "", text);
  made.href = href;
  return made;
}

function iterationLink(event) {
  const link = make("a");
  link.hidden = true;
  link.dataset.iteration = event.iteration_id;
  link.dataset.of = event.agent_id;
  if (event.number) numbers.set(event.iteration_id, event.number);
  showIteration(link);
  if (link.hidden) unnumbered.add(event.iteration_id);
  return link;
}

function showIteration(link) {
  const number = numbers.get(link.dataset.iteration);
  if (number === undefined) return;
  link.href = `/agents/${encodeURIComponent(link.dataset.of)}/iterations/${number}`;
  link.textContent = `iteration ${number}`;
  link.hidden = false;
}

function icon(name, tone) {
  const made = document.createElementNS(SVG, "svg");
  made.setAttribute("class", "icon");
  made.setAttribute("aria-hidden", "true");
  if (tone) made.dataset.tone = tone;
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `${list.dataset.sprite}#${name}`);
  made.append(use);
  return made;
}

function row(message) {
  const event = parsed(message.data) ?? {};
  const at = new Date(event.occurred_at ?? Date.now());
  const tone = TONES[message.event.split(".").at(-1)] ?? "";
  const item = make("li", "event");
  item.dataset.at = at.getTime();
  item.dataset.tone = tone;
  item.dataset.agent = String(event.agent_id ?? "");
  item.dataset.event = message.event;
  item.dataset.run = String(event.iteration_id ?? "");
  const clock = make("span", "event-time", clockTodayWithSeconds(at));
  clock.title = exact(at);
  const mark = icon(tone === "bad" ? "circle-x" : ICONS[message.event.split(".")[0]] ?? "circle", tone);
  const about = make("span", "event-about");
  about.append(make("span", "event-words", inWords(message.event, event)), ...linksOf(message.event, event).map(([href, text]) => linkTo(href, text)));
  if (event.iteration_id) about.append(iterationLink(event));
  item.append(clock, mark, make("span", "event-agent"), about, make("code", "event-name", message.event), detailsButton(item, message, event));
  showAgent(item);
  return item;
}

function detailsButton(item, message, event) {
  const button = make("button", "quiet small event-more");
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  button.append(icon("chevron-down"), make("span", "unseen", `Details of ${message.event}`));
  button.addEventListener("click", () => {
    const shown = item.querySelector(".event-details");
    button.setAttribute("aria-expanded", String(!shown));
    if (shown) shown.remove();
    else item.append(details(message, event));
  });
  return button;
}

function details(message, event) {
  const box = make("div", "event-details");
  const code = make("pre", "", parsed(message.data) ? JSON.stringify(event, null, 2) : message.data);
  code.tabIndex = 0;
  box.append(code, make("p", "hint", `Number ${message.id.split("-")[0]} in the stream`));
  return box;
}

function gap(message) {
  const { first, last } = parsed(message.data) ?? {};
  const item = make("li", "event-gap");
  const words = last === null || last === undefined
    ? "The event stream was recreated. Earlier events are gone."
    : `${counted(last - first + 1, "event is", "events are")} missing here: NATS keeps events for a limited time and deleted ${last === first ? "it" : "them"} before this page could read ${last === first ? "it" : "them"}.`;
  item.append(icon("triangle-alert"), make("span", "", words));
  return item;
}

function take(message) {
  if (message.event === "end") {
    sayAway(parsed(message.data)?.detail ?? "The stream has ended. Reload the page to continue.");
    return;
  }
  waiting.push(message);
  if (waiting.length > MAX_LINES) waiting.shift();
  if (isHolding()) {
    heldCount += 1;
    showHeld();
  } else {
    draw();
  }
}

// Of an iteration that has ended, its last event stands for all; failures stay visible.
function foldIterations() {
  const items = [...list.querySelectorAll('.event:not([data-run=""])')];
  for (const end of items.filter((item) => ENDS.has(item.dataset.event))) {
    const { run } = end.dataset;
    const others = items.filter((item) => item !== end && item.dataset.run === run && item.dataset.tone !== "bad");
    const canFold = isFolding && others.length >= MIN_FOLDED;
    const isFolded = canFold && !unfolded.has(run);
    for (const item of others) item.hidden = isFolded;
    showFold(end, canFold ? others.length : 0, isFolded);
  }
}

function showFold(end, many, isFolded) {
  let button = end.querySelector(".event-fold");
  if (!many) return button?.remove();
  if (!button) {
    button = make("button", "quiet small event-fold");
    button.type = "button";
    button.addEventListener("click", () => {
      if (!unfolded.delete(end.dataset.run)) unfolded.add(end.dataset.run);
      foldIterations();
    });
    end.querySelector(".event-about").append(button);
  }
  button.setAttribute("aria-expanded", String(!isFolded));
  button.textContent = `${isFolded ? "" : "Hide "}${many} more`;
  button.setAttribute("aria-label", `${isFolded ? "Show" : "Hide"} ${many} more events of this iteration`);
}

function setFolding(folds) {
  isFolding = folds;
  localStorage.setItem(FOLDING, String(folds));
  foldButton.setAttribute("aria-pressed", String(folds));
  foldIterations();
}

// New lines would move what is being read.
const isHolding = () => isPaused || isScrolledAway;

function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    if (isHolding()) return;
    list.prepend(...waiting.map((message) => (message.event === "gap" ? gap(message) : row(message))).reverse());
    waiting = [];
    heldCount = 0;
    while (list.children.length > MAX_LINES) list.lastElementChild.remove();
    if (unnamed.size || unnumbered.size) learnNames();
    foldIterations();
    showHeld();
    showCount();
    showVolume();
  });
}

function showCount() {
  const rows = list.children.length;
  byId("events-none").hidden = rows > 0;
  count.textContent = rows === 0 ? "" : rows < MAX_LINES ? counted(rows, "event") : `Newest ${MAX_LINES} events`;
}

function showHeld() {
  fresh.hidden = heldCount === 0;
  byId("events-show").querySelector("span").textContent = `${heldCount.toLocaleString()} new ${heldCount === 1 ? "event" : "events"}`;
}

const VOLUME_BARS = 60;
const VOLUME_HEIGHT = 32;

// How many events there were over the time that the list covers; failures at the top of each bar.
function showVolume() {
  const rows = [...list.querySelectorAll("[data-at]")].map((item) => ({ at: Number(item.dataset.at), isBad: item.dataset.tone === "bad" }));
  const first = Math.min(...rows.map(({ at }) => at));
  const last = Math.max(...rows.map(({ at }) => at));
  const span = last - first;
  byId("events-volume").hidden = rows.length < 2 || span <= 0;
  if (rows.length < 2 || span <= 0) return;
  const bars = Array.from({ length: VOLUME_BARS }, () => ({ all: 0, bad: 0 }));
  for (const { at, isBad } of rows) {
    const bar = bars[Math.min(VOLUME_BARS - 1, Math.floor(((at - first) / span) * VOLUME_BARS))];
    bar.all += 1;
    bar.bad += isBad ? 1 : 0;
  }
  const most = Math.max(...bars.map(({ all }) => all));
  const from = (place) => clockTodayWithSeconds(new Date(first + (span * place) / VOLUME_BARS));
  byId("events-volume").querySelector("svg").replaceChildren(...bars.flatMap(({ all, bad }, place) => {
    const height = all ? Math.max(2, (all / most) * VOLUME_HEIGHT) : 0;
    const badHeight = all ? (height * bad) / all : 0;
    const title = `${from(place)}: ${counted(all, "event")}${bad ? `, ${bad} failed` : ""}`;
    return [bar(place, VOLUME_HEIGHT - height + badHeight, height - badHeight, "", title), bar(place, VOLUME_HEIGHT - height, badHeight, "bad", title)];
  }));
  byId("events-first").textContent = from(0);
  byId("events-most").textContent = `The highest bar is ${counted(most, "event")}`;
  byId("events-last").textContent = clockTodayWithSeconds(new Date(last));
}

function bar(place, y, height, tone, words) {
  const made = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({ x: place * 4, y, width: 3, height })) made.setAttribute(name, value);
  if (tone) made.dataset.tone = tone;
  const title = document.createElementNS(SVG, "title");
  title.textContent = words;
  made.append(title);
  return made;
}

function setPaused(paused) {
  isPaused = paused;
  pauseButton.setAttribute("aria-pressed", String(isPaused));
  for (const words of pauseButton.querySelectorAll("[data-when]")) words.hidden = (words.dataset.when === "paused") !== isPaused;
  if (!isHolding()) draw();
}

function showNew() {
  byId("events-top").scrollIntoView({ block: "center" });
  isScrolledAway = false;
  setPaused(false);
}

function sayAway(words) {
  away.textContent = words;
  away.hidden = false;
}

function listen() {
  const on = (name, then) => document.body.addEventListener(name, then);
  on("vigil:event", ({ detail }) => take(detail));
  on("vigil:live", () => { isConnected = away.hidden = true; });
  on("vigil:away", () => {
    isConnected = false;
    sayAway("Connection lost. Vigil reconnects automatically and then shows the missed events.");
  });
  addEventListener("offline", () => sayAway("This device is offline. Missed events appear when it is back online."));
  addEventListener("online", () => { away.hidden = isConnected; });
  pauseButton.addEventListener("click", () => setPaused(!isPaused));
  foldButton.addEventListener("click", () => setFolding(!isFolding));
  setFolding(isFolding);
  byId("events-show").addEventListener("click", showNew);
  new IntersectionObserver(([top]) => {
    isScrolledAway = !top.isIntersecting && top.boundingClientRect.top < 0;
    if (!isHolding()) draw();
  }).observe(byId("events-top"));
}

if (list) listen();
