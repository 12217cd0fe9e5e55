// The live events of a page. All pages of a browser share their streams through a worker; a browser without shared workers
// opens them in the page. What only one page needs, or a page without the worker, is read while the page is visible, and
// continues where it stopped.
import { Streams } from "./streams.js";

const ALIVE_MS = 20_000;

const listening = new Map();
let newest = 0;
let port = null;
let local = null;

// `on` has functions for `open`, `lost` and `take`. Returns a function that ends this.
export function listen(url, on, { isWhole = true } = {}) {
  const key = ++newest;
  const source = { url: new URL(url, location.href).href, isWhole };
  const take = (message) => {
    if (message.id !== undefined) source.after = message.id;
    if (message.event !== undefined || message.data !== undefined) on.take(message);
  };
  listening.set(key, { source, on: { ...on, take }, end: null });
  if (port === null && local === null) connect();
  begin(key);
  return () => {
    end(key);
    listening.delete(key);
  };
}

const needsSight = ({ source }) => source.isWhole || port === null;

function begin(key) {
  const each = listening.get(key);
  if (each.end || (document.hidden && needsSight(each))) return;
  if (port === null) {
    each.end = local.listen(each.source, each.on);
    return;
  }
  port.postMessage({ listen: each.source, key });
  each.end = () => port?.postMessage({ end: key });
}

function end(key) {
  const each = listening.get(key);
  each.end?.();
  each.end = null;
}

function connect() {
  document.addEventListener("visibilitychange", () => {
    for (const [key, each] of listening) {
      if (!document.hidden) begin(key);
      else if (needsSight(each)) end(key);
    }
  });
  addEventListener("pagehide", () => [...listening.keys()].forEach(end));
  addEventListener("pageshow", ({ persisted }) => persisted && [...listening.keys()].forEach(begin));
  if (globalThis.SharedWorker) connectWorker();
  else local = new Streams(document.body.dataset.user);
}

// A worker that has ended without an error, or hangs, answers no message. The same name starts another in place of one that
// has ended; if that does not answer either, the page opens the streams itself.
function connectWorker(isSecond = false) {
  const { liveWorker, user } = document.body.dataset;
  let isAnswered = true;
  const fail = () => {
    clearInterval(beat);
    if (port !== worker.port) return;
    worker.port.close();
    port = null;
    if (isSecond) local = new Streams(document.body.dataset.user);
    else connectWorker(true);
    for (const [key, each] of listening) {
      if (each.end) each.on.lost();
      each.end = null;
      begin(key);
    }
  };
  // Users who sign in one after another share nothing.
  const worker = new SharedWorker(liveWorker, { type: "module", name: user });
  worker.onerror = () => {
    isSecond = true;
    fail();
  };
  port = worker.port;
  port.onmessage = ({ data: { key, what, message, isAlive } }) => {
    isAnswered = true;
    if (isAlive) isSecond = false;
    else listening.get(key)?.on[what](message);
  };
  const beat = setInterval(() => {
    if (!isAnswered) return fail();
    isAnswered = false;
    worker.port.postMessage({ isAlive: true });
  }, ALIVE_MS);
}

// Each event of the page's stream becomes an event of its name on the body, followed by `vigil:event`.
export function followEvents() {
  const place = document.querySelector("[data-live]");
  if (!place) return;
  const { live, agent } = place.dataset;
  const tell = (name, detail) => document.body.dispatchEvent(new CustomEvent(name, { detail }));
  listen(live, {
    open: () => tell("vigil:live"),
    lost: () => tell("vigil:away"),
    take: (message) => {
      const of = agent && JSON.parse(message.data || "{}").agent_id;
      if (of && of !== agent) return;
      if (message.event) tell(message.event, message);
      tell("vigil:event", message);
    },
  }, { isWhole: "whole" in place.dataset });
}
