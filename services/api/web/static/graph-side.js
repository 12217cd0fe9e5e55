// The panel next to the graph: details of the selected node, loaded from its page.
import { formatTimes } from "./times.js";

export class Side {
  constructor(agent, goTo) {
    this.agent = agent;
    this.element = document.getElementById("side");
    this.asking = null;
    this.element.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-node]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      goTo(link.dataset.node);
    });
  }

  // Only the latest request may change the panel.
  async show(id) {
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    this.element.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`/agents/${this.agent}/nodes/${id}?part=panel`, { headers: { "HX-Request": "true" }, signal });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      this.element.innerHTML = await answer.text();
      this.element.scrollTop = 0;
      formatTimes(this.element);
    } catch (error) {
      if (signal.aborted) return;
      const message = document.createElement("p");
      message.className = "fault";
      message.textContent = "What is known of it could not be read. Choose it again in a moment.";
      this.element.replaceChildren(message);
    }
    this.element.removeAttribute("aria-busy");
  }
}
