"""Decides whether the claims about one element follow from the passages that they cite. Pure.

What rules can read must be there: each number, date, unit, currency, percentage and proper name; a claim with one that is
not there is refused. A claim is supported only if nothing in it is left to interpretation; otherwise it is unverified.
"""

import re
from calendar import monthrange
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple
from unicodedata import decimal

from shared.graph.grounding.cited import CitedPassages, Claimed, Passage, is_mentioned
from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.findings import (
    SUPPORTED,
    Finding,
    Verdict,
    instead,
    listed,
    refused,
    to_decimal,
    unverified,
    worst,
)
from shared.graph.grounding.names import find_mentions, is_named_literally
from shared.graph.grounding.text_rules import NumberRules, TextRules
from shared.graph.grounding.units import hint_of
from shared.graph.grounding.words import (
    fold,
    role_stems,
)

_MAX_DEPTH: Final = 20
"""Of a value with values; more is left to a reader."""
_LONGER: Final = re.compile(r"[ -](?:& )?(?!(?:[A-Z]{3}|[IVX]+)\b)[A-ZÀ-Þ][a-zà-ÿ]{2}")
"""After a mention of a name: a capitalized word, which is no code of a currency."""
_UMLAUTS: Final = (("ae", "a"), ("oe", "o"), ("ue", "u"))
_MIN_ACRONYM: Final = 3


class ClaimCheck:
    """Checks what is claimed of one element against the passages that it cites."""

    def __init__(self, claimed: Claimed, passages: Sequence[Passage]) -> None:
        self._cited = CitedPassages(claimed, passages)
        self._numbers = NumberRules(self._cited)
        self._texts = TextRules(self._cited)

    @property
    def other_names(self) -> list[str]:
        """See `CitedPassages`."""
        return self._cited.other_names

    def ends(self) -> Finding:
        """The finding about the element itself: the quotes or what surrounds them must name it."""
        cited = self._cited
        only_around: list[str] = []
        unclear: list[str] = []
        for names in cited.claimed.ends:
            if any(cited.mention(name) for name in names):
                if not cited.claimed.is_edge and not any(self._is_meant(name) for name in names):
                    unclear.append(names[0])
            elif any(is_mentioned(name, cited.surroundings) for name in names):
                only_around.append(names[0])
            elif any(self._may_be_meant(name) or cited.have_all_words(name) for name in names):
                return unverified(f"the quote may mean {names[0]!r}")
            else:
                return refused(
                    f"{names[0]!r} is named neither in the quote nor in the title or heading of its page"
                )
        if cited.claimed.is_edge:
            return unverified("rules cannot check how two things are connected")
        if unclear:
            return unverified(
                f"{unclear[0]!r} may be part of a longer name or a common word in the quote"
            )
        if only_around and cited.other_names:
            others = listed(cited.other_names)
            return unverified(f"the quote names {others}; only the page names {only_around[0]!r}")
        if cited.is_negated:
            return unverified("the quote contains a negation")
        if cited.name_after_pronoun:
            return unverified("the pronoun at the beginning of the quote may mean something else")
        return SUPPORTED

    def value(self, name: str, value: Any) -> Finding:
        """The finding about one property."""
        finding = self._value(name, value, 0)
        if finding.verdict is not Verdict.SUPPORTED or value is None:
            return finding
        if not self._cited.is_in_known_language:
            return unverified("rules do not know the language of the page")
        if self._cited.is_negated:
            return unverified("the quote contains a negation")
        if (per := hint_of(name).per) and not self._cited.have_unit(per):
            return unverified(f"the quote does not name the unit after 'per' in {name}")
        if isinstance(value, int | float) and not self._is_about(name):
            return unverified(f"the quote has no word for {name}")
        return finding

    def _is_about(self, name: str) -> bool:
        """Whether the quotes have a word for the property."""
        stems = role_stems(name)
        return any(word.startswith(stems) for word in self._cited.words)

    def _value(self, name: str, value: Any, depth: int) -> Finding:
        if value is None:
            return SUPPORTED
        if isinstance(value, bool):
            return unverified("rules cannot check yes-or-no values")
        if isinstance(value, int | float | Decimal):
            number = to_decimal(value)
            if number is None:
                return unverified("this is not a number")
            return self._numbers.check(hint_of(name), number)
        if isinstance(value, str):
            finding = self._texts.check(value)
            is_kind = hint_of(name).is_kind and not any(each.isdigit() for each in value)
            # "Automotive", "Chief Executive Officer", "Female", "German".
            return unverified(finding.reason) if is_kind and finding.reason else finding
        if depth >= _MAX_DEPTH or not isinstance(value, Mapping | Sequence):
            return unverified("rules cannot check values of this kind")
        if isinstance(value, Mapping):
            return worst(
                self._value(f"{name}_{key}", each, depth + 1) for key, each in value.items()
            )
        return worst(self._value(name, each, depth + 1) for each in value)

    def _is_meant(self, name: str) -> bool:
        """Whether a mention of `name` is no longer name, and no common word such as "us" for "US"."""
        for quote in self._cited.quotes:
            # The quicker way, by which most are found.
            end = quote.find(name) + len(name)
            if is_named_literally(name, quote) and not _LONGER.match(quote, end):
                return True
        mentions = [
            (quote, each) for quote in self._cited.quotes for each in find_mentions(name, quote)
        ]
        return not mentions or any(
            not _LONGER.match(quote, each.end)
            and not (name[:1].isupper() and quote[each.start].islower())
            for quote, each in mentions
        )

    def _may_be_meant(self, name: str) -> bool:
        """Whether a quote may have the acronym of `name`, a translation, "and" for "&", or "ü" for "ue"."""
        quotes = self._cited.quotes
        acronym = "".join(word[0] for word in re.findall(r"\w+", name) if word[0].isupper())
        if len(acronym) >= _MIN_ACRONYM and any(
            re.search(rf"\b{re.escape(acronym)}\b", quote) for quote in quotes
        ):
            return True
        plain = fold(name)
        for written, letter in _UMLAUTS:
            plain = plain.replace(written, letter)
        spellings = (plain, name.replace("&", "and"))
        return any(is_mentioned(each, quotes) for each in spellings) or self._cited.may_translate(
            name
        )


RULES: Final = 4
"""Version of the rules of this package. Evidence is stored with the version that accepted it."""


class Quoted(NamedTuple):
    """A quote, and the values that it is said to support."""

    passage: Passage
    page: Hashable
    """Equal for quotes of one page."""
    claims: Mapping[str, Any]
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """The first moment at which it is no longer true."""


class QuoteFinding(NamedTuple):
    """What the rules say of one quote."""

    element: Finding
    """Whether it is about the element."""
    claims: Mapping[str, Finding]
    """By property, for the quotes that claim it together."""
    supported_elsewhere: frozenset[str] = frozenset()
    """Properties that other quotes support better than this one."""
    period: Finding = SUPPORTED
    """Whether the years from which and until which it is said to be true are there."""


def check_quotes(
    ends: Sequence[Sequence[str]], quotes: Sequence[Quoted], *, is_edge: bool
) -> list[QuoteFinding]:
    """A finding for each of `quotes`, which are all of the element. For `ends` see `Claimed`."""
    return _ElementCheck(ends, quotes, is_edge).findings()


class _ElementCheck:
    def __init__(
        self, ends: Sequence[Sequence[str]], quotes: Sequence[Quoted], is_edge: bool
    ) -> None:
        self._ends = ends
        self._quotes = quotes
        self._is_edge = is_edge
        self._checks = [self._check(quote, [quote.passage]) for quote in quotes]
        self._pooled: dict[tuple[str, frozenset[int]], Finding] = {}
        self._found: dict[tuple[int, str, int], Finding] = {}

    def findings(self) -> list[QuoteFinding]:
        return [
            QuoteFinding(
                self._element(quote, check), *self._claims(quote, check), self._period(quote)
            )
            for quote, check in zip(self._quotes, self._checks, strict=True)
        ]

    def _check(self, quote: Quoted, passages: Sequence[Passage]) -> ClaimCheck:
        return ClaimCheck(Claimed(self._ends, quote.claims, self._is_edge), passages)

    def _element(self, quote: Quoted, check: ClaimCheck) -> Finding:
        finding = check.ends()
        if finding.verdict is not Verdict.REFUSED or len(self._quotes) == 1:
            return finding
        of_page = [other.passage for other in self._quotes if other.page == quote.page]
        together = self._check(quote, of_page)
        if together.ends().verdict is Verdict.REFUSED:
            return finding
        # "Its revenue rose", below a quote that names several, can be about any of them.
        if together.other_names:
            return Finding(Verdict.UNVERIFIED, "only another quote names it, beside others")
        return together.ends()

    def _period(self, quote: Quoted) -> Finding:
        """Only of the years: "spring" and "the third quarter" say months and days in too many ways."""
        if quote.valid_from is None and quote.valid_to is None:
            return SUPPORTED
        said = {year for each in self._quotes for year in _years(each.passage)}
        claimed = {"validFrom": quote.valid_from, "validTo": last_moment(quote.valid_to)}
        for name, moment in claimed.items():
            if moment is not None and moment.year not in said:
                return refused(
                    f"{name}: {moment.year} is neither in the quotes nor in the title or heading of their pages, and no page"
                    f" was written then{instead(sorted(said))}"
                )
        return SUPPORTED

    def _value(self, check: ClaimCheck, quote: Quoted, name: str) -> Finding:
        """The finding about what `quote` claims, made once."""
        key = id(check), name, id(quote)
        if key not in self._found:
            self._found[key] = check.value(name, quote.claims[name])
        return self._found[key]

    def _claims(
        self, quote: Quoted, check: ClaimCheck
    ) -> tuple[Mapping[str, Finding], frozenset[str]]:
        findings = {}
        elsewhere = set()
        for name, value in quote.claims.items():
            findings[name] = own = self._value(check, quote, name)
            if own.verdict is Verdict.SUPPORTED:
                continue
            others = [
                (other, other_check)
                for other, other_check in zip(self._quotes, self._checks, strict=True)
                if other is not quote and name in other.claims and other.claims[name] == value
            ]
            if not others:
                continue
            best = min((self._value(each, other, name) for other, each in others), key=_verdict)
            if best.verdict < own.verdict:
                findings[name] = best
                elsewhere.add(name)
                continue
            if own.verdict is not Verdict.REFUSED:
                continue
            key = name, frozenset([id(quote), *(id(other) for other, _ in others)])
            if key not in self._pooled:
                together = [quote.passage, *(other.passage for other, _ in others)]
                self._pooled[key] = self._check(quote, together).value(name, value)
            findings[name] = min(own, self._pooled[key], key=_verdict)
        return findings, frozenset(elsewhere)


_YEAR: Final = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_SHORT_RANGE: Final = re.compile(
    r"(?<!\d)(?P<century>[12]\d)(?P<first>\d\d)\s?[-–—/]\s?(?P<last>\d\d)(?!\d)"
)
"""Such as "2015–17"."""
_DECADE: Final = re.compile(r"(?<!\d)(?P<year>[12]\d\d0)(?:['’]?s|er)\b")
_YEARS_IN_DECADE: Final = 10
_FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)


def _years(passage: Passage) -> frozenset[int]:
    """Years that the passage has, and those that its page means without saying so."""
    return passage.years | {date.year for date in _dates(passage) if date.year}


@lru_cache(maxsize=256)
def _dates(passage: Passage) -> Sequence[Date]:
    """The dates and years that the passage or what surrounds it has."""
    texts = [_ascii_digits(text) for text in (passage.quote, *passage.surroundings)]
    dates = [date for text in texts for date in find_dates(text, passage.language)]
    written = [int(match) for text in texts for match in _YEAR.findall(text)]
    implied = [year for text in texts for year in _implied_years(text)]
    return [*dates, *map(Date, [*written, *implied])]


def states_day(
    passages: Sequence[Passage], moment: datetime, default_year: int | None = None
) -> bool:
    """Whether a date in the passages or what surrounds them is the day of `moment`, or in a period that this day begins,
    or ends. `default_year` is that of dates without one.
    """
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
        period.follows_from(date._replace(year=date.year or default_year))
        for passage in passages
        for date in _dates(passage)
        for period in periods
    )


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


def _verdict(finding: Finding) -> Verdict:
    return finding.verdict
