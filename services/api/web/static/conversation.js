// The conversation page: streams answers, and adds messages that were sent from other windows.
import { listen } from "./live.js";
import { formatTimes } from "./times.js";

const thread = document.getElementById("thread");
const form = document.getElementById("ask");
const suggestions = document.getElementById("suggestions");
const refused = document.getElementById("refused");
const AS_PART = { "HX-Request": "true", Accept: "text/html" };
const CITATION = /\[(node|edge):[0-9a-f-]{36}\]/gi;
const PART_OF_CITATION = /\[(?:n(?:o(?:d(?:e(?::[0-9a-f-]*)?)?)?)?|e(?:d(?:g(?:e(?::[0-9a-f-]*)?)?)?)?)?$/i;
const NEAR_END_PX = 160;
const TOOLS = JSON.parse(thread.dataset.tools);
const OTHER_TOOL_ICON = "wrench";

let followed = null;

// Answers are written one after another, so they are followed one after another.
function followNext() {
  if (followed?.isConnected) return;
  followed = thread.querySelector("[data-stream]");
  if (followed) follow(followed);
}

function follow(article) {
  const words = article.querySelector(".words");
  const looks = article.querySelector(".looks");
  const progress = article.querySelector("[data-progress-word]");
  let text = "";
  let looked = 0;
  const on = {};
  on.text = (piece) => {
    // The stream begins with the whole text so far; a resumed stream begins where it stopped.
    text = piece.offset === 0 ? piece.text : text + piece.text;
    words.textContent = rendered(text);
    progress.textContent = "Writing";
  };
  on.restart = () => { text = words.textContent = ""; };
  on.tool = (use) => {
    const list = looks.querySelector("ul");
    if (looked++ === 0) list.replaceChildren();
    list.append(lineOf(use));
    looks.querySelector(".looks-count").textContent = looked === 1 ? "1 lookup" : `${looked} lookups`;
    looks.hidden = false;
    progress.textContent = "Looking things up";
  };
  on.complete = on.failed = async () => {
    stop();
    try {
      await replace(article);
      followNext();
    } catch (error) {
      sayFailed(error);
    }
  };
  const stop = listen(article.dataset.stream, {
    open: () => {},
    lost: () => { progress.textContent = "Reconnecting"; },
    take: ({ event, data }) => keepingEnd(() => on[event]?.(JSON.parse(data))),
  });
}

function lineOf(use) {
  const tool = TOOLS[use.tool] ?? { icon: OTHER_TOOL_ICON, words: use.tool };
  const line = document.createElement("li");
  const words = document.createElement("span");
  words.textContent = tool.words + (use.about ? `: ${use.about}` : "");
  line.append(icon(tool.icon), words);
  return line;
}

function icon(name) {
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${thread.dataset.icons}#${name}`);
  picture.setAttribute("class", "icon");
  picture.setAttribute("aria-hidden", "true");
  picture.append(use);
  return picture;
}

// In an unfinished answer a citation is a marker; in a finished one it is a link with a name.
function rendered(text) {
  return text.replace(CITATION, "◦").replace(PART_OF_CITATION, "");
}

async function replace(article) {
  const page = await part(article.dataset.page, "messages");
  const [fresh] = articlesIn(page);
  keepingEnd(() => article.replaceWith(fresh));
  formatTimes(fresh);
}

function sayFailed(error) {
  const message = document.getElementById("page-error");
  message.textContent = `Some messages could not be loaded: ${error.message}. Reload the page in a moment.`;
  message.hidden = false;
}

// Adds the messages that the page does not have yet.
async function takeNew() {
  if (thread.dataset.newest === undefined) return;
  const articles = articlesIn(await part(location.pathname, "messages"));
  const added = articles.filter((article) => !document.getElementById(article.id));
  keepingEnd(() => thread.append(...added));
  added.forEach((article) => formatTimes(article));
  if (added.length) document.getElementById("nothing-said")?.remove();
  followNext();
}

async function showEarlier(event) {
  const link = event.target.closest("[data-earlier]");
  if (!link) return;
  event.preventDefault();
  const cursor = new URL(link.href).searchParams.get("cursor");
  let messages, more;
  try {
    [messages, more] = await Promise.all(["messages", "earlier"].map((name) => part(location.pathname, name, cursor)));
  } catch (error) {
    sayFailed(error);
    return;
  }
  const before = document.documentElement.scrollHeight - scrollY;
  const added = articlesIn(messages);
  thread.prepend(...added);
  added.forEach((article) => formatTimes(article));
  link.closest(".more").replaceWith(...fragment(more).children);
  scrollTo(0, document.documentElement.scrollHeight - before);
}

async function part(path, name, cursor) {
  const query = new URLSearchParams({ part: name, ...(cursor ? { cursor } : {}) });
  const answer = await request(`${path}?${query}`);
  if (!answer.ok) throw new Error(`the server answered with ${answer.status}`);
  return answer.text();
}

// Redirects to the sign-in page when the session has ended.
async function request(path, how = {}) {
  const answer = await fetch(path, { ...how, headers: AS_PART });
  const elsewhere = answer.headers.get("HX-Redirect");
  if (elsewhere) {
    location.assign(elsewhere);
    throw new Error("you are signed out");
  }
  return answer;
}

function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

function articlesIn(html) {
  return [...fragment(html).querySelectorAll("article")];
}

async function ask(event) {
  event.preventDefault();
  const field = form.elements.content;
  if (field.value.trim() && await send(new FormData(form))) field.value = "";
  field.focus();
}

async function askSuggested(event) {
  event.preventDefault();
  await send(new FormData(suggestions, event.submitter));
  form.elements.content.focus();
}

// Whether the message was sent; otherwise the page says why it was not.
async function send(fields) {
  const buttons = document.querySelectorAll("#ask button, #suggestions button");
  buttons.forEach((button) => { button.disabled = true; });
  refused.hidden = true;
  let isSent = false;
  try {
    const answer = await request(form.action, { method: "POST", body: new URLSearchParams(fields) });
    isSent = answer.ok;
    if (isSent) {
      await takeNew();
      scrollTo(0, document.documentElement.scrollHeight);
    } else {
      refused.replaceChildren(fragment(await answer.text()));
      refused.hidden = false;
    }
  } catch {
    refused.textContent = isSent
      ? "Your message was sent, but the page could not be updated. Reload it."
      : "Vigil cannot be reached. Your message is still here: check the connection, then send it again.";
    refused.hidden = false;
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
  return isSent;
}

function sendOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
}

function keepingEnd(change) {
  const root = document.documentElement;
  const isAtEnd = root.scrollHeight - scrollY - innerHeight < NEAR_END_PX;
  change();
  if (isAtEnd) scrollTo(0, root.scrollHeight);
}

form?.addEventListener("submit", ask);
suggestions?.addEventListener("submit", askSuggested);
form?.elements.content.addEventListener("keydown", sendOnEnter);
document.addEventListener("click", showEarlier);
for (const name of ["answer.requested", "advice.produced"]) document.body.addEventListener(name, () => takeNew().catch(sayFailed));
if (!location.hash && form) scrollTo(0, document.documentElement.scrollHeight);
followNext();
