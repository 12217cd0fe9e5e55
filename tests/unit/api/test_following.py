"""Following an answer: whatever is missed in between, nothing comes twice and nothing is left out."""

from random import Random

import pytest

from services.api.streaming.answer_stream import (
    AnswerState,
    BadPositionError,
    StreamPosition,
    chunks_after,
    position_after,
)
from shared.schemas.conversation import Restart, TextPiece, ToolUseView

LOOK = ToolUseView(tool="queryGraph", about="lithium")


def state(draft: int, content: str, looked: int = 0) -> AnswerState:
    return AnswerState(draft, content, (LOOK,) * looked, "writing")


@pytest.mark.parametrize(
    "text", ["", "1.2", "1.2.3.4", "a.b.c", "-1.0.0", "1.2.9999999999", "٣.1.1x"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadPositionError):
        StreamPosition.read(text)


def test_a_place_is_read_as_it_is_written() -> None:
    assert StreamPosition.read(str(StreamPosition(3, 17, 2))) == StreamPosition(3, 17, 2)
    assert StreamPosition.read(None) == StreamPosition()


def test_at_the_beginning_all_of_it_is_news() -> None:
    found = chunks_after(StreamPosition(), state(0, "Lithium", 1))
    assert [piece.what for piece in found] == [LOOK, TextPiece(draft=0, offset=0, text="Lithium")]
    assert found[-1].place == StreamPosition(0, 7, 1)


def test_the_rest_is_news_to_who_has_a_part() -> None:
    [piece] = chunks_after(StreamPosition(0, 4, 1), state(0, "Lithium", 1))
    assert piece.what == TextPiece(draft=0, offset=4, text="ium")


def test_who_has_all_of_it_gets_nothing() -> None:
    assert chunks_after(StreamPosition(2, 7, 1), state(2, "Lithium", 1)) == []


def test_a_new_draft_says_so_to_who_has_some_of_an_older_one() -> None:
    found = chunks_after(StreamPosition(0, 4, 0), state(2, "Cobalt"))
    assert [piece.what for piece in found] == [
        Restart(draft=2),
        TextPiece(draft=2, offset=0, text="Cobalt"),
    ]
    assert not any(
        isinstance(piece.what, Restart)
        for piece in chunks_after(StreamPosition(), state(2, "Cobalt"))
    )


def test_however_often_somebody_comes_back_the_text_is_the_text(seed: int) -> None:
    random = Random(seed)
    for _ in range(300):
        place, draft, content, looked, said = StreamPosition(), 0, "", 0, ""
        looks = 0
        for _ in range(random.randrange(1, 12)):
            match random.randrange(4):
                case 0:
                    draft, content = draft + 1, "x" * random.randrange(3)
                case 1:
                    looked += 1
                case _:
                    content += random.choice(["lith", "ium ", "é€😀"])
            now = state(draft, content, looked)
            if random.random() < 0.5:
                continue
            found = chunks_after(place, now)
            # The connection breaks behind any event; its place is what the client comes back with.
            read = found[: random.randrange(len(found) + 1)] if random.random() < 0.5 else found
            for piece in read:
                match piece.what:
                    case Restart():
                        said = ""
                    case TextPiece(offset=offset, text=text):
                        assert offset == len(said)
                        said += text
                    case ToolUseView():
                        looks += 1
            is_cut = len(read) < len(found)
            place = (
                (read[-1].place if read else place) if is_cut else position_after(place, read, now)
            )
            place = StreamPosition.read(str(place))
            if not is_cut:
                assert (said, looks) == (content, looked)
