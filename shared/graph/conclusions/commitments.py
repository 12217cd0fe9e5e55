"""What a conclusion commits itself to: how sure it is, until when it holds, and what would prove it wrong. Pure."""

import calendar
import re
from datetime import date, timedelta
from typing import Final

from shared.graph.validation import one_line
from shared.tools import ToolRefusalError

INVALIDATION_CHARACTERS: Final = (20, 600)
LONGEST_HORIZON_YEARS: Final = 10

_DURATION: Final = re.compile(
    r"(?:in |for |within )?(?P<count>\d{1,4}|an?|one) (?P<unit>day|week|month|quarter|year)s?"
)
_ISO_DATE: Final = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})(?:[Tt ].*)?")
_MONTHS_OF: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS_OF: Final = {"day": 1, "week": 7}


def checked_confidence(given: float) -> float:
    """Raises ToolRefusalError unless it is 0 to 1."""
    if not 0 <= given <= 1:
        raise ToolRefusalError(f"confidence: {given} is not from 0 to 1; 0.7 is rather sure.")
    return given


def checked_horizon(text: str, today: date) -> date:
    """The last day on which it holds, of a date or of a time from `today` on.

    Raises ToolRefusalError where it is neither, does not lie ahead, or is too far away to be looked at again.
    """
    folded = one_line(text).lower().rstrip(".")
    found = _from_date(folded) or _from_duration(folded, today)
    if found is None:
        raise ToolRefusalError(
            f"horizon: {text[:80]!r} is no date; give one as YYYY-MM-DD, or a time from today on, as in '3 months'."
        )
    if found <= today:
        raise ToolRefusalError(
            f"horizon: {found} does not lie ahead, today is {today}; give the day until which it will hold."
        )
    if found > _months_on(today, 12 * LONGEST_HORIZON_YEARS):
        raise ToolRefusalError(
            f"horizon: {found} is more than {LONGEST_HORIZON_YEARS} years away; give the day on which it should be "
            "looked at again."
        )
    return found


def checked_invalidation(text: str) -> str:
    """Raises ToolRefusalError where it is too short to say anything, or too long to be checked."""
    told = one_line(text)
    shortest, longest = INVALIDATION_CHARACTERS
    if not shortest <= len(told) <= longest:
        raise ToolRefusalError(
            f"invalidation: {len(told)} characters; say in {shortest} to {longest} what could be seen that would prove "
            "this wrong, of whom and by how much."
        )
    return told


def _from_date(text: str) -> date | None:
    match = _ISO_DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date.fromisoformat(match["date"])
    except ValueError:
        return None


def _from_duration(text: str, today: date) -> date | None:
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    count = int(match["count"]) if match["count"].isdigit() else 1
    if (days := _DAYS_OF.get(match["unit"])) is not None:
        return today + timedelta(days=count * days)
    return _months_on(today, count * _MONTHS_OF[match["unit"]])


def _months_on(day: date, months: int) -> date:
    """The same day of a later month, or that month's last; no later than dates go."""
    years, month = divmod(day.month - 1 + months, 12)
    year = min(day.year + years, date.max.year)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))
