// The style sheet's colours for the canvas, and text colours with enough contrast.
const KINDS = 10;
const AGES = 5;

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    kinds: [of("kind-10"), ...numbered(KINDS, "kind", of)],
    ages: [of("age-5"), ...numbered(AGES, "age", of)],
    text: of("text"),
    soft: of("text-soft"),
    ground: of("surface"),
    line: of("line-strong"),
    faded: of("line-strong"),
    fadedLine: of("line"),
    accent: of("accent"),
    letters: getComputedStyle(document.body).fontFamily,
  };
}

function numbered(most, name, of) {
  return Array.from({ length: most }, (_, index) => of(`${name}-${index + 1}`));
}

export function drawLabel(context, data, settings, looks) {
  if (!data.label) return;
  context.font = `${settings.labelSize}px ${settings.labelFont}`;
  const [x, y] = [data.x + data.size + 4, data.y + settings.labelSize / 3];
  context.lineJoin = "round";
  context.lineWidth = 4;
  context.strokeStyle = looks.ground;
  context.strokeText(data.label, x, y);
  context.fillStyle = looks.text;
  context.fillText(data.label, x, y);
}

export function drawHover(context, data, settings, looks) {
  context.beginPath();
  context.arc(data.x, data.y, data.size + 3, 0, 2 * Math.PI);
  context.lineWidth = 2.5;
  context.strokeStyle = looks.accent;
  context.stroke();
  if (!data.label) return;
  context.font = `600 ${settings.labelSize}px ${settings.labelFont}`;
  const width = context.measureText(data.label).width;
  const [x, y] = [data.x + data.size + 6, data.y];
  context.beginPath();
  context.roundRect(x, y - 11, width + 12, 22, 5);
  context.fillStyle = looks.ground;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = looks.accent;
  context.stroke();
  context.fillStyle = looks.text;
  context.fillText(data.label, x + 6, y + settings.labelSize / 3);
}
