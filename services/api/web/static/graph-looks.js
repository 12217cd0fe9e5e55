// The style sheet's colours for the canvas, and labels that never overlap.
const KINDS = 10;
const LABEL_PX = 12;
const EDGE_LABEL_PX = 11;
const PADDING_PX = 3;
const ARROW_PX = 24;
const TAG_PADDING_PX = 7;
const ALONG = [0, -0.13, 0.13, -0.24, 0.24];
export const STANDS_OUT = 1e5;

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const ground = of("surface");
  const kinds = [of("kind-10"), ...Array.from({ length: KINDS }, (_, index) => of(`kind-${index + 1}`))];
  // From new to old.
  const ages = [3, 8, 5, 2, 10].map((kind) => kinds[kind]);
  const text = of("text");
  const dimmed = Number(of("dimmed"));
  // Lines, and nodes whose colours say less, stand back more than nodes with the colour of their type.
  const faint = (1 + 2 * dimmed) / 3;
  return {
    kinds,
    dimmedKinds: kinds.map((kind) => mixed(kind, ground, dimmed)),
    ages: [ages.at(-1), ...ages],
    dimmed: mixed(text, ground, faint),
    text,
    soft: of("text-soft"),
    ground,
    line: mixed(of("text-soft"), ground, 0.25),
    fineLine: mixed(of("text-soft"), ground, 0.5),
    crowdedLine: mixed(of("text-soft"), ground, 0.7),
    dimmedLine: mixed(of("text-soft"), ground, faint),
    accent: of("accent"),
    mark: of("warn"),
    letters: getComputedStyle(document.body).fontFamily,
  };
}

// A colour between two of the style sheet's, `share` of the way to the second.
export function mixed(from, to, share) {
  const [a, b] = [parts(from), parts(to)];
  return `#${a.map((part, index) => Math.round(part + (b[index] - part) * share).toString(16).padStart(2, "0")).join("")}`;
}

function parts(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Collects the labels of one frame, and draws those that have room, the most important first.
export class Labels {
  constructor(looks) {
    this.looks = looks;
    this.widths = new Map();
    this.begin();
  }

  begin() {
    this.reserved = [];
    this.wanted = [];
  }

  want(label) {
    this.wanted.push(label);
  }

  reserve(box) {
    this.reserved.push(box);
  }

  // `stage` is the box within which labels are drawn.
  draw(context, stage) {
    const { looks } = this;
    const sized = this.wanted.map((label) => ({ ...label, width: this.width(context, label), height: (label.isEdge ? EDGE_LABEL_PX : LABEL_PX) + 2 * PADDING_PX }))
      .filter((label) => !label.isEdge || label.length > label.width + ARROW_PX);
    context.lineJoin = "round";
    context.textBaseline = "middle";
    for (const { label, box } of place(sized, this.reserved, stage)) {
      const [x, y] = [box.x + PADDING_PX, box.y + box.height / 2];
      context.font = this.font(label);
      if (label.isEdge) {
        context.fillStyle = looks.ground;
        context.fillRect(box.x, box.y, box.width, box.height);
        context.fillStyle = looks.accent;
      } else {
        context.lineWidth = 3;
        context.strokeStyle = looks.ground;
        context.strokeText(label.text, x, y);
        context.fillStyle = label.isDimmed ? looks.soft : looks.text;
      }
      context.fillText(label.text, x, y);
    }
    context.textBaseline = "alphabetic";
  }

  font({ isEdge, isStrong }) {
    return `${isStrong ? 600 : 450} ${isEdge ? EDGE_LABEL_PX : LABEL_PX}px ${this.looks.letters}`;
  }

  width(context, label) {
    const font = this.font(label);
    const key = `${font} ${label.text}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      context.font = font;
      width = context.measureText(label.text).width + 2 * PADDING_PX;
      this.widths.set(key, width);
    }
    return width;
  }
}

// The labels that have room, each at the first of its spots that is free: right of its node, left, below, above; of an
// edge near its middle. Those with the highest rank come first; those of hubs, and those that stand out, may lie on nodes
// if they must. A label of a node is within `stage` as a whole.
export function place(labels, reserved = [], stage = null) {
  const taken = [...reserved];
  const placed = [];
  for (const label of [...labels].sort((a, b) => b.rank - a.rank)) {
    const isFree = (spot, mayLieOnNodes) => !taken.some((other) => overlaps(spot, other) && !(other.isNode && mayLieOnNodes));
    const within = spots(label).filter((spot) => !stage || label.isEdge || isWithin(spot, stage));
    const box = within.find((spot) => isFree(spot, false)) ?? (label.isHub || label.rank >= STANDS_OUT ? within.find((spot) => isFree(spot, true)) : null);
    if (!box) continue;
    taken.push(box);
    placed.push({ label, box });
  }
  return placed;
}

function spots({ x, y, size = 0, width, height, isEdge = false, along = { x: 0, y: 0 } }) {
  const middle = { x: x - width / 2, y: y - height / 2, width, height };
  if (isEdge) return ALONG.map((share) => ({ ...middle, x: middle.x + share * along.x, y: middle.y + share * along.y }));
  return [
    { ...middle, x: x + size + 1 },
    { ...middle, x: x - size - 1 - width },
    { ...middle, y: y + size + 1 },
    { ...middle, y: y - size - 1 - height },
  ];
}

function isWithin(box, stage) {
  return box.x >= stage.x && box.y >= stage.y && box.x + box.width <= stage.x + stage.width && box.y + box.height <= stage.y + stage.height;
}

export function overlaps(a, b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

// The label of a node that is chosen or under the pointer, on a ground of its own. It lies within `stage`, and on none of
// the boxes that are `taken`. Answers the boxes that it takes.
export function drawTag(context, data, looks, { isChosen, stage, taken = [] }) {
  context.beginPath();
  context.arc(data.x, data.y, data.size + 3, 0, 2 * Math.PI);
  context.lineWidth = isChosen ? 2.5 : 1.5;
  context.strokeStyle = looks.accent;
  context.stroke();
  const radius = data.size + 4;
  const disc = { x: data.x - radius, y: data.y - radius, width: 2 * radius, height: 2 * radius };
  if (!data.label || !isWithin({ x: data.x, y: data.y, width: 0, height: 0 }, stage)) return [disc];
  context.font = `600 ${LABEL_PX}px ${looks.letters}`;
  const text = shortened(context, data.label, stage.width - 2 * TAG_PADDING_PX);
  const width = context.measureText(text).width + 2 * TAG_PADDING_PX;
  const box = placeTag({ x: data.x, y: data.y, size: data.size + 5, width, height: LABEL_PX + 10 }, taken, stage);
  context.beginPath();
  context.roundRect(box.x, box.y, width, box.height, 5);
  context.fillStyle = looks.ground;
  context.fill();
  context.lineWidth = 1;
  context.stroke();
  context.fillStyle = looks.text;
  context.textBaseline = "middle";
  context.fillText(text, box.x + TAG_PADDING_PX, box.y + box.height / 2 + 0.5);
  context.textBaseline = "alphabetic";
  return [disc, box];
}

// A tag has to lie somewhere: at one of the spots of a label, moved into the stage, with as little as possible below it.
function placeTag(tag, taken, stage) {
  const cost = (spot) => taken.reduce((sum, other) => sum + (overlaps(spot, other) ? (other.isNode ? 1 : 100) : 0), 0);
  const inside = (spot) => ({
    ...spot,
    x: Math.max(stage.x, Math.min(spot.x, stage.x + stage.width - spot.width)),
    y: Math.max(stage.y, Math.min(spot.y, stage.y + stage.height - spot.height)),
  });
  const own = { x: tag.x - tag.size, y: tag.y - tag.size, width: 2 * tag.size, height: 2 * tag.size };
  const options = spots(tag).map(inside).map((spot) => ({ spot, cost: cost(spot) + (overlaps(spot, own) ? 10 : 0) }));
  return options.reduce((best, option) => (option.cost < best.cost ? option : best)).spot;
}

function shortened(context, text, most) {
  const letters = [...text];
  let shown = text;
  while (letters.length > 1 && context.measureText(shown).width > most) {
    letters.pop();
    shown = `${letters.join("").trimEnd()}…`;
  }
  return shown;
}
