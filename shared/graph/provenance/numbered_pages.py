"""Pages with numbered sentences, so that a model cites sentences by number and types none again. Pure.

The pages that a phase has read are numbered in the order of its calls. `[2.3]` is sentence 3 of page 2: pages are shown as
lines `[2.3] sentence`, a document cites `[2.3]` and gets the words filled in, and evidence cites page 2, sentence 3.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from shared.graph.provenance.page_reading import read_page
from shared.graph.provenance.quotes import Span
from shared.tools import Json

_NUMBER: Final = r"\d{1,4}\.\d{1,4}(?:\s*[-–]\s*(?:\d{1,4}\.)?\d{1,4})?"
_CITED: Final = re.compile(rf"\[({_NUMBER}(?:\s*[,;]\s*{_NUMBER})*)\]")
_RANGE: Final = re.compile(r"(\d+)\.(\d+)(?:\s*[-–]\s*(?:\d+\.)?(\d+))?")
_NUMBERED: Final = re.compile(r"\[(\d+)\.\d+\] ")
_MAX_RANGE: Final = 100
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])?\s*")
_OWN_LINE: Final = re.compile(r"^\W*(?:#|source\b|url\b|published\b)", re.IGNORECASE)
"""A heading or an address, which a sentence can repeat."""
_MIN_CHARS: Final = 12
"""Shorter sentences are not looked for in what a model typed."""


@dataclass(frozen=True)
class NumberedPage:
    """A page as the model has read it."""

    url: str
    text: str

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Where the sentences are."""
        return read_page(self.text).sentences

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        text = self.text.encode()
        return tuple(text[span.start_byte : span.end_byte].decode() for span in self.spans)

    def sentence(self, number: int) -> str | None:
        """The sentence of that number, which begins with 1; None if there is none."""
        return self.sentences[number - 1] if 1 <= number <= len(self.sentences) else None


def number_pages(pages: Iterable[Json]) -> list[NumberedPage]:
    """The pages of search and extract results in call order; the same text of the same page counts once."""
    distinct = dict.fromkeys(map(_page, pages))
    return list(distinct)


SHOWN_CHARS: Final = 10_000
"""Of the pages of one result. Of longer ones, those sentences are shown that bear on what is asked."""
_LEADING: Final = 2
"""Sentences at the beginning of a page that are shown in any case."""
_GAP: Final = "…"
_STEM_CHARS: Final = 5
_STEM: Final = re.compile(rf"[^\W_]{{3,{_STEM_CHARS}}}")
_WORDS: Final = re.compile(r"[^\W_]+")


def show_numbered(asked: str, result: Json, earlier: Sequence[Json], times: int = 0) -> Json | None:
    """A result with the sentences of its pages numbered; `earlier` are the results before it, in call order.

    If the pages have more than SHOWN_CHARS characters, the sentences that share the most words with `asked` are shown,
    rare words before common ones. If the same call was made so many `times` before, further sentences are shown; None if
    all were. A page keeps its numbers.
    """
    if "results" not in result:
        return None if times else result
    known = number_pages(page for other in (*earlier, result) for page in other.get("results", ()))
    numbers = {page: number for number, page in enumerate(known, 1)}
    pages = [_page(page) for page in result["results"]]
    seen: set[tuple[int, int]] = set()
    for _ in range(times):
        seen |= _choose(pages, asked, seen)
    chosen = _choose(pages, asked, seen)
    if times and not chosen:
        return None
    shown = []
    for place, (page, numbered) in enumerate(zip(result["results"], pages, strict=True)):
        lines: list[str] = []
        for number, text in enumerate(numbered.sentences, 1):
            if (place, number) in chosen:
                lines.append(f"[{numbers[numbered]}.{number}] {text[:SHOWN_CHARS]}")
            elif not lines or lines[-1] != _GAP:
                lines.append(_GAP)
        shown.append({**page, "content": "\n".join(lines)} if lines else page)
    return {**result, "results": shown}


def _choose(
    pages: Sequence[NumberedPage], asked: str, seen: Set[tuple[int, int]]
) -> set[tuple[int, int]]:
    """The sentences to show: place of the page, and number of the sentence. Those `seen` were shown before.

    The first time, only sentences that bear on what is asked, and the beginnings of pages.
    """
    sentences = {
        (place, number): text
        for place, page in enumerate(pages)
        for number, text in enumerate(page.sentences, 1)
        if (place, number) not in seen
    }
    left = SHOWN_CHARS
    if sum(map(len, sentences.values())) <= left:
        return set(sentences)
    asked_stems = _stems(asked)
    stems = {key: _stems(text) & asked_stems for key, text in sentences.items()}
    frequency = Counter(stem for found in stems.values() for stem in found)

    def rank(key: tuple[int, int]) -> tuple[bool, float, int, int]:
        place, number = key
        weight = sum(1 / frequency[stem] ** 0.5 for stem in stems[key])
        return number > _LEADING, -weight, number, place

    chosen: set[tuple[int, int]] = set()
    by_rank = sorted(sentences, key=rank)
    for key in by_rank:
        length = len(sentences[key])
        if length <= left and (seen or stems[key] or key[1] <= _LEADING):
            left -= length
            chosen.add(key)
    # A text without sentences is longer than all that may be shown: its beginning is.
    return chosen or set(by_rank[:1])


def _stems(text: str) -> set[str]:
    """The beginnings of the words, which are the same for most of their forms."""
    return {match[0] for word in _WORDS.findall(text.lower()) if (match := _STEM.match(word))}


def fill_in(document: str, pages: Sequence[NumberedPage], headings: Sequence[str] = ()) -> str:
    """`document` with the words of the sentences that it cites, each in a line of its own.

    Numbers that no sentence has are left out. A sentence of a page that was typed gets its number. `headings`, by page,
    stand before the first cited sentence of a page whose address the document does not have.
    """
    known: dict[str, str] = {}
    for number, page in reversed(list(enumerate(pages, 1))):
        for place, text in reversed(list(enumerate(page.sentences, 1))):
            if len(text) >= _MIN_CHARS:
                known[text] = f"[{number}.{place}]"
    lines = (line for part in document.splitlines() for line in _filled(part, pages, known))
    missing = {
        str(number): heading
        for number, (page, heading) in enumerate(zip(pages, headings, strict=False), 1)
        if page.url not in document
    }
    return "\n".join(_with_headings(lines, missing)).removeprefix("\n")


def _with_headings(lines: Iterable[str], missing: dict[str, str]) -> Iterator[str]:
    for line in lines:
        match = _NUMBERED.match(line)
        if match and (heading := missing.pop(match[1], None)) is not None:
            yield f"\n{heading}\n"
        yield line


def _page(page: Json) -> NumberedPage:
    return NumberedPage(str(page["url"]), str(page.get("content") or ""))


def _filled(line: str, pages: Sequence[NumberedPage], known: Mapping[str, str]) -> Iterator[str]:
    cited = [
        sentence for match in _CITED.finditer(line) for sentence in _sentences(match[1], pages)
    ]
    if not cited and _OWN_LINE.match(line):
        yield line
        return
    typed = _CITED.sub("", line)
    words = _LIST_MARK.sub("", typed).strip()
    if not cited:
        typed_sentences = NumberedPage("", words).sentences
        if any(text in known for text in typed_sentences):
            for text in typed_sentences:
                yield f"{known[text]} {text}" if text in known else text
        else:
            yield line
        return
    if words.strip(" .,;:") and all(words != text for _, text in cited):
        yield typed.rstrip()
    for number, text in cited:
        yield f"[{number}] {text}"


def _sentences(numbers: str, pages: Sequence[NumberedPage]) -> Iterator[tuple[str, str]]:
    """Number and words of the sentences that "2.3", "2.3-5" or "2.3, 2.7" cite."""
    for page, first, last in _RANGE.findall(numbers):
        if not 1 <= int(page) <= len(pages):
            continue
        end = min(int(last or first), int(first) + _MAX_RANGE)
        for number in range(int(first), end + 1):
            if (text := pages[int(page) - 1].sentence(number)) is not None:
                yield f"{page}.{number}", text
