"""Forecast terms of a conclusion: its confidence, its horizon, and what would prove it wrong. Pure."""

import calendar
import re
from collections.abc import Collection
from datetime import date, timedelta
from typing import Any, Final

from shared.graph.validation import one_line
from shared.tools import ToolRefusalError

SENTENCE_CHARS: Final = (20, 600)
MAX_HORIZON_YEARS: Final = 10

_DURATION: Final = re.compile(
    r"(?:in |for |within )?(?P<count>\d{1,4}|an?|one) (?P<unit>day|week|month|quarter|year)s?"
)
_ISO_DATE: Final = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})(?:[Tt ].*)?")
_MONTHS_PER_UNIT: Final = {"month": 1, "quarter": 3, "year": 12}
_DAYS_PER_UNIT: Final = {"day": 1, "week": 7}


def validate_confidence(confidence: float) -> float:
    """Raises ToolRefusalError unless it is between 0 and 1."""
    if not 0 <= confidence <= 1:
        raise ToolRefusalError(
            f"confidence: {confidence} is not from 0 to 1; 0.7 means fairly sure."
        )
    return confidence


MAX_CONFIDENCE_OF_ONE_ORIGIN: Final = 0.7


def limit_confidence(confidence: float, origins: Collection[object]) -> float:
    """The confidence that pages of these origins allow. One author can be wrong, on however many pages."""
    return min(confidence, MAX_CONFIDENCE_OF_ONE_ORIGIN) if len(origins) < 2 else confidence


def parse_horizon(text: str, today: date) -> date:
    """The last day on which the conclusion holds, from a date or a duration that starts `today`.

    Raises ToolRefusalError if it is neither, is not in the future, or is more than MAX_HORIZON_YEARS away.
    """
    normalized = one_line(text).lower().rstrip(".")
    day = _parse_date(normalized) or _parse_duration(normalized, today)
    if day is None:
        raise ToolRefusalError(
            f"horizon: {text[:80]!r} is not a date; write YYYY-MM-DD, or a time from today, as in '3 months'."
        )
    if day <= today:
        raise ToolRefusalError(
            f"horizon: {day} is not in the future (today is {today}); give the last day on which it holds."
        )
    if day > _add_months(today, 12 * MAX_HORIZON_YEARS):
        raise ToolRefusalError(
            f"horizon: {day} is more than {MAX_HORIZON_YEARS} years away; give the date on which to review it."
        )
    return day


def validate_change(text: str | None) -> str:
    """Returns the sentence that says what changed since replaced advice, or why contradicting advice holds too, on one
    line. Raises ToolRefusalError if it is not said.
    """
    return _validate_sentence(
        "change", text or "", "what changed since the advice that it replaces, or why both hold"
    )


def validate_reason(text: str) -> str:
    """Why advice is confirmed or withdrawn, on one line. Raises ToolRefusalError if it is not said."""
    return _validate_sentence("because", text, "why")


def validate_invalidation(text: str) -> str:
    """The text on one line. Raises ToolRefusalError if it is too short or too long."""
    return _validate_sentence(
        "invalidation", text, "what would prove this wrong, with the subject and the amount"
    )


def _validate_sentence(argument: str, text: str, what: str) -> str:
    line = one_line(text)
    min_chars, max_chars = SENTENCE_CHARS
    if not min_chars <= len(line) <= max_chars:
        raise ToolRefusalError(
            f"{argument}: {len(line)} characters; use {min_chars} to {max_chars} to say {what}."
        )
    return line


def _parse_date(text: str) -> date | None:
    match = _ISO_DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date.fromisoformat(match["date"])
    except ValueError:
        return None


def _parse_duration(text: str, today: date) -> date | None:
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    count = int(match["count"]) if match["count"].isdigit() else 1
    if (days := _DAYS_PER_UNIT.get(match["unit"])) is not None:
        return today + timedelta(days=count * days)
    return _add_months(today, count * _MONTHS_PER_UNIT[match["unit"]])


def _add_months(day: date, months: int) -> date:
    """The same day of a later month, or the last day of that month; at most the last day of the calendar."""
    years, month = divmod(day.month - 1 + months, 12)
    year = min(day.year + years, date.max.year)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def stored_date(value: Any) -> date | None:
    """The date that a stored conclusion has; None for anything else, because an edited value must not prevent showing it."""
    return _parse_date(value) if isinstance(value, str) else None
