// A bar chart of costs by day, drawn from the table, and again when the table, the theme or the width changes.
const HEIGHT_PX = 220;
const DAY_SECONDS = 86_400;
const AXIS_PX = 62;
const USD = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", maximumFractionDigits: 4 });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

let plot;
let drawnIn;

function figures() {
  const table = document.querySelector("[data-days]");
  const rows = [...(table?.querySelectorAll("[data-day]") ?? [])].reverse();
  return {
    days: rows.map((row) => Date.parse(`${row.dataset.day}T00:00:00Z`) / 1000),
    usd: rows.map((row) => Number(row.dataset.usd)),
    // Stacked on the cost: both together are the maximum that may have been spent.
    most: rows.map((row) => Number(row.dataset.usd) + Number(row.dataset.presumed)),
    hasPresumed: rows.some((row) => Number(row.dataset.presumed) > 0),
    cap: table?.dataset.cap === undefined ? null : Number(table.dataset.cap),
  };
}

function draw() {
  plot?.destroy();
  plot = undefined;
  const place = document.querySelector('[data-chart="days"]');
  if (!place) return;
  const chart = figures();
  const data = [chart.days, ...(chart.hasPresumed ? [chart.most] : []), chart.usd, ...(chart.cap === null ? [] : [chart.days.map(() => chart.cap)])];
  plot = new uPlot(options(chart, place.clientWidth), data, place);
  if (drawnIn === place) return;
  drawnIn = place;
  widths.disconnect();
  widths.observe(place);
}

const widths = new ResizeObserver(([{ target }]) => plot?.setSize({ width: target.clientWidth, height: HEIGHT_PX }));

function options({ days, cap, hasPresumed }, width) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--text-soft"), grid, ticks: grid, font: `12px ${colour("--letters")}` };
  const bars = uPlot.paths.bars({ size: [0.7, 48], radius: 0.15 });
  const bar = (label, fill) => ({ label, fill, stroke: fill, width: 0, paths: bars, points: { show: false }, value: (_, usd) => (usd == null ? "–" : USD.format(usd)) });
  const line = { label: "Budget", stroke: colour("--bad"), dash: [6, 4], width: 1.5, points: { show: false }, value: (_, usd) => (usd == null ? "–" : USD.format(usd)) };
  return {
    width,
    height: HEIGHT_PX,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: { range: () => [days[0] - DAY_SECONDS / 2, days.at(-1) + DAY_SECONDS / 2] },
      y: { range: (_, __, most) => [0, (most || 0.01) * 1.1] },
    },
    axes: [
      { ...axis, grid: { show: false }, incrs: [1, 2, 7, 14, 30, 60].map((each) => each * DAY_SECONDS), values: (_, seconds) => seconds.map((each) => DAY.format(each * 1000)) },
      { ...axis, size: AXIS_PX, values: (_, amounts) => amounts.map((each) => USD.format(each)) },
    ],
    series: [
      { label: "Day", value: (_, seconds) => (seconds == null ? "–" : DAY.format(seconds * 1000)) },
      ...(hasPresumed ? [bar("Perhaps besides", colour("--warn"))] : []),
      bar("Cost", colour("--accent")),
      ...(cap === null ? [] : [line]),
    ],
  };
}

draw();
document.addEventListener("vigil:theme", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
document.body.addEventListener("htmx:after:swap", draw);
