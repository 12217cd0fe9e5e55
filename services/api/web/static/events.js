// The live event stream. Event contents come from models and web pages, so they are inserted as text only.
const MAX_LINES = 500;
const TONES = { completed: "good", failed: "bad", started: "busy", requested: "busy", produced: "warn" };
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const MAX_TEXT_CHARS = 200;

const list = document.getElementById("events");
const count = document.getElementById("events-count");
const heldBack = document.getElementById("events-held");
const away = document.getElementById("events-away");
const pauseButton = document.getElementById("events-pause");
const names = new Map([...document.querySelectorAll("#events-agents option")].map((option) => [option.value, option.textContent]));

const unnamed = new Set();
let isPaused = false;
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

const WORDS = {
  "iteration.started": (e) => `iteration ${e.number}, ${e.why === "run_now" ? "asked for" : "due"}`,
  "plan.produced": (e) => `${counted(e.queries, "query", "queries")}, ${counted(e.insights, "insight")}`,
  "query.requested": (e) => e.query.objective,
  "query.completed": (e) => `${counted(e.nodes, "node")}, ${counted(e.edges, "edge")}`,
  "insight.requested": (e) => e.insight.observation,
  "insight.completed": (e) => counted(e.analyses, "analysis", "analyses") + (e.missing?.length ? `; missing: ${e.missing.join("; ")}` : ""),
  "analysis.produced": (e) => `${counted(e.analysis_ids.length, "analysis", "analyses")} to weigh`,
  "advice.produced": (e) => e.action,
  "advice.completed": (e) => (e.advice ? `${e.advice} advised` : "nothing to advise"),
  "iteration.completed": (e) => `iteration ${e.number}: ${counted(e.queries, "query", "queries")}, ${counted(e.insights, "insight")}, ${counted(e.analyses, "analysis", "analyses")}, ${e.advice} advised`,
  "iteration.failed": (e) => `iteration ${e.number}: ${e.errors.join("; ")}`,
  "configuration.requested": () => "to be made of its mission",
  "configuration.completed": () => "ready",
  "answer.requested": () => "somebody has written to it",
  "answer.completed": () => "it has answered",
};

function inWords(name, event) {
  if (event.error) return clipped(String(event.error));
  try {
    return clipped(WORDS[name]?.(event) ?? "");
  } catch {
    return "told in a way that this page does not know; unfold it";
  }
}

function parsed(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

// Loads the names of agents that were created after this page. A deleted agent keeps the beginning of its id.
async function learnNames() {
  const params = new URLSearchParams([...unnamed].map((id) => ["of", id]));
  unnamed.clear();
  const answer = await fetch(`/events/names?${params}`).catch(() => null);
  if (!answer?.ok) return;
  for (const [id, name] of Object.entries(await answer.json())) names.set(id, name);
  for (const label of list.querySelectorAll(".events-agent")) label.textContent = names.get(label.dataset.agent);
}

function nameOf(agentId) {
  if (agentId && !names.has(agentId)) {
    names.set(agentId, `agent ${String(agentId).slice(0, 8)}`);
    unnamed.add(agentId);
  }
  return names.get(agentId);
}

function row(message) {
  const event = parsed(message.data) ?? {};
  const at = new Date(event.occurred_at ?? Date.now());
  const item = make("li");
  const details = make("details");
  const summary = make("summary");
  const clock = make("span", "events-time mono", CLOCK.format(at));
  clock.title = EXACT.format(at);
  const name = make("span", "pill", message.event);
  name.dataset.tone = TONES[message.event.split(".").at(-1)] ?? "";
  const agent = make("span", "events-agent", nameOf(event.agent_id));
  agent.dataset.agent = event.agent_id;
  summary.append(clock, make("span", "events-name"), agent, make("span", "events-words", inWords(message.event, event)));
  summary.children[1].append(name);
  details.append(summary);
  details.addEventListener("toggle", () => unfold(details, message, event), { once: true });
  item.append(details);
  return item;
}

function unfold(details, message, event) {
  const facts = make("p", "hint", `Number ${message.id.split("-")[0]} in the stream · `);
  if (event.agent_id) {
    const link = make("a", "", "its agent");
    link.href = `/agents/${encodeURIComponent(event.agent_id)}`;
    facts.append(link);
  }
  const code = make("pre", "", parsed(message.data) ? JSON.stringify(event, null, 2) : message.data);
  code.tabIndex = 0;
  details.append(facts, code);
}

function gap(message) {
  const { first, last } = parsed(message.data) ?? {};
  const lost = last === null || last === undefined
    ? "The stream was made anew: what stood in it before is gone."
    : `${counted(last - first + 1, "event")} ${last === first ? "is" : "are"} no longer kept: ${last === first ? "it was" : "they were"} asked for too late.`;
  return make("li", "events-gap", lost);
}

function take(message) {
  if (message.event === "end") {
    sayAway(parsed(message.data)?.detail ?? "The stream was ended.");
    return;
  }
  waiting.push(message);
  if (waiting.length > MAX_LINES) waiting.shift();
  if (isPaused) {
    heldCount += 1;
    showPausedCount();
  } else {
    draw();
  }
}

function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    if (isPaused) return;
    const rows = waiting.map((message) => (message.event === "gap" ? gap(message) : row(message))).reverse();
    waiting = [];
    list.prepend(...rows);
    while (list.children.length > MAX_LINES) list.lastElementChild.remove();
    if (unnamed.size) learnNames();
    showCount();
  });
}

function showCount() {
  const rows = list.children.length;
  document.getElementById("events-none").hidden = rows > 0;
  if (rows === 0) count.textContent = "No events yet";
  else count.textContent = rows < MAX_LINES ? counted(rows, "event") : `The newest ${MAX_LINES} events; older ones leave this page`;
}

function showPausedCount() {
  heldBack.textContent = isPaused ? ` · ${counted(heldCount, "event").replace(/ events?$/, "")} held back` : "";
}

function pause() {
  isPaused = !isPaused;
  pauseButton.setAttribute("aria-pressed", String(isPaused));
  pauseButton.textContent = isPaused ? "Go on" : "Pause";
  heldCount = 0;
  showPausedCount();
  if (!isPaused) draw();
}

function sayAway(words) {
  away.textContent = words;
  away.hidden = false;
}

function listen() {
  const on = (name, then) => document.body.addEventListener(name, then);
  on("htmx:sse:after:message", ({ detail }) => take(detail.message));
  on("htmx:sse:after:connection", () => { isConnected = away.hidden = true; });
  on("htmx:sse:error", () => {
    isConnected = false;
    sayAway("The stream is away. It is tried again by itself, and what is missed meanwhile comes after.");
  });
  addEventListener("offline", () => sayAway("This machine is offline. What is missed meanwhile comes after."));
  addEventListener("online", () => { away.hidden = isConnected; });
  pauseButton.addEventListener("click", pause);
  document.getElementById("events-clear").addEventListener("click", () => { list.replaceChildren(); showCount(); });
}

if (list) listen();
