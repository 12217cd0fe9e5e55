// Forces move the nodes for a while, so many rounds between two frames as leave the page at hand.
const BATCH_MS = 12;
const MANY_NODES = 300;

export class Layout {
  constructor(graph, whenSettled) {
    this.graph = graph;
    this.whenSettled = whenSettled;
    this.left = 0;
    this.perBatch = 1;
    this.isRunning = false;
  }

  settle() {
    const { order } = this.graph;
    this.left = order > 1_000 ? 120 : order > 200 ? 200 : 300;
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
    forces.assign(this.graph, { iterations, settings });
    const took = Math.max(0.5, performance.now() - begun);
    this.perBatch = Math.max(1, Math.min(20, Math.floor((iterations * BATCH_MS) / took)));
    this.left -= iterations;
    if (this.left > 0) {
      requestAnimationFrame(() => this.step());
    } else {
      this.isRunning = false;
      this.whenSettled();
    }
  }
}
