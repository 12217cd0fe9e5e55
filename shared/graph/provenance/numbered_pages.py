"""Pages with numbered sentences, so that a model cites sentences by number and types none again. Pure.

A page is an address. A run gives it a number when the model is first shown a sentence of it, and each sentence a number
when it is first shown: `[2.3]` is the third sentence of page 2 that the model has seen, whatever search or read brought it.
Only what was shown has a number. Pages are shown as lines `[2.3] sentence`, a document cites `[2.3]` and gets the words
filled in, and evidence cites page 2, sentence 3.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from shared.graph.provenance.page_reading import read_page
from shared.tools import EARLIER_DATE_KEY, RETRACTED_KEY, Json, Shown
from shared.urls import page_key

_NUMBER: Final = r"\d{1,4}\.\d{1,4}(?:\s*[-–]\s*(?:\d{1,4}\.)?\d{1,4})?"
_CITED: Final = re.compile(rf"\[({_NUMBER}(?:\s*[,;]\s*{_NUMBER})*)\]")
_RANGE: Final = re.compile(r"(\d+)\.(\d+)(?:\s*[-–]\s*(?:(\d+)\.)?(\d+))?")
_MAX_RANGE: Final = 100
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•–]|\d{1,3}[.)])?\s*")
_HEADING: Final = re.compile(r"^[\s>*-]*#{1,6}\s+")
_ADDRESS: Final = re.compile(r"^\W*(?:source|url|published)\W*:", re.IGNORECASE)
OWN_WORDS: Final = "## Without a source"
"""The heading of the words of a document that are from no page."""
_MIN_CHARS: Final = 12
"""Shorter sentences are not looked for in what a model typed."""


class NumberedSentence(NamedTuple):
    text: str
    start_byte: int
    """Position in the text that it was shown from."""


@dataclass
class NumberedPage:
    """A page as the model has seen it in a run."""

    url: str
    """The spelling of the address in the first result."""
    title: str = ""
    published: str = ""
    """The publication date as the search service writes it, else as it is known: see EARLIER_DATE_KEY."""
    is_earlier_date: bool = False
    shown: list[NumberedSentence] = field(default_factory=list)
    """The shown sentences in the order of their numbers, which begin with 1."""
    passages: list[str] = field(default_factory=list)
    """Distinct texts in results of searches."""
    reads: list[str] = field(default_factory=list)
    """Distinct texts of the whole page."""

    @property
    def sentences(self) -> list[str]:
        return [sentence.text for sentence in self.shown]

    def find(self, number: int) -> NumberedSentence | None:
        """The sentence of that number, which begins with 1; None if none was shown with it."""
        return self.shown[number - 1] if 1 <= number <= len(self.shown) else None


WHOLE_CHARS: Final = 6_000
"""Pages of up to this length are shown whole."""
CALL_CHARS: Final = 30_000
"""Limit for all pages of a call: five whole pages, about 7,500 tokens, which each later request of the run repeats."""
LONG_CHARS: Final = 10_000
"""Limit for all longer pages of a call together; each has at least MIN_LONG_CHARS."""
MIN_LONG_CHARS: Final = 4_000
MAX_SENTENCE_CHARS: Final = 1_500
"""Longer sentences, such as a table in one line, are shown in pieces with a number each."""
_EDGE: Final = 2
"""Sentences at the beginning and at the end of a page that are shown in any case."""
_GAP: Final = "…"
_GAP_MARKS: Final = frozenset({"…", "...", "[...]", "[…]", "(...)", "(…)"})
_MIDNIGHT: Final = re.compile(r"T00:00:00(?:\.0+)?(?:Z|[+-]00:?00)$")
_STEM_CHARS: Final = 5
_STEM: Final = re.compile(rf"[^\W_]{{3,{_STEM_CHARS}}}")
_WORDS: Final = re.compile(r"[^\W_]+")


class _Sentence(NamedTuple):
    start_byte: int
    end_byte: int
    text: str

    @property
    def has_words(self) -> bool:
        return any(map(str.isalnum, self.text))


def _brief(page: Json) -> Json:
    """The page without the origin of its date, which no model uses, and with a day in place of its midnight."""
    brief = {key: value for key, value in page.items() if key != EARLIER_DATE_KEY}
    if date := page.get("published_date"):
        brief["published_date"] = _MIDNIGHT.sub("", str(date))
    return brief


@dataclass
class RunPages:
    """The pages of one run by number. The results of its paid tools are shown with it in call order, each once."""

    question: str
    """The question of the run. Of long pages, the sentences that share words with it are chosen."""
    pages: list[NumberedPage] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    """The number of each page by the key of its address."""
    _reported: set[str] = field(default_factory=set)
    """Keys of the addresses of the retracted pages that the model was shown."""
    _numbers: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """The number of each sentence by page, words, and which occurrence of these words in the page it is."""

    def show_passages(self, result: Json, times: int = 0, record: Json | None = None) -> Shown:
        """A `shared.tools.Show` of a search, whose results have passages of pages: see `_show`."""
        return self._show(result, times, record, is_read=False)

    def show_reads(self, result: Json, times: int = 0, record: Json | None = None) -> Shown:
        """A `shared.tools.Show` of an extract, whose results have whole pages: see `_show`."""
        return self._show(result, times, record, is_read=True)

    def _show(self, result: Json, times: int, record: Json | None, *, is_read: bool) -> Shown:
        """Numbers the sentences to show of the result's pages.

        Pages of up to WHOLE_CHARS are shown whole. Of longer ones, the first and last sentences are shown, and those that
        share the most words with `question`, rare words before common ones, with their neighbours. If the same call was
        made before, `times` times, only sentences that were not shown yet are.
        """
        if "results" not in result:
            return Shown(None if times else result)
        if record is None:
            record = self._choose_lines(result["results"], is_again=times > 0, is_read=is_read)
        if record["pages"] is None:
            return Shown(None, record)
        result = self._report_once(result)
        shown = [
            _brief(page)
            if lines is None
            else {
                **_brief(self._dated(page, lines)),
                "content": self._show_page(page, lines, is_read=is_read),
            }
            for page, lines in zip(result["results"], record["pages"], strict=True)
        ]
        return Shown({**result, "results": shown}, record)

    def _report_once(self, result: Json) -> Json:
        """The result without the retracted pages that the run was shown before."""
        if RETRACTED_KEY not in result:
            return result
        retracted = [
            each for each in result[RETRACTED_KEY] if page_key(each["url"]) not in self._reported
        ]
        self._reported |= {page_key(each["url"]) for each in retracted}
        rest = {key: value for key, value in result.items() if key != RETRACTED_KEY}
        return {**rest, RETRACTED_KEY: retracted} if retracted else rest

    def _dated(self, page: Json, lines: Json) -> Json:
        """The page with the date that an earlier result of the run gave, if its own has none."""
        number = lines["number"]
        date = self.pages[number - 1].published if number <= len(self.pages) else ""
        if page.get("published_date") or not date:
            return page
        return {**page, "published_date": date}

    def _show_page(self, page: Json, lines: Json, *, is_read: bool) -> str:
        """The lines of a page, whose sentences and numbers are added to what the run knows."""
        number, text = lines["number"], str(page["content"])
        if number > len(self.pages):
            self.pages.append(NumberedPage(str(page["url"])))
            self._places[page_key(str(page["url"]))] = number
        known = self.pages[number - 1]
        known.title = known.title or str(page.get("title") or "")
        date = str(page.get("published_date") or "")
        if date and (known.is_earlier_date or not known.published):
            known.published, known.is_earlier_date = date, EARLIER_DATE_KEY in page
        texts = known.reads if is_read else known.passages
        if text not in texts:
            texts.append(text)
        encoded, written = text.encode(), []
        for line in lines["lines"]:
            if line is None:
                written.append(_GAP)
                continue
            sentence, occurrence, start, end = line
            words = encoded[start:end].decode()
            self._numbers[number, words, occurrence] = sentence
            if sentence > len(known.shown):
                known.shown.append(NumberedSentence(words, start))
            elif is_read:
                known.shown[sentence - 1] = NumberedSentence(words, start)
            written.append(f"[{number}.{sentence}] {words}")
        return "\n".join(written) if written != [_GAP] else f"{_GAP} (page {number}, above)"

    def _choose_lines(self, pages: Sequence[Json], *, is_again: bool, is_read: bool) -> Json:
        """The record of what is to be shown: for each page its number, and for each line the number of the sentence, which
        occurrence of its words it is, and its place in bytes; None for a gap. A search has a gap for what was shown before.
        """
        split = [_split(str(page.get("content") or "")) for page in pages]
        # A text without words has nothing to cite, and its page no number.
        texts = [text if any(sentence.has_words for sentence in text) else [] for text in split]
        places, counts = dict(self._places), Counter[int]()
        for number, page in enumerate(self.pages, 1):
            counts[number] = len(page.shown)
        numbers = [
            places.setdefault(page_key(str(page["url"])), len(places) + 1) if text else 0
            for page, text in zip(pages, texts, strict=True)
        ]
        occurrences = [_occurrences(text) for text in texts]
        unseen = [
            {
                index
                for index, (sentence, occurrence) in enumerate(zip(text, counted, strict=True))
                if sentence.has_words
                and not (is_again and (number, sentence.text, occurrence) in self._numbers)
            }
            for number, text, counted in zip(numbers, texts, occurrences, strict=True)
        ]
        chosen = _choose(texts, unseen, _stems(self.question), is_again=is_again)
        if is_again and not any(chosen):
            return {"pages": None}
        numbered = dict(self._numbers)
        lines: list[Json | None] = []
        for number, text, counted, indexes in zip(numbers, texts, occurrences, chosen, strict=True):
            if not text:
                lines.append(None)
                continue
            written: list[list[int] | None] = []
            for index, sentence in enumerate(text):
                key = (number, sentence.text, counted[index])
                is_above = not is_read and key in self._numbers
                if index in indexes and not is_above:
                    if key not in numbered:
                        counts[number] += 1
                        numbered[key] = counts[number]
                    written.append([numbered[key], counted[index], *sentence[:2]])
                elif (sentence.has_words or sentence.text in _GAP_MARKS) and written[-1:] != [None]:
                    written.append(None)
            lines.append({"number": number, "lines": written})
        return {"pages": lines}


def _split(text: str) -> list[_Sentence]:
    """The sentences of a text, long ones in pieces."""
    encoded = text.encode()
    return [
        piece
        for span in read_page(text).sentences
        for piece in _pieces(span.start_byte, encoded[span.start_byte : span.end_byte].decode())
    ]


def _pieces(start_byte: int, text: str) -> Iterator[_Sentence]:
    while text:
        piece = text
        if len(text) > MAX_SENTENCE_CHARS:
            end = text.rfind(" ", MAX_SENTENCE_CHARS // 2, MAX_SENTENCE_CHARS)
            piece = text[: end if end > 0 else MAX_SENTENCE_CHARS]
        rest = text[len(piece) :].lstrip()
        length = len(piece.encode())
        yield _Sentence(start_byte, start_byte + length, piece)
        start_byte += len(text.encode()) - len(rest.encode())
        text = rest


def _occurrences(text: Sequence[_Sentence]) -> list[int]:
    """For each sentence, the number of earlier sentences with the same words."""
    counts = Counter[str]()
    before = []
    for sentence in text:
        before.append(counts[sentence.text])
        counts[sentence.text] += 1
    return before


def _choose(
    texts: Sequence[Sequence[_Sentence]],
    unseen: Sequence[Collection[int]],
    asked: Collection[str],
    *,
    is_again: bool,
) -> list[set[int]]:
    """For each text, the positions of the sentences to show, from the `unseen` ones."""
    lengths = [
        sum(len(text[index].text) for index in left)
        for text, left in zip(texts, unseen, strict=True)
    ]
    share = CALL_CHARS // max(1, sum(map(bool, lengths)))
    whole = min(WHOLE_CHARS, share)
    long = sum(length > whole for length in lengths)
    limit = min(share, max(MIN_LONG_CHARS, LONG_CHARS // max(1, long)))
    stems = [[_stems(sentence.text) & set(asked) for sentence in text] for text in texts]
    frequency = Counter(stem for of_text in stems for found in of_text for stem in found)
    weights = [
        [sum(frequency[stem] ** -0.5 for stem in sorted(found)) for found in of_text]
        for of_text in stems
    ]
    return [
        set(left)
        if length <= whole
        else _choose_of_long(text, left, weight, limit, is_again=is_again)
        for text, left, weight, length in zip(texts, unseen, weights, lengths, strict=True)
    ]


def _choose_of_long(
    text: Sequence[_Sentence],
    unseen: Collection[int],
    weights: Sequence[float],
    limit: int,
    *,
    is_again: bool,
) -> set[int]:
    """At the first call, the ends of the page and relevant sentences with their neighbours; later, the remaining ones."""
    by_weight = sorted(unseen, key=lambda index: (-weights[index], index))
    if is_again:
        wanted = by_weight
    else:
        in_order = sorted(unseen)
        wanted = in_order[:_EDGE] + in_order[-_EDGE:]
        for index in by_weight:
            if weights[index]:
                wanted += [index, index - 1, index + 1]
    chosen = set[int]()
    for index in wanted:
        if index in unseen and index not in chosen and len(text[index].text) <= limit:
            limit -= len(text[index].text)
            chosen.add(index)
    return chosen


def _stems(text: str) -> set[str]:
    """The beginnings of the words, which are the same for most of their forms."""
    return {match[0] for word in _WORDS.findall(text.lower()) if (match := _STEM.match(word))}


def fill_in(document: str, pages: Sequence[NumberedPage], headings: Sequence[str] = ()) -> str:
    """The sentences that `document` cites, each in a line of its own, and below them its other words.

    Numbers that no sentence has are left out. A sentence of a page that was typed gets its number. `headings`, by page,
    stand before the sentences of a page. A heading of the document is one of its other words; it is left out if an address
    follows, and so is the address.
    """
    known: dict[str, tuple[int, str]] = {}
    for number, page in reversed(list(enumerate(pages, 1))):
        for place, text in reversed(list(enumerate(page.sentences, 1))):
            if len(text) >= _MIN_CHARS:
                known[text] = number, f"[{number}.{place}] {text}"
    cited: list[str] = []
    own: list[str] = []
    current, is_title = 0, False
    for line in document.splitlines():
        for number, text in _filled(line, pages, known):
            if number:
                if number != current and number <= len(headings):
                    cited.append(f"\n{headings[number - 1]}\n")
                current = number
                cited.append(text)
            elif not _ADDRESS.match(text):
                own.append(_HEADING.sub("", text))
                is_title = own[-1] != text
            elif is_title:
                own.pop()
                is_title = False
    if cited and own:
        own = [f"\n{OWN_WORDS}\n", *own]
    return "\n".join([*cited, *own]).removeprefix("\n")


def names_page(document: str, page: NumberedPage) -> bool:
    """Returns true if the document contains the address of the page, not only a longer one."""
    return bool(re.search(rf"{re.escape(page.url)}(?![^\s()<>\[\]\"',;])", document))


def _filled(
    line: str, pages: Sequence[NumberedPage], known: Mapping[str, tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """The lines of a line of a document, each with the number of its page; 0 for other words."""
    cited = [
        sentence for match in _CITED.finditer(line) for sentence in _sentences(match[1], pages)
    ]
    typed = _CITED.sub("", line).rstrip()
    words = _LIST_MARK.sub("", typed).strip()
    # A sentence can repeat a title.
    is_own = bool(cited or _HEADING.match(line) or _ADDRESS.match(line))
    sentences = [] if is_own else [sentence.text for sentence in _split(words)]
    if any(text in known for text in sentences):
        yield from (known.get(text, (0, text)) for text in sentences)
    elif words.strip(" .,;:") and all(words != text for _, _, text in cited):
        yield 0, typed
    for number, place, text in cited:
        yield number, f"[{number}.{place}] {text}"


def _sentences(numbers: str, pages: Sequence[NumberedPage]) -> Iterator[tuple[int, int, str]]:
    """Page, number and words of the sentences that "2.3", "2.3-5" or "2.3, 2.7" cite. Of "2.3-4.1" they are both ends."""
    for page, first, last_page, last in _RANGE.findall(numbers):
        cited = [(int(page), int(first))]
        if last and last_page in ("", page):
            end = min(int(last), int(first) + _MAX_RANGE)
            cited = [(int(page), number) for number in range(int(first), end + 1)]
        elif last:
            cited.append((int(last_page), int(last)))
        for number, place in cited:
            known = pages[number - 1] if 1 <= number <= len(pages) else None
            if known is not None and (sentence := known.find(place)) is not None:
                yield number, place, sentence.text
