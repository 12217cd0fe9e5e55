"""The sentences of a document that answer a query best."""

from collections import Counter
from collections.abc import Iterator, Sequence

from sandbox.text.sentences import sentences
from sandbox.text.words import stem, stems, words

MAX_PASSAGE_CHARS = 600
GAP = "\n…\n"
"""Stands where sentences between two chosen ones were left out."""


def best_passage(text: str, query: str, max_chars: int = MAX_PASSAGE_CHARS) -> str:
    """Whole sentences in their order, about `max_chars` in all: those that hold most of the query's words."""
    parts = sentences(text)
    wanted = frozenset(stems(query))
    weights = sentence_weights(parts, wanted)
    order = sorted(range(len(parts)), key=lambda place: (-weights[place], place))
    chosen: list[int] = []
    room = max_chars
    for place in order:
        if chosen and len(parts[place]) > room:
            break
        chosen.append(place)
        room -= len(parts[place]) + 1
    return _joined(text, parts, sorted(chosen))


def sentence_weights(parts: Sequence[str], wanted: frozenset[str]) -> list[float]:
    """How much of what is wanted each sentence holds; a word found in every sentence tells little."""
    held = [wanted.intersection(stem(word) for word in words(part)) for part in parts]
    spread = Counter(found for stems_held in held for found in stems_held)
    return [sum(1 / spread[found] ** 0.5 for found in sorted(stems_held)) for stems_held in held]


def _joined(text: str, parts: list[str], chosen: list[int]) -> str:
    """Letter by letter as in `text`, but for the gaps."""
    passage = ""
    end = last = -1
    for start, place in _placed(text, parts, chosen):
        if place == last + 1 and passage:
            passage += text[end:start]
        elif passage or place:
            passage += GAP
        passage += parts[place]
        end, last = start + len(parts[place]), place
    return (passage if last == len(parts) - 1 else passage + GAP).strip()


def _placed(text: str, parts: list[str], chosen: list[int]) -> Iterator[tuple[int, int]]:
    """Where in `text` each chosen part starts."""
    start = 0
    for place, part in enumerate(parts):
        start = text.index(part, start)
        if place in chosen:
            yield start, place
        start += len(part)
