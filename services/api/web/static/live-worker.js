// The shared worker of all pages of one user in a browser: each stream is open once, however many pages listen.
import { Streams } from "./streams.js";

// A page that is closed without a word is forgotten. Pages in the background speak once a minute at the latest.
const SILENT_MS = 180_000;

const streams = new Streams(self.name);
const pages = new Set();

addEventListener("connect", ({ ports: [port] }) => {
  const page = { ends: new Map(), heardMs: Date.now() };
  pages.add(page);
  port.onmessage = ({ data }) => {
    page.heardMs = Date.now();
    if (data.isAlive) {
      port.postMessage({ isAlive: true });
    } else if (data.listen) {
      const tell = (what) => port.postMessage({ key: data.key, ...what });
      page.ends.set(data.key, streams.listen(data.listen, {
        open: () => tell({ what: "open" }),
        lost: () => tell({ what: "lost" }),
        take: (message) => tell({ what: "take", message }),
      }));
    } else if (data.end) {
      page.ends.get(data.end)?.();
      page.ends.delete(data.end);
    }
  };
});

function forget(page) {
  for (const end of page.ends.values()) end();
  page.ends.clear();
}

setInterval(() => {
  for (const page of pages) {
    if (Date.now() - page.heardMs < SILENT_MS) continue;
    forget(page);
    pages.delete(page);
  }
}, SILENT_MS / 3);
