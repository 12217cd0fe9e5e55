// Small charts of the last minutes: messages of each service between two updates of the page.
const KEPT_MS = 300_000;
const BARS = 60;
const BAR_MS = KEPT_MS / BARS;
const HEIGHT = 24;
const STORE = "vigil-health";
const SVG = "http://www.w3.org/2000/svg";

// Kept while the tab is open, so that another page in between does not empty the charts.
let samples = read();

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(STORE)) ?? {};
  } catch {
    return {};
  }
}

function take() {
  const now = Date.now();
  for (const row of document.querySelectorAll("[data-delivered]")) {
    const { service, delivered, waiting } = row.dataset;
    const kept = (samples[service] ?? []).filter(([at]) => now - at <= KEPT_MS + BAR_MS);
    kept.push([now, Number(delivered), Number(waiting)]);
    samples[service] = kept;
    draw(row.querySelector("[data-history]"), kept, now);
  }
  sessionStorage.setItem(STORE, JSON.stringify(samples));
}

function draw(chart, kept, now) {
  const bars = Array.from({ length: BARS }, () => ({ messages: 0, waiting: 0, known: false }));
  for (let place = 1; place < kept.length; place += 1) {
    const [at, delivered, waiting] = kept[place];
    const bar = bars[BARS - 1 - Math.floor((now - at) / BAR_MS)];
    if (!bar) continue;
    bar.messages += Math.max(0, delivered - kept[place - 1][1]);
    bar.waiting = Math.max(bar.waiting, waiting);
    bar.known = true;
  }
  const most = Math.max(4, ...bars.map(({ messages }) => messages));
  chart.replaceChildren(...bars.map((bar, place) => rectangle(bar, place, most)));
}

function rectangle({ messages, waiting, known }, place, most) {
  const made = document.createElementNS(SVG, "rect");
  const height = messages ? Math.max(3, (messages / most) * HEIGHT) : 1;
  const sizes = { x: place * 4, y: HEIGHT - height, width: 3, height };
  for (const [name, value] of Object.entries(sizes)) made.setAttribute(name, value);
  if (!messages || !known) made.dataset.tone = "idle";
  else if (waiting) made.dataset.tone = "warn";
  const title = document.createElementNS(SVG, "title");
  title.textContent = known ? `${messages} message${messages === 1 ? "" : "s"}${waiting ? `, ${waiting} waiting` : ""}` : "not measured";
  made.append(title);
  return made;
}

take();
document.body.addEventListener("htmx:after:swap", take);
