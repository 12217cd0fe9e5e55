"""Dates as people write them in documents."""

import re
from datetime import date, datetime

FORMATS = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%Y")
ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_date(text: str | None) -> date | None:
    """The day that `text` names (ISO 8601 or a usual English form); None where it names none."""
    if not text:
        return None
    text = text.strip()
    if match := ISO_DAY.match(text):
        return _parsed(match.group(), "%Y-%m-%d")
    return next((day for day in (_parsed(text, form) for form in FORMATS) if day), None)


def _parsed(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None
