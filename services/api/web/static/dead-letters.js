// Selecting several dead letters. What is selected stays selected when the list updates itself.
const checked = new Set();

const boxes = () => [...document.querySelectorAll('input[name="letter"]')];

function show() {
  const all = boxes();
  const chosen = all.filter((box) => box.checked).length;
  const forAll = document.querySelector("[data-checks-all]");
  if (!forAll) return;
  forAll.checked = all.length > 0 && chosen === all.length;
  forAll.indeterminate = chosen > 0 && chosen < all.length;
  const count = document.querySelector("[data-checked-count]");
  const words = chosen ? `${chosen} selected` : "";
  if (count.textContent !== words) count.textContent = words;
  for (const button of document.querySelectorAll("[data-on-checked]")) button.disabled = chosen === 0;
}

function note(box) {
  if (box.checked) checked.add(box.value);
  else checked.delete(box.value);
}

function restore() {
  for (const box of boxes()) box.checked = checked.has(box.value);
  show();
}

document.body.addEventListener("change", ({ target }) => {
  if (target.matches("[data-checks-all]")) for (const box of boxes()) box.checked = target.checked;
  else if (!target.matches('input[name="letter"]')) return;
  boxes().forEach(note);
  show();
});
document.body.addEventListener("htmx:after:swap", restore);
boxes().forEach(note);
show();
