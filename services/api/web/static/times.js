// All dates and times of the window: the reader's time zone, 24 hours, English names of months as in the rest of its text.
// Days of budgets, of costs and of publications are in UTC. `filters.py` writes the same formats for pages without scripts.
const LOCALE = "en-GB";
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const SECONDS = { ...CLOCK, second: "2-digit" };
const DATE = { day: "numeric", month: "short" };
const YEAR = { ...DATE, year: "numeric" };
const UTC = { timeZone: "UTC" };
const ZONE = { timeZoneName: "short" };
const DAY_SECONDS = 86_400;
const UNITS = [["d", DAY_SECONDS], ["h", 3600], ["min", 60], ["s", 1]];
const DAYS_IN_WORDS = 30;

const writer = (options) => {
  const format = new Intl.DateTimeFormat(LOCALE, options);
  // "Sept" is the only month with four letters.
  return (at) => format.format(at).replace("Sept", "Sep");
};

// 18:28 and 18:28:50.
export const clock = writer(CLOCK);
const clockWithSeconds = writer(SECONDS);
// 18:28 CET.
const clockWithZone = writer({ ...CLOCK, ...ZONE });
// 27 Nov, 18:28, and with seconds.
export const dayAndClock = writer({ ...DATE, ...CLOCK });
const dayAndClockWithSeconds = writer({ ...DATE, ...SECONDS });
// 27 Nov 2026, 18:28.
export const dateAndClock = writer({ ...YEAR, ...CLOCK });
// 27 Nov 2026, 18:28:50 CET.
export const exact = writer({ ...YEAR, ...SECONDS, ...ZONE });
// 27 Nov, 27 Nov 2026 and Fri, 27 Nov, of days in UTC.
export const shortDay = writer({ ...DATE, ...UTC });
const day = writer({ ...YEAR, ...UTC });
export const weekday = writer({ weekday: "short", ...DATE, ...UTC });
// 27 Nov and 27 Nov 2026, by the reader's clock.
export const localDate = writer(YEAR);

// The clock alone today, with the day on others.
const clockToday = (at) => (isToday(at) ? clock : isThisYear(at) ? dayAndClock : dateAndClock)(at);
export const clockTodayWithSeconds = (at) => (isToday(at) ? clockWithSeconds : isThisYear(at) ? dayAndClockWithSeconds : exact)(at);
const isToday = (at) => at.toDateString() === new Date().toDateString();
const isThisYear = (at) => at.getFullYear() === new Date().getFullYear();

// "20 s ago", "in 6 d"; null if it is long ago or far ahead.
function ago(at, now = Date.now()) {
  const seconds = Math.trunc((at - now) / 1000);
  // What lies ahead is rounded: an hour from now is "in 1 h" and not "in 59 min".
  const size = seconds > 0 ? rounded(seconds) : -seconds;
  if (size === 0) return "now";
  if (size > DAYS_IN_WORDS * DAY_SECONDS) return null;
  const [unit, of] = UNITS.find(([, each]) => size >= each);
  const words = `${Math.trunc(size / of)} ${unit}`;
  return seconds < 0 ? `${words} ago` : `in ${words}`;
}

const rounded = (seconds) => [60, 3600, DAY_SECONDS].reduce((size, unit) => (size >= unit ? Math.round(size / unit) * unit : size), seconds);

export function formatTimes(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) format(time);
}

// `data-day`: a day, of any time zone. `data-clock`: the time of day, and `data-zone` names its zone. All others: the age.
function format(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const { day: isDay, clock: isClock, zone: hasZone } = time.dataset;
  const [title, words] = isDay !== undefined ? [day(at), day(at)]
    : [exact(at), hasZone !== undefined ? clockWithZone(at) : isClock !== undefined ? clockToday(at) : ago(at) ?? localDate(at)];
  if (time.title !== title) time.title = title;
  if (time.textContent !== words) time.textContent = words;
}
