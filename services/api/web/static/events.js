// The live events of the page Operate. Event contents come from models and web pages, so they are inserted as text only.
import { clockTodayWithSeconds, exact } from "./times.js";

const MAX_LINES = 100;
const MAX_TEXT_CHARS = 240;
const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);
const list = byId("events");
const away = byId("events-away");
const names = new Map([...byId("events-agents").children].map((agent) => [agent.value, agent.textContent]));
const numbers = new Map();
let waiting = [];
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

// Agents that were deleted, or created after this page was loaded, have no name here, and no link.
function agentLabel(id) {
  const name = names.get(id);
  const label = name ? linkTo(`/agents/${encodeURIComponent(id)}`, name) : make("span", "", id ? `agent ${id.slice(0, 8)}` : "");
  label.className = "event-agent";
  return label;
}

function linkTo(href, text) {
  const made = make("a", "", text);
  made.href = href;
  return made;
}

// Not all events of an iteration have its number, but its start has.
function iterationLink(event) {
  const number = numbers.get(event.iteration_id);
  return number === undefined ? [] : [linkTo(`/agents/${encodeURIComponent(event.agent_id)}/iterations/${number}`, `iteration ${number}`)];
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
  item.dataset.tone = tone;
  const clock = make("span", "event-time", clockTodayWithSeconds(at));
  clock.title = exact(at);
  const mark = icon(tone === "bad" ? "circle-x" : ICONS[message.event.split(".")[0]] ?? "circle", tone);
  const about = make("span", "event-about");
  about.append(make("span", "event-words", inWords(message.event, event)));
  if (names.has(event.agent_id)) about.append(...linksOf(message.event, event).map(([href, text]) => linkTo(href, text)), ...iterationLink(event));
  item.append(clock, mark, agentLabel(String(event.agent_id ?? "")), about, make("code", "event-name", message.event), detailsButton(item, message, event));
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
  const { iteration_id: iteration, number } = parsed(message.data) ?? {};
  if (number) numbers.set(iteration, number);
  waiting.push(message);
  if (waiting.length > MAX_LINES) waiting.shift();
  draw();
}

function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    list.prepend(...waiting.map((message) => (message.event === "gap" ? gap(message) : row(message))).reverse());
    waiting = [];
    while (list.children.length > MAX_LINES) list.lastElementChild.remove();
    byId("events-none").hidden = list.children.length > 0;
  });
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
}

listen();
