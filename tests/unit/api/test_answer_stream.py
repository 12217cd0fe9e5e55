"""Following an answer over interrupted connections: no chunk is repeated or lost."""

from random import Random

import pytest

from services.api.streaming.answer_stream import (
    AnswerState,
    BadPositionError,
    StreamPosition,
    chunks_after,
    position_after,
)
from shared.schemas.conversation import Restart, TextPiece, ToolUseResponse

TOOL_USE = ToolUseResponse(tool="queryGraph", about="lithium")


def state(draft: int, content: str, tool_uses: int = 0) -> AnswerState:
    return AnswerState(draft, content, (TOOL_USE,) * tool_uses, "writing")


@pytest.mark.parametrize(
    "text", ["", "1.2", "1.2.3.4", "a.b.c", "-1.0.0", "1.2.9999999999", "٣.1.1x"]
)
def test_an_invalid_position_is_rejected(text: str) -> None:
    with pytest.raises(BadPositionError):
        StreamPosition.read(text)


def test_a_position_is_parsed_from_its_text() -> None:
    assert StreamPosition.read(str(StreamPosition(3, 17, 2))) == StreamPosition(3, 17, 2)
    assert StreamPosition.read(None) == StreamPosition()


def test_from_the_start_all_chunks_are_sent() -> None:
    chunks = chunks_after(StreamPosition(), state(0, "Lithium", 1))
    assert [chunk.data for chunk in chunks] == [
        TOOL_USE,
        TextPiece(draft=0, offset=0, text="Lithium"),
    ]
    assert chunks[-1].place == StreamPosition(0, 7, 1)


def test_from_the_middle_only_the_rest_is_sent() -> None:
    [chunk] = chunks_after(StreamPosition(0, 4, 1), state(0, "Lithium", 1))
    assert chunk.data == TextPiece(draft=0, offset=4, text="ium")


def test_from_the_end_nothing_is_sent() -> None:
    assert chunks_after(StreamPosition(2, 7, 1), state(2, "Lithium", 1)) == []


def test_a_new_draft_starts_with_a_restart_after_a_part_of_an_older_one() -> None:
    chunks = chunks_after(StreamPosition(0, 4, 0), state(2, "Cobalt"))
    assert [chunk.data for chunk in chunks] == [
        Restart(draft=2),
        TextPiece(draft=2, offset=0, text="Cobalt"),
    ]
    assert not any(
        isinstance(chunk.data, Restart)
        for chunk in chunks_after(StreamPosition(), state(2, "Cobalt"))
    )


def test_the_text_is_complete_after_any_number_of_reconnects(seed: int) -> None:
    random = Random(seed)
    for _ in range(300):
        position, draft, content, tool_uses, text_received = StreamPosition(), 0, "", 0, ""
        tool_uses_received = 0
        for _ in range(random.randrange(1, 12)):
            match random.randrange(4):
                case 0:
                    draft, content = draft + 1, "x" * random.randrange(3)
                case 1:
                    tool_uses += 1
                case _:
                    content += random.choice(["lith", "ium ", "é€😀"])
            current = state(draft, content, tool_uses)
            if random.random() < 0.5:
                continue
            chunks = chunks_after(position, current)
            # The connection can break after any event; the client resumes from that event's position.
            received = (
                chunks[: random.randrange(len(chunks) + 1)] if random.random() < 0.5 else chunks
            )
            for chunk in received:
                match chunk.data:
                    case Restart():
                        text_received = ""
                    case TextPiece(offset=offset, text=text):
                        assert offset == len(text_received)
                        text_received += text
                    case ToolUseResponse():
                        tool_uses_received += 1
            is_cut = len(received) < len(chunks)
            position = (
                (received[-1].place if received else position)
                if is_cut
                else position_after(position, received, current)
            )
            position = StreamPosition.read(str(position))
            if not is_cut:
                assert (text_received, tool_uses_received) == (content, tool_uses)
