// The chart of costs, drawn from the table below it, and again when the table, the theme or the width changes.
import { shortDay, weekday } from "./times.js";

const HEIGHT_PX = 240;
const AXIS_PX = 56;
const DAY_SECONDS = 86_400;
const dollars = (digits) => new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", minimumFractionDigits: digits, maximumFractionDigits: digits });
const USD = { 2: dollars(2), 4: dollars(4) };
const CENT = 0.01;

let plot;
let place;
let shape;
let chart;

function readTable() {
  const table = document.querySelector("[data-figures]");
  if (!table) return null;
  const rows = [...table.querySelectorAll("[data-day]")].reverse();
  const heads = [...table.querySelectorAll("[data-series]")];
  return {
    unit: table.dataset.unit,
    cap: table.dataset.cap === undefined ? null : Number(table.dataset.cap),
    names: heads.map((head) => head.textContent),
    kinds: heads.map((head) => head.dataset.kind),
    starts: rows.map((row) => Date.parse(row.dataset.day) / 1000),
    values: rows.map((row) => row.dataset.values.split(",").map(Number)),
  };
}

// uPlot draws the first series first, so that the sum of all stands behind the sums of fewer.
function stacked({ starts, values, names, cap }) {
  const sums = values.map((row) => {
    let sum = 0;
    return row.map((value) => (sum += value));
  });
  const columns = names.map((_, series) => sums.map((row) => row[series] ?? 0)).reverse();
  return [starts, ...columns, ...(cap === null ? [] : [starts.map(() => cap)])];
}

// A budget far above what is spent would press the bars flat.
const showsCap = () => chart.cap !== null && chart.cap <= Math.max(...chart.values.map(sum), 1e-6) * 2.5;

function nameCap() {
  const words = document.querySelector("[data-above]");
  if (words) words.hidden = showsCap();
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const format = (value) => (chart.unit === "usd" ? usd(value) : compact(value));

// The same formats as `filters.usd` and `filters.compact`.
const usd = (amount) => USD[amount === 0 || amount >= CENT ? 2 : 4].format(amount);

function compact(number) {
  for (const [size, unit] of [[1e6, "M"], [1e3, "k"]]) {
    if (number >= size) return `${(number / size).toFixed(number / size >= 100 ? 0 : 1)}${unit}`;
  }
  return number.toFixed(0);
}

function draw() {
  const next = readTable();
  const nextPlace = document.querySelector("[data-plot]");
  if (!next || !nextPlace) return;
  chart = next;
  nameCap();
  const nextShape = JSON.stringify([next.names, next.kinds, next.unit, next.cap, colour("--text")]);
  if (plot && place === nextPlace && shape === nextShape) {
    plot.setData(stacked(next));
    return;
  }
  plot?.destroy();
  [place, shape] = [nextPlace, nextShape];
  plot = new uPlot(options(place.clientWidth), stacked(next), place);
  widths.disconnect();
  widths.observe(place);
}

const widths = new ResizeObserver(([{ target }]) => plot?.setSize({ width: target.clientWidth, height: HEIGHT_PX }));

function options(width) {
  const line = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--text-soft"), font: `11px ${colour("--letters")}`, ticks: { show: false } };
  const bars = uPlot.paths.bars({ size: [0.72, 40] });
  const fill = (kind) => colour(kind === "assumed" ? "--kind-10" : `--kind-${kind}`);
  const series = chart.kinds.map((kind) => ({ fill: fill(kind), width: 0, paths: bars, points: { show: false } })).reverse();
  const cap = { stroke: colour("--bad"), dash: [6, 4], width: 1.5, points: { show: false } };
  const budgetOrMost = (most) => {
    const whole = Math.max(most || 0, 1e-6);
    return showsCap() ? Math.max(whole, chart.cap) : whole;
  };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    padding: [8, 8, 0, 0],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    scales: {
      x: { range: () => [chart.starts[0] - DAY_SECONDS / 2, chart.starts.at(-1) + DAY_SECONDS / 2] },
      y: { range: () => [0, budgetOrMost(Math.max(...chart.values.map(sum))) * 1.08] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 72, incrs: [1, 2, 7, 14, 30].map((days) => days * DAY_SECONDS), values: (_, seconds) => seconds.map((each) => shortDay(new Date(each * 1000))) },
      { ...axis, grid: line, size: AXIS_PX, space: 44, values: (_, amounts) => amounts.map(axisLabel) },
    ],
    series: [{}, ...series, ...(chart.cap === null ? [] : [cap])],
    plugins: [{ hooks: { setCursor: showTip } }],
  };
}

// Steps of less than a cent need more digits than the figures at them.
const axisLabel = (amount, _, all) => (chart.unit === "usd" && all.some((each) => each % CENT > 1e-9 && CENT - (each % CENT) > 1e-9) ? USD[4].format(amount) : format(amount));
const sum = (row) => row.reduce((total, value) => total + value, 0);

// A tip beside the pointer, with the parts of the bar from the top down.
function showTip({ over, cursor }) {
  const tip = over.querySelector(".plot-tip") ?? over.appendChild(element("div", "plot-tip"));
  const { idx, left } = cursor;
  tip.hidden = idx === null || idx === undefined || left < 0;
  if (tip.hidden) return;
  const at = new Date(chart.starts[idx] * 1000);
  const values = chart.values[idx];
  const lines = chart.names
    .map((name, series) => ({ name, value: values[series], kind: chart.kinds[series] }))
    .filter(({ value }) => value > 0)
    .reverse()
    .map(({ name, value, kind }) => tipLine(name, format(value), kind));
  const title = element("p", "", `${weekday(at)} (UTC)`);
  tip.replaceChildren(title, ...lines, tipLine("Total", sum(values) ? format(sum(values)) : "no calls"));
  if (chart.cap !== null) tip.append(tipLine("Daily budget", format(chart.cap)));
  const isRight = left > over.clientWidth / 2;
  tip.style.left = isRight ? "" : `${left + 12}px`;
  tip.style.right = isRight ? `${over.clientWidth - left + 12}px` : "";
}

function tipLine(name, value, kind) {
  const line = element("div", "plot-tip-line");
  const swatch = element("span", "swatch");
  if (kind) swatch.dataset.kind = kind;
  else swatch.hidden = true;
  line.append(swatch, element("span", "plot-tip-name", name), element("span", "plot-tip-value", value));
  return line;
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

draw();
document.addEventListener("vigil:theme", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
document.body.addEventListener("htmx:after:swap", draw);
