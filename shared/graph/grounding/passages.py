"""Outcomes; the sentences that a write cites, what rules read in them, and the names that their pages introduce. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from typing import Any, Final, NamedTuple

from shared.graph.grounding.dates import Moment, find_moments
from shared.graph.grounding.names import (
    Name,
    contains,
    find_mentions,
    find_names,
    is_mentioned,
    is_of_date,
    name_words,
    tokenize,
    translate_place,
)
from shared.graph.grounding.quantities import Quantity, find_quantities
from shared.graph.grounding.words import (
    LANGUAGES,
    fold,
    fold_in_place,
    lexicon,
    pattern_of,
    table,
    word_set,
)


class Level(IntEnum):
    """The outcome of a value. The greater, the worse."""

    MATCHED = 0
    """The cited sentences have it, and nothing in it is left to interpretation."""
    COMPLETED = 1
    """The cited sentences have a part of it, and its page or the graph has the rest."""
    UNREAD = 2
    """Nothing speaks against it; the rules cannot read all of it."""
    LEFT_OUT = 3
    """It has a figure, date or name that the cited sentences do not have, or that they exclude."""


class Outcome(NamedTuple):
    level: Level
    reason: str = ""
    """The reason why it is left out."""
    value: Any = None
    """The whole value, if it is completed."""


MATCHED: Final = Outcome(Level.MATCHED)
UNREAD: Final = Outcome(Level.UNREAD)
_MAX_LISTED: Final = 5


def left_out(reason: str) -> Outcome:
    return Outcome(Level.LEFT_OUT, reason)


def instead(values: Iterable[Any]) -> str:
    """The end of a reason: what the sentences have; empty if that is nothing."""
    shown = [*dict.fromkeys(map(str, values))][:_MAX_LISTED]
    return f"; they have {', '.join(shown)}" if shown else ""


class Publisher(NamedTuple):
    """The node that publishes the pages of a site."""

    name: str
    country: str = ""

    def value_of(self, name: str) -> str | None:
        """What its pages have as the property of that name; None if that is not known, or no property of a publisher."""
        known = {"outlet": self.name, "publisher": self.name, "side": self.country}
        return known.get(name) or None


class Page(NamedTuple):
    """A page with cited sentences.

    `text` tells whom a surname or title means. Without it, nothing is left out because of a name.
    """

    title: str = ""
    site: str = ""
    published: date | None = None
    text: str = ""
    language: str | None = None
    decimal_sign: str | None = None
    """See `find_decimal_sign`."""
    read_in: int | None = None
    """The year in which it was fetched."""
    publisher: Publisher | None = None
    """That of its site, if the graph knows it."""


class Cited(NamedTuple):
    """A cited sentence."""

    page: Page
    sentence: str
    heading: str = ""
    """The nearest one above it."""


class WrittenNode(NamedTuple):
    """The node that is written, or an end of the edge that is written."""

    names: Sequence[str]
    """The first is claimed, the others are known ones."""
    is_label: bool = False
    is_stored: bool = True
    """Whether the graph has it. If it does not, a page has to give its full name before a short form means it."""


@dataclass(frozen=True)
class Reading:
    """A cited sentence, and what the rules read in it when they need it."""

    cited: Cited

    @property
    def text(self) -> str:
        return self.cited.sentence

    @property
    def language(self) -> str | None:
        return self.cited.page.language

    @cached_property
    def folded(self) -> str:
        return fold_in_place(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(token.word for token in tokenize(self.text))

    @cached_property
    def moments(self) -> Sequence[Moment]:
        return find_moments(self.text, self.language, self.cited.page.published)

    @cached_property
    def _quantities(self) -> Sequence[Quantity]:
        page = self.cited.page
        return find_quantities(self.text, page.language, page.decimal_sign)

    @cached_property
    def quantities(self) -> Sequence[Quantity]:
        """Without numbers that are parts of a date or of an identifier, or only name something."""
        taken = [(each.start, each.end) for each in self.moments]
        taken += [match.span() for match in _CODE.finditer(self.text)]
        return [
            each
            for each in self._quantities
            if not each.is_label
            and (each.unit or not each.end or not any(a <= each.start < b for a, b in taken))
        ]

    @cached_property
    def labels(self) -> frozenset[Decimal]:
        """Numbers that only name something, as in "ISO 9001" and "the 70th minute"."""
        return frozenset(
            value for each in self._quantities if each.is_label for value in each.values
        )

    def says_before(self, key: str, place: int) -> bool:
        """Whether the pattern of that name ends at a place in the sentence."""
        return bool(pattern_of(key).search(self.folded, max(0, place - _NEAR_CHARS), place))

    @cached_property
    def names(self) -> Sequence[Name]:
        return find_names(self.text, self.language)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the sentence states facts: it has no negation, and no word such as "may" or "planned"."""
        # "May" is a month.
        words = self.words - ({"may"} if "May" in self.text else set())
        return not _hedges(self.language).intersection(words) and "n't" not in self.folded


_CODE: Final = re.compile(
    r"(?<!\w)[A-Za-z]+-\d[\w-]*|(?<![\w.])(?!\d{1,3}(?:\.\d{3})+(?![\w.]))v?\d+(?:\.\d+){2,}(?!\w)"
)
read: Final = lru_cache(maxsize=512)(Reading)


@cache
def _hedges(language: str | None) -> frozenset[str]:
    keys = ((name, key) for name in ("hedges", "negations") for key in (language or "", "all"))
    listed = (table(name).get(key, "") for name, key in keys)
    return frozenset(fold(word) for words in listed for word in words.split())


_NEAR_CHARS: Final = 24
_MIN_SURNAME: Final = 3
_MIN_INITIALS: Final = 3
_BEFORE_PLACES: Final = (" of", " for")
_FORMS: Final = (("ae", "a"), ("oe", "o"), ("ue", "u"), ("saint ", "st "), ("sankt ", "st "))


def _plain_form(text: str) -> str:
    """The text folded, with "u" for "ü" and "ue", and "St" for "Saint"."""
    plain = fold(text)
    for written, form in _FORMS:
        plain = plain.replace(written, form)
    return plain


@lru_cache(maxsize=64)
def _names_by_last_word(page: Page) -> Mapping[str, Sequence[str]]:
    names: dict[str, list[str]] = {}
    for name in find_names(page.text, page.language):
        words = name_words(name.text)
        if len(words) > 1:
            names.setdefault(words[-1], []).append(name.text)
    return names


class Passages:
    """The cited sentences of a write, and the names by which they can mean something."""

    def __init__(self, cited: Sequence[Cited], known: Sequence[Sequence[str]] = ()) -> None:
        """`known` are the names of each node that the graph has."""
        self.readings = [read(each) for each in cited]
        self.sentences = [each.sentence for each in cited]
        self.pages = list(dict.fromkeys(each.page for each in cited))
        self.around = [text for each in cited for text in (each.page.title, each.heading) if text]
        self.known = known
        self.own: Sequence[str] = ()
        """The names of the node, or of both ends of the edge; none of a label, which no sentence needs to name."""
        self.label = ""
        """The name of the node, if that is a label."""

    @cached_property
    def is_readable(self) -> bool:
        return all(each.language in LANGUAGES for each in self.readings)

    @cached_property
    def has_pages(self) -> bool:
        return all(page.text for page in self.pages)

    @property
    def can_miss_names(self) -> bool:
        return self.is_readable and self.has_pages

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.words for each in self.readings))

    @cached_property
    def page_texts(self) -> list[str]:
        return [text for page in self.pages for text in (page.title, page.text) if text]

    @cached_property
    def page_words(self) -> frozenset[str]:
        return frozenset(token.word for text in self.page_texts for token in tokenize(text))

    def context(self, *, is_of_page: bool = False) -> list[Reading]:
        """The cited sentences, and what is read with them: titles and headings, and the whole text if `is_of_page`."""
        around = [
            Cited(each.cited.page, text)
            for each in self.readings
            for text in (each.cited.page.title, each.cited.heading)
        ]
        if is_of_page:
            around += [Cited(page, page.text) for page in self.pages]
        return [*self.readings, *(read(each) for each in dict.fromkeys(around) if each.sentence)]

    def may_have(self, name: str) -> bool:
        """Whether a sentence may have another form of the name: initials, "ü" for "ue", "St" for "Saint"."""
        initials = "".join(word[0] for word in re.findall(r"\w+", name) if word[0].isupper())
        if len(initials) >= _MIN_INITIALS and contains(initials, self.sentences):
            return True
        if name.isupper() and len(name) >= _MIN_INITIALS:
            pattern = r"\W+(?:\w{1,3}\W+)?".join(
                rf"{letter}\w+" for letter in name if letter.isalpha()
            )
            if any(re.search(rf"\b{pattern}", sentence) for sentence in self.sentences):
                return True
        return is_mentioned(_plain_form(name), [*map(_plain_form, self.sentences)])

    def has(self, name: str) -> bool:
        """Whether a cited sentence has the name as it is, or that of the place in the language of the page."""
        return is_mentioned(name, self.sentences) or any(
            is_mentioned(other, [reading.text])
            for reading in self.readings
            for other in translate_place(name, reading.language)
        )

    def is_sure(self, name: Name, language: str | None) -> bool:
        """Whether a name that a sentence has is a proper name: in German, nouns have capitals too."""
        if language != "de":
            return name.is_certain or bool(name.start)
        words = name.text.lower().split()
        return name.is_certain and not word_set("articles").intersection(words)

    def is_named(self, names: Sequence[str]) -> bool | None:
        """Whether a sentence has one of these `names`, or a short form that only they have; None if it may."""
        shorts = [
            short
            for name in names
            for short in self.short_forms(name)
            if is_mentioned(short, self.sentences)
        ]
        if any(self._means(name) for name in names) or any(
            self.full_names(each) <= {*names} and not self._is_month(each) for each in shorts
        ):
            return True
        may_be = shorts or any(self.has(name) or self.may_have(name) for name in names)
        return None if may_be or is_any_mentioned(names, self.around) else False

    def is_in_title(self, names: Sequence[str]) -> bool:
        forms = [each for name in names for each in (name, *self.short_forms(name))]
        return is_any_mentioned(forms, self.around)

    def _means(self, name: str) -> bool:
        """Whether a sentence has the name by itself: not as a part of a longer name, or as a word in small letters."""
        if not self.has(name):
            return False
        mentions = [
            (sentence, each)
            for sentence in self.sentences
            for each in find_mentions(name, sentence)
        ]
        return not mentions or any(
            not _CODE_BEFORE.search(sentence, max(0, each.start - 5), each.start)
            and not _LONGER.match(sentence, each.end)
            and not (name[:1].isupper() and sentence[each.start].islower())
            and not (name.isupper() and not sentence[each.start : each.end].isupper())
            for sentence, each in mentions
        )

    def _is_month(self, name: str) -> bool:
        """Whether the name is also a month or a day of the week in the language of a sentence, as "May" is."""
        return any(is_of_date(fold(name), lexicon(each.language)) for each in self.readings)

    def short_forms(self, name: str) -> Sequence[str]:
        """The surname, if the page or the graph has introduced the name."""
        first, _, last = name.rpartition(" ")
        # "Bank of Korea" has none.
        is_surname = last[:1].isupper() and len(last) >= _MIN_SURNAME and first
        if not is_surname or (" " in first and first.endswith(_BEFORE_PLACES)):
            return []
        is_introduced = is_mentioned(name, self.page_texts) or any(
            name in names for names in self.known
        )
        return [last] if is_introduced else []

    def full_names(self, short: str) -> set[str]:
        """The full names of which `short` is the last word, on the pages and in the graph."""
        last = name_words(short)[-1:]
        found = {names[0] for names in self.known if name_words(names[0])[-1:] == last}
        for page in self.pages:
            found |= {*map(without_office, _names_by_last_word(page).get("".join(last), ()))}
        longest = [
            name
            for name in found
            if " " in name and not any(name != each and each.endswith(name) for each in found)
        ]
        # A known node can be the end of it, as in "Transport Minister Maren Holt".
        return {
            next((names[0] for names in self.known if find_mentions(names[0], name)), name)
            for name in longest
        }

    def is_of_other(self, reading: Reading, place: int) -> bool:
        """Whether the name before a place in the sentence is that of something else than the element."""
        before = [
            name
            for name in reading.names
            if name.end <= place and self.is_sure(name, reading.language)
        ]
        if not before or not self.own or reading.says_before("in_place", before[-1].start):
            return False
        last = before[-1].text
        return not any(is_mentioned(last, [own]) or is_mentioned(own, [last]) for own in self.own)

    def other_names(self, own: Iterable[str]) -> list[str]:
        known = {word for name in own for word in name_words(name)}
        return [
            name.text
            for reading in self.readings
            for name in reading.names
            if (name.is_certain or not name.start)
            and (words := [word for word in name_words(name.text) if len(word) > 1])
            and not known.intersection(words)
        ]


_LONGER: Final = re.compile(r"[ -](?:& )?(?!(?:[A-Z]{3}|[IVX]+)\b)[A-ZÀ-Þ][a-zà-ÿ]{2}")
"""After a mention of a name: a capitalized word, which is no code of a currency."""
_CODE_BEFORE: Final = re.compile(r"\b[A-Z]{2,3} $")
"""Before a mention of a name that is a part of a longer one, such as "AS Roma"."""


def without_office(name: str) -> str:
    """The name without offices and titles before it."""
    name = pattern_of("small_titles").sub("", name)
    while (match := pattern_of("offices").match(name)) and " " in name[match.end() :]:
        name = name[match.end() :]
    return name


def has_office(name: str) -> bool:
    """Whether the name begins with an office or title, as "Minister Jansen" does."""
    return bool(pattern_of("offices").match(name) or pattern_of("small_titles").match(name))


def is_any_mentioned(names: Sequence[str], texts: Sequence[str]) -> bool:
    return any(is_mentioned(name, texts) for name in names)
