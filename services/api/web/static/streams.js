// Streams of Server-Sent Events that several listeners share. Runs in the shared worker of all pages of a browser, or in a page.

// Browsers open six connections to a host over HTTP/1.1, for all pages together. So few streams are open that are not the
// shared one of all events; the others wait for their turn.
const MAX_OPEN = 2;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 60_000;
const JITTER = 0.3;
// Messages of a stream that a listener who comes later gets.
const MAX_PAST = 5_000;

export class Streams {
  #streams = new Map();
  #user;

  // `user` is the id of the user of the pages. The streams of another one, who signs in later, are refused.
  constructor(user) {
    this.#user = user;
  }

  // Calls `listener.open`, `listener.lost` and `listener.take`, also for a message with an id alone, which is a position. With
  // `isWhole`, a listener gets the stream from its beginning; with `after`, from the message after that id. Returns a function
  // that ends this.
  listen({ url, isWhole, after = "" }, listener) {
    const key = `${url} ${after}`;
    let stream = this.#streams.get(key);
    if (stream === undefined) {
      stream = new Stream(url, isWhole, after, this.#user);
      this.#streams.set(key, stream);
    }
    stream.add(listener);
    this.#openNext();
    return () => {
      stream.listeners.delete(listener);
      if (stream.listeners.size > 0 || this.#streams.get(key) !== stream) return;
      this.#streams.delete(key);
      stream.close();
      this.#openNext();
    };
  }

  #openNext() {
    const streams = [...this.#streams.values()];
    let open = streams.filter((stream) => stream.isStarted && stream.isWhole).length;
    for (const stream of streams) {
      if (stream.isStarted || (stream.isWhole && open >= MAX_OPEN)) continue;
      open += stream.isWhole ? 1 : 0;
      stream.start();
    }
  }
}

class Stream {
  listeners = new Set();
  isStarted = false;
  #url;
  #user;
  #past;
  #isOpen = false;
  #lastId;
  #abort = new AbortController();

  constructor(url, isWhole, after, user) {
    this.#url = url;
    this.#user = user;
    this.isWhole = isWhole;
    this.#past = isWhole ? [] : null;
    this.#lastId = after;
  }

  add(listener) {
    this.listeners.add(listener);
    if (this.#isOpen) listener.open();
    for (const message of this.#past ?? []) listener.take(message);
    if (this.#lastId) listener.take({ id: this.#lastId });
  }

  close() {
    this.#abort.abort();
  }

  async start() {
    this.isStarted = true;
    let waitMs = FIRST_RETRY_MS;
    while (!this.#abort.signal.aborted) {
      try {
        for await (const message of this.#messages()) {
          waitMs = FIRST_RETRY_MS;
          this.#take(message);
        }
      } catch {
        // The connection was lost or refused. One that the server has ended is opened again without a word.
        this.#isOpen = false;
        if (!this.#abort.signal.aborted) for (const listener of this.listeners) listener.lost();
      }
      if (this.#abort.signal.aborted) return;
      await untilOnline(waitMs * (1 + JITTER * (2 * Math.random() - 1)), this.#abort.signal);
      waitMs = Math.min(2 * waitMs, MAX_RETRY_MS);
    }
  }

  async *#messages() {
    const headers = { Accept: "text/event-stream", "Vigil-User": this.#user };
    if (this.#lastId) headers["Last-Event-ID"] = this.#lastId;
    const answer = await fetch(this.#url, { headers, cache: "no-store", signal: this.#abort.signal });
    if (!answer.ok) throw new Error(`the stream was answered with ${answer.status}`);
    this.#isOpen = true;
    for (const listener of this.listeners) listener.open();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const frames = (rest + piece.value).replaceAll("\r\n", "\n").split("\n\n");
      rest = frames.pop();
      yield* frames.map(parsed);
    }
  }

  #take(message) {
    if (message.id !== undefined) this.#lastId = message.id;
    const isPosition = message.event === undefined && message.data === undefined;
    if (isPosition && message.id === undefined) return;
    if (this.#past && !isPosition) {
      this.#past.push(message);
      if (this.#past.length > MAX_PAST) this.#past.shift();
    }
    for (const listener of this.listeners) listener.take(message);
  }
}

function parsed(frame) {
  const message = {};
  for (const line of frame.split("\n")) {
    const end = line.indexOf(":");
    const name = end < 0 ? line : line.slice(0, end);
    const value = end < 0 ? "" : line.slice(end + 1).replace(/^ /, "");
    if (name === "data") message.data = message.data === undefined ? value : `${message.data}\n${value}`;
    else if (name === "event" || name === "id") message[name] = value;
  }
  return message;
}

function untilOnline(ms, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
    addEventListener("online", resolve, { once: true });
    signal.addEventListener("abort", resolve, { once: true });
  });
}
