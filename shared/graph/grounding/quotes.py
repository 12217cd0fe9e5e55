"""The outcomes of a node or edge for all quotes that a write cites, or that are stored with it. Pure."""

import re
from calendar import monthrange
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple
from unicodedata import decimal

from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.name_rules import MAX_NAME_WORDS
from shared.graph.grounding.names import tokenize
from shared.graph.grounding.outcomes import MATCHED, Level, Outcome, instead, left_out
from shared.graph.grounding.passages import Cited, WrittenNode
from shared.graph.grounding.values import WriteCheck
from shared.graph.grounding.words import STEM_LENGTH, is_function_word

_FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)


class Quoted(NamedTuple):
    """A quote, and the values that it is said to support."""

    cited: Cited
    page: Hashable
    """Equal for quotes of one page."""
    claims: Mapping[str, Any]
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """The first moment at which it is no longer true."""


@dataclass(frozen=True)
class ElementOutcome:
    """The outcomes of a node or edge, and of its properties. `stated` are the quotes that state a property, by place."""

    element: Outcome
    properties: Mapping[str, Outcome] = field(default_factory=dict)
    stated: Mapping[str, Sequence[int]] = field(default_factory=dict)


def check_element(
    ends: Sequence[WrittenNode], quotes: Sequence[Quoted], required: Container[str] = ()
) -> ElementOutcome:
    """The outcomes of a node, with one of `ends`, or an edge, with two.

    A property is checked with all quotes that claim it, and if they do not have it, with all of the same pages. A text
    that is `required` is left out only if the pages do not have its figures, dates and names.
    """
    known = [end.names for end in ends if end.is_stored and not end.is_label]
    check = WriteCheck([quote.cited for quote in quotes], known)
    element = check.edge(ends) if len(ends) > 1 else check.node(ends[0])
    names = dict.fromkeys(name for quote in quotes for name in quote.claims)
    if element.level is Level.LEFT_OUT:
        return ElementOutcome(element, dict.fromkeys(names, element))
    properties: dict[str, Outcome] = {}
    stated: dict[str, Sequence[int]] = {}
    for name in names:
        properties[name], stated[name] = _check_property(check, quotes, name)
        text = next(quote.claims[name] for quote in quotes if name in quote.claims)
        if (
            name in required
            and properties[name].level is Level.LEFT_OUT
            and isinstance(text, str)
            and len(text.split()) > MAX_NAME_WORDS
            and (outcome := check.text_of_page(text)).level is not Level.LEFT_OUT
        ):
            properties[name] = outcome
    return ElementOutcome(element, properties, stated)


def _check_property(
    check: WriteCheck, quotes: Sequence[Quoted], name: str
) -> tuple[Outcome, Sequence[int]]:
    """The outcome of a property, and the places of the quotes that state it."""
    claiming = [place for place, quote in enumerate(quotes) if name in quote.claims]
    value = quotes[claiming[0]].claims[name]
    claiming = [place for place in claiming if quotes[place].claims[name] == value]

    def outcome_of(places: Sequence[int]) -> Outcome:
        return check.of_sentences([quotes[place].cited for place in places]).value(name, value)

    outcome = outcome_of(claiming)
    if outcome.level is Level.LEFT_OUT and len(claiming) < len(quotes):
        pages = {quotes[place].page for place in claiming}
        claiming = [place for place, quote in enumerate(quotes) if quote.page in pages]
        outcome = min(outcome, outcome_of(claiming), key=lambda each: each.level)
    if outcome.level is Level.LEFT_OUT or len(claiming) == 1:
        return outcome, claiming
    alone = {place: outcome_of([place]).level for place in claiming}
    best = min(alone.values())
    if best <= Level.COMPLETED:
        return outcome, [place for place, level in alone.items() if level <= Level.COMPLETED]
    may_state = [place for place, level in alone.items() if level is Level.UNREAD]
    return outcome, _most_alike(value, may_state, quotes) if may_state else claiming


def _most_alike(value: Any, places: Sequence[int], quotes: Sequence[Quoted]) -> Sequence[int]:
    """The quotes that have most words of a text; all of them if none has any."""
    words = {
        token.word[:STEM_LENGTH]
        for token in tokenize(str(value))
        if not is_function_word(token.word)
    }
    shared = {
        place: len(
            words & {token.word[:STEM_LENGTH] for token in tokenize(quotes[place].cited.sentence)}
        )
        for place in places
    }
    most = max(shared.values())
    return [place for place in places if shared[place] == most]


def check_period(quote: Quoted, quotes: Sequence[Quoted]) -> Outcome:
    """Whether the years from which and until which a quote is said to hold are in one of `quotes`, or those of its page.

    Only of the years: "spring" and "the third quarter" say months and days in too many ways.
    """
    if quote.valid_from is None and quote.valid_to is None:
        return MATCHED
    said = {year for each in quotes for year in _years_in(each.cited)}
    claimed = {"validFrom": quote.valid_from, "validTo": last_moment(quote.valid_to)}
    for name, moment in claimed.items():
        if moment is not None and moment.year not in said:
            return left_out(
                f"{name}: the cited sentences do not have {moment.year}{instead(sorted(said))}"
            )
    return MATCHED


def states_start(moment: datetime, quotes: Sequence[Quoted]) -> bool:
    """Whether one of the quotes, or what surrounds it, names the day of `moment`, or a period that it begins or ends."""
    year, month, day = moment.year, moment.month, moment.day
    is_last = day == monthrange(year, month)[1]
    periods = [Date(year, month, day)]
    if day == 1 or is_last:
        periods.append(Date(year, month))
    if (month % 3, day) == (1, 1) or (month % 3 == 0 and is_last):
        periods.append(Date(year, quarter=(month + 2) // 3))
    if (month, day) in ((1, 1), (12, 31)):
        periods.append(Date(year))
    return any(
        period.follows_from(date)
        for quote in quotes
        for date in _dates(quote.cited)
        for period in periods
    )


_YEAR: Final = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_SHORT_RANGE: Final = re.compile(
    r"(?<!\d)(?P<century>[12]\d)(?P<first>\d\d)\s?[-–—/]\s?(?P<last>\d\d)(?!\d)"
)
"""Such as "2015–17"."""
_DECADE: Final = re.compile(r"(?<!\d)(?P<year>[12]\d\d0)(?:['’]?s|er)\b")
_YEARS_IN_DECADE: Final = 10


def _years_in(cited: Cited) -> frozenset[int]:
    """The years that a sentence or what surrounds it has, and those that its page means without saying so."""
    return cited.page.years | {date.year for date in _dates(cited) if date.year}


@lru_cache(maxsize=256)
def _dates(cited: Cited) -> Sequence[Date]:
    """The dates and years that a sentence or what surrounds it has; dates without a year are of the page's year."""
    texts = [_ascii_digits(text) for text in (cited.sentence, cited.page.title, cited.heading)]
    published = cited.page.published
    dates = [
        date._replace(year=date.year or (published.year if published else None))
        for text in texts
        for date in find_dates(text, cited.page.language)
    ]
    written = [int(match) for text in texts for match in _YEAR.findall(text)]
    implied = [year for text in texts for year in _implied_years(text)]
    return [*dates, *map(Date, [*written, *implied])]


def _implied_years(text: str) -> Iterator[int]:
    """The years of decades, and the last years of ranges."""
    for match in _DECADE.finditer(text):
        yield from range(int(match["year"]), int(match["year"]) + _YEARS_IN_DECADE)
    for match in _SHORT_RANGE.finditer(text):
        if match["last"] > match["first"]:
            yield int(match["century"] + match["last"])


def _ascii_digits(text: str) -> str:
    if text.isascii():
        return text
    return "".join(str(decimal(each)) if each.isdecimal() else each for each in text)


def last_moment(valid_to: datetime | None) -> datetime | None:
    """The last moment of validity. The first one of the calendar, which some models write for "none", has none before it."""
    if valid_to is None or valid_to == _FIRST_MOMENT:
        return valid_to
    return valid_to - timedelta(microseconds=1)
