// Times in the user's time zone: the age as text, the exact time on hover.
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const DAYS_IN_WORDS = 30;
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

export function formatTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) format(time);
}

function format(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const exact = isDay(time.dateTime) ? DAY.format(at) : EXACT.format(at);
  if (time.title !== exact) time.title = exact;
  const words = time.dataset.clock !== undefined ? clock(at) : time.dataset.exact === undefined ? (ago(at) ?? exact) : exact;
  if (time.textContent !== words) time.textContent = words;
}

// With the day, unless it is today.
function clock(at) {
  return (at.toDateString() === new Date().toDateString() ? CLOCK : DAY_AND_CLOCK).format(at);
}

// Pages mostly give days. A day is stored as its first moment in UTC.
function isDay(written) {
  return written.endsWith("T00:00:00.000Z");
}

// Null if it is long ago or far ahead.
function ago(at) {
  const seconds = Math.round((at - Date.now()) / 1000);
  const [unit, of] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  if (unit === "day" && Math.abs(seconds) > DAYS_IN_WORDS * of) return null;
  return AGO.format(Math.trunc(seconds / of), unit);
}
