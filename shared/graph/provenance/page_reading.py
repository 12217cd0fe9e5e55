"""What code reads in a page when it is stored: its language, headings and sentences. Pure.

Offsets are in bytes of the text in UTF-8, in pairs of start and end. They are stored with the page, so that nothing
depends on later versions of this module.
"""

import re
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Final

from shared.graph.grounding.language import find_decimal_sign, find_language
from shared.graph.grounding.sentences import NO_SENTENCE_END, find_sentences
from shared.graph.provenance.quotes import Span
from shared.tools import Json

VERSION: Final = 2
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
    """See `grounding.language.find_decimal_sign`."""
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
        and (text[-1] not in ".!?:;,…" or bool(NO_SENTENCE_END.search(text)))
        and text[0].isupper()
        and not _FIGURE.search(text)
    )


def _flat(spans: tuple[Span, ...]) -> list[int]:
    return [byte for span in spans for byte in (span.start_byte, span.end_byte)]


def _spans(flat: list[int]) -> tuple[Span, ...]:
    return tuple(Span(start, end) for start, end in zip(flat[::2], flat[1::2], strict=True))
