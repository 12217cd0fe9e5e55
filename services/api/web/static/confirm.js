// Asks before a form is sent: `data-asks` on the form, or on the button that sends it, is the question. `data-asks-title` is
// the heading of the dialog, and `data-asks-verb` its button; without them the words of the button are used.

const confirmed = new WeakSet();

export function listenToQuestions() {
  // Captured, so that htmx does not send the form before it is confirmed.
  document.addEventListener("submit", askFirst, { capture: true });
}

function askFirst(event) {
  const form = event.target;
  const { dataset } = event.submitter?.dataset.asks ? event.submitter : form;
  if (!dataset.asks || confirmed.delete(form)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  ask(dataset, form, event.submitter);
}

function ask(dataset, form, button) {
  const verb = dataset.asksVerb ?? wordsOf(button) ?? "Continue";
  const isDangerous = button?.classList.contains("danger");
  const dialog = element("dialog", { className: "confirm" });
  dialog.setAttribute("aria-labelledby", "confirm-title");
  dialog.setAttribute("aria-describedby", "confirm-question");
  const cancel = element("button", { type: "button", textContent: "Cancel", autofocus: isDangerous });
  const go = element("button", { type: "button", textContent: verb, className: isDangerous ? "danger" : "main", autofocus: !isDangerous });
  const foot = element("div", { className: "confirm-foot" });
  foot.append(cancel, go);
  dialog.append(
    element("h2", { id: "confirm-title", textContent: dataset.asksTitle ?? `${verb}?` }),
    element("p", { id: "confirm-question", textContent: dataset.asks }),
    foot,
  );
  cancel.addEventListener("click", () => dialog.close());
  go.addEventListener("click", () => {
    confirmed.add(form);
    dialog.close();
    form.requestSubmit(button);
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Without what only screen readers read.
function wordsOf(button) {
  const copy = button?.cloneNode(true);
  copy?.querySelectorAll(".unseen").forEach((part) => part.remove());
  return copy?.textContent.trim() || null;
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}
