// A conversation: answers appear as they are written, and what is said elsewhere appears too.
import { tell } from "./times.js";

const thread = document.getElementById("thread");
const form = document.getElementById("ask");
const refused = document.getElementById("refused");
const AS_PART = { "HX-Request": "true", Accept: "text/html" };
const CITATION = /\[(node|edge):[0-9a-f-]{36}\]/gi;
const PART_OF_CITATION = /\[(?:n(?:o(?:d(?:e(?::[0-9a-f-]*)?)?)?)?|e(?:d(?:g(?:e(?::[0-9a-f-]*)?)?)?)?)?$/i;
const NEAR_END_PX = 160;
const TOOLS = JSON.parse(thread.dataset.tools);

let followed = null;

// Answers are made one after another: so are they followed.
function followNext() {
  if (followed?.isConnected) return;
  followed = thread.querySelector("[data-stream]");
  if (followed) follow(followed);
}

function follow(article) {
  const words = article.querySelector(".words");
  const looks = article.querySelector(".looks");
  const progress = article.querySelector(".progress");
  const stream = new EventSource(article.dataset.stream);
  let text = "";
  let looked = 0;
  const on = (name, then) => stream.addEventListener(name, (event) => keepingEnd(() => then(JSON.parse(event.data))));
  on("text", (piece) => {
    // The whole of it comes when the stream begins, and what follows when it is taken up again.
    text = piece.offset === 0 ? piece.text : text + piece.text;
    words.textContent = shown(text);
    progress.textContent = "Writing";
  });
  on("restart", () => { text = words.textContent = ""; });
  on("tool", (look) => {
    if (looked++ === 0) looks.replaceChildren();
    const line = document.createElement("li");
    line.textContent = (TOOLS[look.tool] ?? look.tool) + (look.about ? `: ${look.about}` : "");
    looks.append(line);
  });
  const ended = async () => {
    stream.close();
    try {
      await replace(article);
      followNext();
    } catch (error) {
      sayFailed(error);
    }
  };
  stream.addEventListener("complete", ended);
  stream.addEventListener("failed", ended);
  stream.addEventListener("error", () => {
    progress.textContent = stream.readyState === EventSource.CLOSED ? "Not followed any more: load the page again" : "Reconnecting";
  });
}

// While it is written, a citation is a mark; whole, it is a link with a name.
function shown(text) {
  return text.replace(CITATION, "◦").replace(PART_OF_CITATION, "");
}

async function replace(article) {
  const found = await part(article.dataset.page, "messages");
  const [fresh] = articlesIn(found);
  keepingEnd(() => article.replaceWith(fresh));
  tell(fresh);
}

function sayFailed(error) {
  const told = document.getElementById("told");
  told.textContent = `What was said is not all here (${error.message}). Load the page again in a moment.`;
  told.hidden = false;
}

// Adds what is not there yet: what was asked here, in another window, or advised meanwhile.
async function takeNew() {
  if (thread.dataset.newest === undefined) return;
  const found = articlesIn(await part(location.pathname, "messages"));
  const added = found.filter((each) => !document.getElementById(each.id));
  keepingEnd(() => thread.append(...added));
  added.forEach((each) => tell(each));
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
  added.forEach((each) => tell(each));
  link.closest(".more").replaceWith(...fragment(more).children);
  scrollTo(0, document.documentElement.scrollHeight - before);
}

async function part(path, name, cursor) {
  const query = new URLSearchParams({ part: name, ...(cursor ? { cursor } : {}) });
  const answer = await asked(`${path}?${query}`);
  if (!answer.ok) throw new Error(`${path} is answered with ${answer.status}`);
  return answer.text();
}

// Who is not signed in any more is led to the sign-in.
async function asked(path, how = {}) {
  const answer = await fetch(path, { ...how, headers: AS_PART });
  const elsewhere = answer.headers.get("HX-Redirect");
  if (elsewhere) {
    location.assign(elsewhere);
    throw new Error("you are not signed in any more");
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
  const button = form.querySelector("button");
  if (!field.value.trim()) return;
  button.disabled = true;
  refused.hidden = true;
  try {
    const answer = await asked(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    if (answer.ok) {
      field.value = "";
      await takeNew();
      scrollTo(0, document.documentElement.scrollHeight);
    } else {
      refused.replaceChildren(fragment(await answer.text()));
      refused.hidden = false;
    }
  } catch {
    refused.textContent = "Vigil is not reached; what you wrote is still here. Try again in a moment.";
    refused.hidden = false;
  } finally {
    button.disabled = false;
    field.focus();
  }
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
form?.elements.content.addEventListener("keydown", sendOnEnter);
document.addEventListener("click", showEarlier);
for (const name of ["answer.requested", "advice.produced"]) document.body.addEventListener(name, () => takeNew().catch(sayFailed));
if (!location.hash && form) scrollTo(0, document.documentElement.scrollHeight);
followNext();
