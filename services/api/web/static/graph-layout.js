// Forces move the nodes for a while, so many rounds between two frames as leave the page at hand.
const MIN_BATCH_MS = 12;
const MAX_BATCH_MS = 120;
const MAX_MS = 8_000;
const MANY_NODES = 300;

export class Layout {
  constructor(graph, whenSettled) {
    this.graph = graph;
    this.whenSettled = whenSettled;
    this.left = 0;
    this.perBatch = 1;
    this.batchMs = MIN_BATCH_MS;
    this.last = 0;
    this.until = 0;
    this.isRunning = false;
  }

  settle() {
    const { order } = this.graph;
    this.left = order > 1_000 ? 120 : order > 200 ? 200 : 300;
    this.until = performance.now() + MAX_MS;
    if (!this.isRunning && order) {
      this.isRunning = true;
      requestAnimationFrame(() => this.step());
    } else if (!order) {
      this.whenSettled();
    }
  }

  step() {
    const forces = graphologyLibrary.layoutForceAtlas2;
    const settings = { ...forces.inferSettings(this.graph), barnesHutOptimize: this.graph.order > MANY_NODES };
    const iterations = Math.min(this.left, this.perBatch);
    const begun = performance.now();
    this.spare(begun);
    forces.assign(this.graph, { iterations, settings });
    const took = Math.max(0.5, performance.now() - begun);
    this.perBatch = Math.max(1, Math.min(20, Math.floor((iterations * this.batchMs) / took)));
    this.left -= iterations;
    if (this.left > 0 && performance.now() < this.until) {
      requestAnimationFrame(() => this.step());
    } else {
      this.isRunning = false;
      this.last = 0;
      this.whenSettled();
    }
  }

  // Where a frame takes long to draw, more is done between two, or it would never end.
  spare(now) {
    const frameMs = this.last ? now - this.last : 0;
    this.batchMs = Math.min(MAX_BATCH_MS, Math.max(MIN_BATCH_MS, frameMs / 2));
    this.last = now;
  }
}
