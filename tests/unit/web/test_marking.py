"""Where quotes are marked in a page's text."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from services.api.web.presenters.provenance import TextPiece, split_at_quotes
from shared.schemas.provenance import MarkView

TEXT = "Über ½ of it"


def marks(*spans: tuple[int, int]) -> list[MarkView]:
    thing: UUID = uuid4()
    return [
        MarkView(
            evidence_id=uuid4(),
            first_byte=first,
            end_byte=end,
            kind="node",
            element_id=thing,
            type="Maker",
            name="Halden",
            claims={},
        )
        for first, end in spans
    ]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [TextPiece(TEXT, (), ())]),
        # Ü has two bytes, so has ½.
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
        # One within another.
        (
            [(0, 14), (6, 8)],
            [
                TextPiece("Über ", (0,), (0,)),
                TextPiece("½", (0, 1), (1,)),
                TextPiece(" of it", (0,), ()),
            ],
        ),
        # Amid characters: all of them is marked.
        (
            [(1, 7)],
            [TextPiece("Über ½", (0,), (0,)), TextPiece(" of it", (), ())],
        ),
        # Beyond its end, as where the text was changed since: what there is of it.
        ([(9, 900)], [TextPiece("Über ½ ", (), ()), TextPiece("of it", (0,), (0,))]),
        ([(900, 950)], [TextPiece(TEXT, (), ())]),
    ],
)
def test_text_is_cut_where_quotes_begin_and_end(
    spans: Sequence[tuple[int, int]], expected: Sequence[TextPiece]
) -> None:
    found = split_at_quotes(TEXT, marks(*spans))
    assert found == expected
    assert "".join(piece.text for piece in found) == TEXT


def test_an_empty_page_has_no_pieces() -> None:
    assert split_at_quotes("", marks((0, 4))) == []
