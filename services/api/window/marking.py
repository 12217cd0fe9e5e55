"""A page's text cut where its quotes begin and end, so that each piece is under the same quotes throughout."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from shared.store.reading.mark_shapes import MarkView

_CONTINUES: Final = 0b1000_0000
_CONTINUES_OF: Final = 0b1100_0000
"""In UTF-8 each byte of a character but its first begins with the bits 10."""


@dataclass(frozen=True)
class Piece:
    text: str
    marks: Sequence[int]
    """Places in the list of marks of the quotes that it is part of; none of plain text."""
    begins: Sequence[int]
    """Of those, the ones that begin here."""


def pieces(text: str, marks: Sequence[MarkView]) -> list[Piece]:
    """`text` in order; spans are in bytes of its UTF-8, may overlap, and are widened to whole characters."""
    page = text.encode()
    spans = [(_back(page, each.first_byte), _forth(page, each.end_byte)) for each in marks]
    cuts = sorted({0, len(page), *(edge for span in spans for edge in span)})
    opening: dict[int, list[int]] = {}
    for place, (first, end) in enumerate(spans):
        if first < end:
            opening.setdefault(first, []).append(place)
    told: list[Piece] = []
    open_now: list[int] = []
    for first, end in pairwise(cuts):
        begins = opening.get(first, [])
        open_now = [place for place in open_now if spans[place][1] > first] + begins
        told.append(Piece(page[first:end].decode(), tuple(open_now), tuple(begins)))
    return told


def _back(page: bytes, place: int) -> int:
    place = max(0, min(place, len(page)))
    while 0 < place < len(page) and _is_within(page[place]):
        place -= 1
    return place


def _forth(page: bytes, place: int) -> int:
    place = max(0, min(place, len(page)))
    while place < len(page) and _is_within(page[place]):
        place += 1
    return place


def _is_within(byte: int) -> bool:
    return byte & _CONTINUES_OF == _CONTINUES
