"""What Tavily's clients send, checked."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from sandbox.http.call import RefusedError
from sandbox.search import SearchQuery

MAX_RESULTS = 20
MAX_URLS = 20
RANGE_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}
RANGE_DAYS |= {name[0]: days for name, days in RANGE_DAYS.items()}


def search_query(body: Mapping[str, Any], today: date) -> SearchQuery:
    """Raises RefusedError (400) for a field that Tavily would refuse; fields that only tune ranking are passed over."""
    text = body.get("query")
    if not isinstance(text, str) or not text.strip():
        raise _refused("`query` must be a text of at least one character.")
    wanted = body.get("max_results", 5)
    if not isinstance(wanted, int) or not 0 <= wanted <= MAX_RESULTS:
        raise _refused(f"`max_results` is {wanted!r}; it must be a number from 0 to {MAX_RESULTS}.")
    return SearchQuery(
        text=text,
        max_results=wanted,
        published_from=_published_from(body, today),
        published_to=_day(body, "end_date"),
        include_domains=_strings(body, "include_domains"),
        exclude_domains=_strings(body, "exclude_domains"),
    )


def urls_of(body: Mapping[str, Any]) -> list[str]:
    """One address or a list of them."""
    given = body.get("urls")
    urls = [given] if isinstance(given, str) else given
    if not isinstance(urls, list) or not urls or not all(isinstance(url, str) for url in urls):
        raise _refused("`urls` must be an address or a list of addresses.")
    if len(urls) > MAX_URLS:
        raise _refused(f"`urls` has {len(urls)} addresses; at most {MAX_URLS} are read at once.")
    return urls


def _published_from(body: Mapping[str, Any], today: date) -> date | None:
    start = _day(body, "start_date")
    time_range = body.get("time_range")
    if time_range is not None and time_range not in RANGE_DAYS:
        raise _refused(f"`time_range` is {time_range!r}; it must be day, week, month or year.")
    days = RANGE_DAYS.get(time_range or "", body.get("days"))
    if not isinstance(days, int):
        return start
    reach = today - timedelta(days=days)
    return max(start, reach) if start else reach


def _day(body: Mapping[str, Any], name: str) -> date | None:
    given = body.get(name)
    if given is None:
        return None
    try:
        return date.fromisoformat(str(given))
    except ValueError:
        raise _refused(f"`{name}` is {given!r}; it must be a day such as 2026-01-31.") from None


def _strings(body: Mapping[str, Any], name: str) -> list[str]:
    given = body.get(name)
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


def _refused(message: str) -> RefusedError:
    return RefusedError(400, {"detail": {"error": message}})
