// Moments in the reader's zone: how long ago in the text, the exact one on hover.
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const DAYS_IN_WORDS = 30;

export function tell(root = document) {
  for (const each of root.querySelectorAll("time[datetime]")) tellOne(each);
}

function tellOne(each) {
  const at = new Date(each.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const exact = isDay(each.dateTime) ? DAY.format(at) : EXACT.format(at);
  if (each.title !== exact) each.title = exact;
  const words = each.dataset.exact === undefined ? (ago(at) ?? exact) : exact;
  if (each.textContent !== words) each.textContent = words;
}

// Pages mostly name days: as moments they are the first of that day (UTC), whatever the reader's zone.
function isDay(written) {
  return written.endsWith("T00:00:00.000Z");
}

// Null of what is long ago, or far off.
function ago(at) {
  const seconds = Math.round((at - Date.now()) / 1000);
  const [unit, of] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  if (unit === "day" && Math.abs(seconds) > DAYS_IN_WORDS * of) return null;
  return AGO.format(Math.trunc(seconds / of), unit);
}
