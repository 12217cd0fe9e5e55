"""Decides about a node or edge with all its quotes. Pure.

A value is taken from one quote if one supports it, else from all quotes that claim it together. What a quote is about must
be named in it, in another quote of the same page, or in the title or heading above it. More quotes never make a claim worse.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple
from unicodedata import decimal

from shared.graph.grounding.check import ClaimCheck
from shared.graph.grounding.cited import Claimed, Passage
from shared.graph.grounding.dates import find_dates
from shared.graph.grounding.findings import SUPPORTED, Finding, Verdict, instead, refused

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


@lru_cache(maxsize=256)
def _years(passage: Passage) -> frozenset[int]:
    """Years that the passage has, and those that its page means without saying so."""
    texts = [_ascii_digits(text) for text in (passage.quote, *passage.surroundings)]
    dates = (date.year for text in texts for date in find_dates(text, passage.language))
    written = (int(match) for text in texts for match in _YEAR.findall(text))
    implied = (year for text in texts for year in _implied_years(text))
    return frozenset(written) | {year for year in dates if year} | {*implied} | passage.years


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
