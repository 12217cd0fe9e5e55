// Pages with forms: marks the section in view, shows the bar that saves, and warns before changes are lost.

const sending = new WeakSet();

function stateOf(form) {
  return new URLSearchParams(new FormData(form)).toString();
}

// `data-guards` on a form. Its `data-save-bar` is shown while something is changed.
function guard(form) {
  const bar = form.querySelector("[data-save-bar]");
  // Null: the form was refused, so what it shows is not saved either.
  const saved = bar?.dataset.unsaved === undefined ? stateOf(form) : null;
  const isChanged = () => stateOf(form) !== saved;
  const show = () => { if (bar) bar.hidden = !isChanged(); };
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", () => sending.add(form));
  // A link in the bar discards what was refused.
  bar?.addEventListener("click", (event) => { if (event.target.closest("a")) sending.add(form); });
  addEventListener("beforeunload", (event) => {
    if (isChanged() && !sending.has(form)) event.preventDefault();
  });
  addEventListener("pageshow", () => { sending.delete(form); show(); });
  show();
}

// `data-sections` on a list of links to sections: the link of the first one in view is the current one.
function watchSections(list) {
  const links = [...list.querySelectorAll('a[href^="#"]')];
  const sections = links.map((link) => document.querySelector(link.hash));
  const mark = () => {
    const line = innerHeight / 3;
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const passed = sections.filter((section) => section.getBoundingClientRect().top <= line);
    const current = isAtEnd ? sections.at(-1) : passed.at(-1) ?? sections[0];
    links.forEach((link, index) => {
      if (sections[index] === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

// Links to sections with wrong fields get a mark.
function markWrongSections(list) {
  for (const link of list.querySelectorAll('a[href^="#"]')) {
    if (!document.querySelector(link.hash)?.querySelector('[aria-invalid="true"]')) continue;
    link.dataset.wrong = "";
    const words = document.createElement("span");
    words.className = "unseen";
    words.textContent = " (has errors)";
    link.append(words);
  }
}

// A folded list of sections closes once one is chosen.
function closeFold(event) {
  const fold = event.target.closest(".sections-fold");
  if (fold && event.target.closest("a")) fold.open = false;
}

document.querySelectorAll("form[data-guards]").forEach(guard);
document.querySelectorAll("[data-sections]").forEach(watchSections);
document.querySelectorAll(".sections").forEach(markWrongSections);
document.addEventListener("click", closeFold);
document.querySelector('[aria-invalid="true"]')?.focus();

// The theme of this browser: system, light or dark.
function offerThemes(group) {
  const mark = () => {
    const chosen = localStorage.getItem("vigil-theme") ?? "";
    for (const button of group.children) button.setAttribute("aria-pressed", String(button.dataset.themeChoice === chosen));
  };
  group.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-choice]");
    if (!button) return;
    const theme = button.dataset.themeChoice;
    if (theme) {
      localStorage.setItem("vigil-theme", theme);
      document.documentElement.dataset.theme = theme;
    } else {
      localStorage.removeItem("vigil-theme");
      delete document.documentElement.dataset.theme;
    }
    document.dispatchEvent(new CustomEvent("vigil:theme"));
  });
  document.addEventListener("vigil:theme", mark);
  group.hidden = false;
  mark();
}

document.querySelectorAll("[data-theme-choices]").forEach(offerThemes);
