"""What code reads in a page: its language, headings and sentences when it is stored, and quotes in its text. Pure.

Offsets are in bytes of the text in UTF-8, in pairs of start and end. They are stored with the page, so that nothing
depends on later versions of this module.
"""

import re
import unicodedata
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Final

from shared.graph.grounding.words import (
    find_decimal_sign,
    find_language,
    is_function_word,
)
from shared.tools import Json

MAX_CACHED_PAGES: Final = 32

# Typographic characters that Unicode's compatibility normalization does not replace.
_TYPOGRAPHY: Final = {
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″«»", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    # Soft hyphen, zero-width spaces and joiners, byte order mark: they are invisible.
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}


@dataclass(frozen=True)
class Span:
    """A half-open byte range of a text in UTF-8."""

    start_byte: int
    end_byte: int

    def extract(self, text: str) -> bytes:
        """The bytes of the range; fewer if the text ends earlier."""
        return text.encode()[self.start_byte : self.end_byte]


@dataclass(frozen=True)
class _NormalizedText:
    text: str
    origins: "array[int]"
    """For each character of `text` the index of its character in the page."""


def find_quote(page: str, quote: str) -> Span | None:
    """The first exact occurrence of `quote` in `page`, else the first one after normalization, else None.

    White space is collapsed and typography is normalized: quotation marks, dashes, ligatures, zero-width characters.
    Case and words must match exactly.
    """
    # ASCII needs only its white space collapsed, and a quote needs no origins.
    needle = " ".join(quote.split()) if quote.isascii() else _normalize(quote).text.strip()
    if not needle:
        return None
    literal = quote.strip()
    if (start := page.find(literal)) >= 0:
        return _span(page, start, start + len(literal))
    normalized = _normalize_page(page)
    index = normalized.text.find(needle)
    if index < 0:
        return None
    first = normalized.origins[index]
    last = normalized.origins[index + len(needle) - 1]
    return _span(page, first, last + 1)


def _span(page: str, start: int, end: int) -> Span:
    """The bytes of the characters from `start` to before `end`."""
    if page.isascii():
        return Span(start, end)
    start_byte = len(page[:start].encode())
    return Span(start_byte, start_byte + len(page[start:end].encode()))


@lru_cache(maxsize=MAX_CACHED_PAGES)
def _normalize_page(page: str) -> _NormalizedText:
    return _normalize(page)


def _normalize(text: str) -> _NormalizedText:
    characters: list[str] = []
    origins = array("L")
    for origin, character in enumerate(text):
        plain = _TYPOGRAPHY.get(character)
        if plain is None:
            plain = character if character.isascii() else unicodedata.normalize("NFKC", character)
        for replacement in plain:
            is_space = replacement.isspace()
            if is_space and characters and characters[-1] == " ":
                continue
            characters.append(" " if is_space else replacement)
            origins.append(origin)
    return _NormalizedText("".join(characters), origins)


MAX_SENTENCE_CHARS: Final = 2_000
"""A longer sentence is cut, between words where it has any."""
# The run of signs is matched as a whole, from its beginning: a line of signs is read once.
_SIGNS_AT_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(?=\s)")
_MAX_ABBREVIATION_CHARS: Final = 12
"""More than the longest of _ABBREVIATION, with the character before it."""
_ABBREVIATION: Final = re.compile(
    # An initial, a number or an abbreviation before the dot: "J. Smith", "am 3. Mai", "Nr. 5", "ca. 5"; not "81.4".
    r"(?:(?<!\w)(?<!\d[.,])(?:\w|\d\d?|[Nn]r|[Nn]o|[Aa]rt|[Aa]bs|ca|bzw|usw|[Dd]r|[Pp]rof|[Mm]rs?|[Ss]t|[Ss]ra?|[Mm]me|[Ii]ng|[Ss]ig|vs|etc"
    r"|approx|est|[Ff]ig|[Pp]p?|[Pp]ág|[Pp]ag|[Vv]ol|[Cc]h|[Ii]nc|[Cc]orp|[Ll]td|[Cc]o|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Okt"
    r"|Nov|Dec|Dez|janv|févr|avr|juil|déc|ene|abr|ago|dic|gen|mag|giu|lug|set|ott)|\.[^\W\d])\.$"
)
_NUMBER_END: Final = re.compile(r"\d\.$")
_NEXT_WORD: Final = re.compile(r"[^\W\d_]+")
_BULLET: Final = re.compile(r"(?:[-*•–]|\d{1,3}[.)])\s+")


_BLANKS: Final = re.compile(r"\s*")
_WORD_END: Final = re.compile(r"(?<!\s)\s")


def find_sentences(line: str) -> Iterator[tuple[int, int]]:
    """The sentences of a line, without the white space around them, and without the signs of a heading or list.

    Takes time that grows with the length of the line alone.
    """
    start = len(line) - len(line.lstrip(" \t#"))
    if bullet := _BULLET.match(line, start):
        start = bullet.end()
    for match in _SIGNS_AT_END.finditer(line, start):
        following = _end_of_blanks(line, match.end())
        is_end = following == len(line) or not line[following].islower()
        tail = line[max(start, match.end() - _MAX_ABBREVIATION_CHARS) : match.end()]
        if is_end and (
            not _ABBREVIATION.search(tail)
            or (_NUMBER_END.search(tail) and _begins_sentence(line, following))
        ):
            yield from _cut(line, start, match.end())
            start = following
    yield from _cut(line, start, len(line.rstrip()))


def _begins_sentence(line: str, start: int) -> bool:
    """Whether an article or the like follows with a capital, as in "by 12. The board"; after an ordinal there is none."""
    following = _NEXT_WORD.match(line, start)
    return following is not None and is_function_word(following[0].lower())


def _cut(line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of at most MAX_SENTENCE_CHARS."""
    while end - start > MAX_SENTENCE_CHARS:
        limit = start + MAX_SENTENCE_CHARS
        ends = [match.start() for match in _WORD_END.finditer(line, start, limit + 1)]
        cut = ends[-1] if ends else limit
        yield start, cut
        start = _end_of_blanks(line, cut)
    if start < end:
        yield start, end


def _end_of_blanks(line: str, start: int) -> int:
    match = _BLANKS.match(line, start)
    assert match is not None
    return match.end()


_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD: Final = re.compile(r"\w+")
MAX_COMPARED_CHARS: Final = 60_000
"""Of all pages together. The result is only a hint and must not take long."""
_MAX_SENTENCES_COMPARED: Final = 5
_MAX_SENTENCE_CHARS: Final = 500
_MIN_SIMILARITY: Final = 0.35
"""Below this share of common letters two sentences are unrelated."""


def nearest_sentence(pages: Iterable[str], quote: str) -> str | None:
    """The sentence most similar to `quote` by its letters; None if none is similar."""
    quote_words = _words(quote)
    by_shared_words = sorted(
        _sentences(pages), key=lambda sentence: len(quote_words & _words(sentence)), reverse=True
    )
    matcher = SequenceMatcher(b=quote[:_MAX_SENTENCE_CHARS], autojunk=False)
    best, best_ratio = None, _MIN_SIMILARITY
    for sentence in by_shared_words[:_MAX_SENTENCES_COMPARED]:
        matcher.set_seq1(sentence)
        if matcher.ratio() > best_ratio:
            best, best_ratio = sentence, matcher.ratio()
    return best


def _sentences(pages: Iterable[str]) -> list[str]:
    text = "\n".join(pages)[:MAX_COMPARED_CHARS]
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return [part[:_MAX_SENTENCE_CHARS] for part in parts if part]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


VERSION: Final = 3
"""Of the rules of this module."""
_CACHED_PAGES: Final = 128
_MAX_HEADING_CHARS: Final = 100
_MAX_HEADING_WORDS: Final = 12
_LINE: Final = re.compile(r"[^\n]+")
PASSAGE_BREAK: Final = "\n\n* * *\n\n"
"""Separates passages of a page that may not be adjacent in it. Text before it is no heading of the text after it."""
_FIGURE: Final = re.compile(r":\s+\d")
"""As in "Airports: 48", which is no heading."""


@dataclass(frozen=True)
class PageReading:
    language: str | None
    decimal_sign: str | None
    """See `grounding.words.find_decimal_sign`."""
    headings: tuple[Span, ...]
    sentences: tuple[Span, ...]

    def heading_above(self, start_byte: int) -> Span | None:
        """The nearest heading that ends before `start_byte`."""
        index = bisect_right([span.end_byte for span in self.headings], start_byte)
        return self.headings[index - 1] if index else None

    def as_json(self) -> Json:
        return {
            "version": VERSION,
            "language": self.language,
            "decimal_sign": self.decimal_sign,
            "headings": _flat(self.headings),
            "sentences": _flat(self.sentences),
        }

    @classmethod
    def from_json(cls, value: Json) -> "PageReading":
        """From `as_json`."""
        return cls(
            value["language"],
            value["decimal_sign"],
            _spans(value["headings"]),
            _spans(value["sentences"]),
        )


@cache
def _readings() -> OrderedDict[str, PageReading]:
    """The last readings by text, the oldest first."""
    return OrderedDict()


def remember_reading(text: str, reading: PageReading) -> PageReading:
    """Caches the reading of a page that another process has read, for `read_page`."""
    readings = _readings()
    readings[text] = reading
    if len(readings) > _CACHED_PAGES:
        readings.popitem(last=False)
    return reading


def read_page(text: str) -> PageReading:
    return _readings().get(text) or remember_reading(text, _read(text))


def _read(text: str) -> PageReading:
    language = find_language(text)
    headings: list[Span] = []
    sentences: list[Span] = []
    offset, place = 0, 0
    for line in _LINE.finditer(text):
        line_sentences = list(find_sentences(line[0]))
        for start, end in line_sentences:
            start_byte = offset + len(text[place : line.start() + start].encode())
            end_byte = start_byte + len(line[0][start:end].encode())
            span = Span(start_byte, end_byte)
            offset, place = end_byte, line.start() + end
            sentences.append(span)
        if line[0] == PASSAGE_BREAK.strip() or (len(line_sentences) == 1 and _is_heading(line[0])):
            headings.append(sentences[-1])
    return PageReading(
        language, find_decimal_sign(text, language), tuple(headings), tuple(sentences)
    )


def _is_heading(line: str) -> bool:
    """Whether a line is a heading in Markdown, or short and without the end of a sentence."""
    text = line.strip()
    if text.startswith("#"):
        return True
    return (
        len(text) <= _MAX_HEADING_CHARS
        and len(text.split()) <= _MAX_HEADING_WORDS
        and (text[-1] not in ".!?:;,…" or bool(_ABBREVIATION.search(text)))
        and text[0].isupper()
        and not _FIGURE.search(text)
    )


def _flat(spans: tuple[Span, ...]) -> list[int]:
    return [byte for span in spans for byte in (span.start_byte, span.end_byte)]


def _spans(flat: list[int]) -> tuple[Span, ...]:
    return tuple(Span(start, end) for start, end in zip(flat[::2], flat[1::2], strict=True))
