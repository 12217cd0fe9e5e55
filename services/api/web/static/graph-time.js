// The time slider: shows the graph as of a moment, over a histogram of when its nodes were found.
import { dateAndClock, dayAndClock, localDate } from "./times.js";

const BINS = 60;
const STEPS = 500;
const PLAY_MS = 8_000;
const FRAME_MS = 120;
const MS_A_DAY = 86_400_000;
const SVG = "http://www.w3.org/2000/svg";

export class Timeline {
  constructor(graph, view, onChange) {
    this.graph = graph;
    this.view = view;
    this.onChange = onChange;
    this.root = document.getElementById("timeline");
    this.bars = document.getElementById("timeline-bars");
    this.slider = document.getElementById("timeline-slider");
    this.words = document.getElementById("timeline-words");
    this.ends = [document.getElementById("timeline-first"), document.getElementById("timeline-last")];
    this.playing = null;
    this.slider.addEventListener("input", () => { this.pause(); this.set(Number(this.slider.value)); });
  }

  // Reads the times of the nodes; called when nodes came.
  refresh() {
    const times = this.graph.mapNodes((_, node) => node.created);
    this.least = Math.min(...times);
    this.most = Math.max(...times, ...this.graph.mapEdges((_, edge) => edge.created));
    this.root.hidden = !(this.most - this.least > 1_000);
    if (this.root.hidden) return;
    const counts = new Array(BINS).fill(0);
    for (const at of times) counts[Math.min(BINS - 1, Math.floor(((at - this.least) / (this.most - this.least)) * BINS))] += 1;
    const highest = Math.max(...counts);
    this.bars.replaceChildren(...counts.map((count, bin) => bar(bin, count / highest)));
    // Within two days, the date alone would say little.
    const write = this.most - this.least > 2 * MS_A_DAY ? localDate : dayAndClock;
    [this.least, this.most].forEach((at, place) => { this.ends[place].textContent = write(new Date(at)); });
    this.show();
  }

  set(step) {
    this.view.until = step >= STEPS ? null : this.least + ((this.most - this.least) * step) / STEPS;
    this.show();
    this.onChange();
  }

  show() {
    const { until } = this.view;
    const share = until ? Math.max(0, Math.min(1, (until - this.least) / (this.most - this.least))) : 1;
    this.slider.value = String(Math.round(share * STEPS));
    const words = until ? dateAndClock(new Date(until)) : "Now";
    this.words.textContent = words;
    this.slider.setAttribute("aria-valuetext", until ? `As of ${words}` : "Now, all nodes and edges");
    [...this.bars.children].forEach((each, bin) => each.toggleAttribute("data-later", bin / BINS >= share));
    this.root.querySelector('[data-do="now"]').hidden = !until;
  }

  toggle() {
    if (this.playing) { this.pause(); return; }
    let step = Number(this.slider.value) >= STEPS ? 0 : Number(this.slider.value);
    let last = performance.now();
    this.setPlaying(setInterval(() => {
      const now = performance.now();
      step += Math.max(1, ((now - last) / PLAY_MS) * STEPS);
      last = now;
      this.set(Math.min(step, STEPS));
      if (step >= STEPS) this.pause();
    }, FRAME_MS));
  }

  pause() {
    clearInterval(this.playing);
    this.setPlaying(null);
  }

  setPlaying(playing) {
    this.playing = playing;
    this.root.toggleAttribute("data-playing", Boolean(playing));
    this.root.querySelector('[data-do="play"]').setAttribute("aria-label", playing ? "Pause" : "Play the graph's growth");
  }
}

function bar(bin, share) {
  const rect = document.createElementNS(SVG, "rect");
  const height = share ? Math.max(1.5, share * 24) : 0;
  for (const [name, value] of Object.entries({ x: bin * 4, y: 24 - height, width: 3, height })) rect.setAttribute(name, String(value));
  return rect;
}
