"""Decides whether the claims about one element follow from the passages that they cite. Pure.

What rules can read must be there: each number, date, unit, currency, percentage and proper name; a claim with one that is
not there is refused. A claim is supported only if nothing in it is left to interpretation; otherwise it is unverified.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from shared.graph.grounding.cited import CitedPassages, Claimed, Passage, is_mentioned
from shared.graph.grounding.findings import (
    SUPPORTED,
    Finding,
    Verdict,
    listed,
    refused,
    unverified,
    worst,
)
from shared.graph.grounding.matching import to_decimal
from shared.graph.grounding.names import find_mentions, is_named_literally
from shared.graph.grounding.number_rules import NumberRules
from shared.graph.grounding.text_rules import TextRules
from shared.graph.grounding.units import hint_of
from shared.graph.grounding.words import fold, role_stems


@dataclass(frozen=True)
class Grounding:
    """The findings about an element, and about each of its properties."""

    element: Finding
    properties: Mapping[str, Finding]

    @property
    def worst(self) -> Verdict:
        return worst([self.element, *self.properties.values()]).verdict


def check_element(claimed: Claimed, passages: Sequence[Passage]) -> Grounding:
    """What the rules say of `claimed`, which cites `passages`."""
    check = ClaimCheck(claimed, passages)
    return Grounding(
        check.ends(), {name: check.value(name, value) for name, value in claimed.properties.items()}
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
