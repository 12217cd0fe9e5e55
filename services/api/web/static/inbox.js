// The inbox: keys, the chosen row, and the next item after a decision.
const CHORD_MS = 1_000;
const STEPS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
const BUTTONS = { a: "accept", d: "dismiss", s: "snooze", Enter: "open" };
const MARKS = { u: "unread", e: "read" };

let startedMs = 0;
let following = null;

function rows() {
  return [...document.querySelectorAll(".inbox .row")];
}

function chosen() {
  return document.querySelector("#item article")?.dataset.item ?? null;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isBusy(event.target)) return;
  if (event.key === "g") startedMs = Date.now();
  if (Date.now() - startedMs < CHORD_MS) return;
  if (event.key in STEPS) {
    event.preventDefault();
    step(STEPS[event.key]);
  } else if (event.key === "f") {
    const field = document.getElementById("feedback-text");
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key in MARKS && chosen()) {
    send(chosen(), MARKS[event.key]);
  } else if (event.key in BUTTONS && !(event.key === "Enter" && isControl(event.target))) {
    event.preventDefault();
    press(BUTTONS[event.key]);
  }
}

// Enter presses a control that has the focus. On the chosen row it opens the advice.
function isControl(target) {
  return target.closest("a, button, summary, input") && !target.matches(".row[aria-current]");
}

function isBusy(target) {
  return document.querySelector("dialog[open]") || (target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=radio]), textarea, select")));
}

function step(by) {
  const all = rows();
  const place = all.findIndex((row) => row.dataset.item === chosen());
  const next = place < 0 ? all[by > 0 ? 0 : all.length - 1] : all[place + by];
  if (next) open(next);
}

function open(row) {
  row.click();
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function press(action) {
  const button = document.querySelector(`#item [data-does="${action}"]`);
  if (!button) return;
  button.click();
  if (action === "snooze") document.querySelector("#snooze button")?.focus();
}

async function send(item, command) {
  await fetch(`/inbox/${item}/${command}`, { method: "POST", headers: { "HX-Request": "true" } });
  document.body.dispatchEvent(new CustomEvent("inbox-changed"));
}

// After a decision the next item is shown, when the list has come without the decided one.
function onSubmit(event) {
  const done = event.target.dataset.advances;
  if (!done) return;
  const all = rows();
  const place = all.findIndex((row) => row.dataset.item === chosen());
  const next = all[place + 1] ?? all[place - 1] ?? null;
  following = { item: next?.dataset.item ?? null };
  announce(done, chosen(), document.querySelector("#item article").dataset.title);
}

function announce(done, item, title) {
  const place = document.getElementById("inbox-said");
  const undo = document.createElement("button");
  undo.type = "button";
  undo.className = "small";
  undo.textContent = "Undo";
  undo.addEventListener("click", async () => {
    await send(item, "reopen");
    place.hidden = true;
  });
  place.replaceChildren(`${done}: ${title} `, undo);
  place.hidden = false;
}

function afterSwap(event) {
  const layout = document.querySelector(".inbox");
  layout.toggleAttribute("data-chosen", chosen() !== null);
  const item = chosen();
  for (const row of rows()) {
    if (row.dataset.item === item) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  if (!following || !event.target.closest("#inbox")) return;
  const next = rows().find((row) => row.dataset.item === following.item);
  following = null;
  if (next) open(next);
  else showNothing();
}

// In place: loading the page again would lose the button that undoes the decision.
function showNothing() {
  const place = document.querySelector("[data-back]").href;
  history.replaceState(null, "", place);
  htmx.ajax("GET", `${place}&part=item`, "#item");
}

document.addEventListener("keydown", onKey);
document.body.addEventListener("submit", onSubmit);
document.body.addEventListener("htmx:after:swap", afterSwap);
