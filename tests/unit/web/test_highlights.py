"""Positions of quote highlights in the text of a page."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from services.api.resources.sources.pages import TextPiece, split_at_quotes
from shared.schemas.provenance import QuoteHighlight

TEXT = "Über ½ of it"


def highlights(*spans: tuple[int, int]) -> list[QuoteHighlight]:
    element_id: UUID = uuid4()
    return [
        QuoteHighlight(
            evidence_id=uuid4(),
            first_byte=first_byte,
            end_byte=end_byte,
            kind="node",
            element_id=element_id,
            type="Maker",
            name="Halden",
            claims={},
        )
        for first_byte, end_byte in spans
    ]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [TextPiece(TEXT, (), ())]),
        # Ü and ½ have two bytes each.
        ([(0, 5)], [TextPiece("Über", (0,), (0,)), TextPiece(" ½ of it", (), ())]),
        (
            [(0, 5), (2, 8)],
            [
                TextPiece("Ü", (0,), (0,)),
                TextPiece("ber", (0, 1), (1,)),
                TextPiece(" ½", (1,), ()),
                TextPiece(" of it", (), ()),
            ],
        ),
        (
            [(6, 8), (6, 8)],
            [
                TextPiece("Über ", (), ()),
                TextPiece("½", (0, 1), (0, 1)),
                TextPiece(" of it", (), ()),
            ],
        ),
        # One quote within another.
        (
            [(0, 14), (6, 8)],
            [
                TextPiece("Über ", (0,), (0,)),
                TextPiece("½", (0, 1), (1,)),
                TextPiece(" of it", (0,), ()),
            ],
        ),
        # Offsets within characters: the whole characters are highlighted.
        (
            [(1, 7)],
            [TextPiece("Über ½", (0,), (0,)), TextPiece(" of it", (), ())],
        ),
        # Beyond the end, because the text has changed: only what exists is highlighted.
        ([(9, 900)], [TextPiece("Über ½ ", (), ()), TextPiece("of it", (0,), (0,))]),
        ([(900, 950)], [TextPiece(TEXT, (), ())]),
    ],
)
def test_text_is_split_where_quotes_begin_and_end(
    spans: Sequence[tuple[int, int]], expected: Sequence[TextPiece]
) -> None:
    pieces = split_at_quotes(TEXT, highlights(*spans))
    assert pieces == expected
    assert "".join(piece.text for piece in pieces) == TEXT


def test_an_empty_page_has_no_pieces() -> None:
    assert split_at_quotes("", highlights((0, 4))) == []
