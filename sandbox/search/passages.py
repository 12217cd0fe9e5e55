"""Selects the sentences of a document that answer a query best."""

from collections import Counter
from collections.abc import Iterator, Sequence

from sandbox.text.labels import sentences
from sandbox.text.tokens import stem, stems, words

MAX_PASSAGE_CHARS = 600
GAP = "\n…\n"
"""Replaces sentences that were left out between two chosen ones."""


def best_passage(text: str, query: str, max_chars: int = MAX_PASSAGE_CHARS) -> str:
    """About `max_chars` of whole sentences in their order: those that match the most query words."""
    parts = sentences(text)
    query_stems = frozenset(stems(query))
    weights = sentence_weights(parts, query_stems)
    order = sorted(range(len(parts)), key=lambda place: (-weights[place], place))
    selection: list[int] = []
    chars_left = max_chars
    for place in order:
        if selection and len(parts[place]) > chars_left:
            break
        selection.append(place)
        chars_left -= len(parts[place]) + 1
    return _join_sentences(text, parts, sorted(selection))


def sentence_weights(parts: Sequence[str], query_stems: frozenset[str]) -> list[float]:
    """Weight of each sentence by the query stems it contains; a stem in every sentence counts little."""
    matches = [query_stems.intersection(stem(word) for word in words(part)) for part in parts]
    counts = Counter(matched_stem for stems_held in matches for matched_stem in stems_held)
    return [
        sum(1 / counts[matched_stem] ** 0.5 for matched_stem in sorted(stems_held))
        for stems_held in matches
    ]


def _join_sentences(text: str, parts: list[str], selection: list[int]) -> str:
    """Join the chosen sentences with the original text between neighbours and a mark for each gap."""
    passage = ""
    end = last = -1
    for start, place in _sentence_positions(text, parts, selection):
        if place == last + 1 and passage:
            passage += text[end:start]
        elif passage or place:
            passage += GAP
        passage += parts[place]
        end, last = start + len(parts[place]), place
    return (passage if last == len(parts) - 1 else passage + GAP).strip()


def _sentence_positions(
    text: str, parts: list[str], selection: list[int]
) -> Iterator[tuple[int, int]]:
    """Yield the position in `text` and the index of each chosen sentence."""
    start = 0
    for place, part in enumerate(parts):
        start = text.index(part, start)
        if place in selection:
            yield start, place
        start += len(part)
