"""Drafts of a streamed answer: within one draft, text is only appended."""

from itertools import pairwise
from random import Random
from uuid import uuid4

import pytest

from services.assistant.streaming_answer import AnswerWriter, Draft

DRAFT = Draft(3, "Lithium is")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lithium is dear", Draft(3, "Lithium is dear")),
        ("Lith", DRAFT),
        ("", DRAFT),
        ("Cobalt", Draft(4, "Cobalt")),
        ("Lithium was", Draft(4, "Lithium was")),
    ],
)
def test_a_beginning_extends_the_draft_or_starts_a_new_one(text: str, expected: Draft) -> None:
    assert DRAFT.with_beginning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lithium is", DRAFT),
        ("Lithium is dear", Draft(3, "Lithium is dear")),
        ("Lithium", Draft(4, "Lithium")),
    ],
)
def test_the_final_text_extends_the_draft_or_starts_a_new_one(text: str, expected: Draft) -> None:
    assert DRAFT.with_text(text) == expected


def test_repeated_tool_uses_of_a_resumed_answer_are_stored_once() -> None:
    tool_uses = ({"tool": "queryGraph", "about": "x"}, {"tool": "queryGraph", "about": "y"})
    draft = DRAFT.with_tool_uses(tool_uses)
    assert draft.tool_uses == tool_uses
    assert draft.with_tool_uses(tool_uses[:1]) == draft


def test_text_is_never_removed_within_one_draft_number(seed: int) -> None:
    random = Random(seed)
    draft = Draft(0, "")
    for _ in range(500):
        text = "".join(random.choices("ab", k=random.randrange(6)))
        after = draft.with_beginning(text) if random.random() < 0.7 else draft.with_text(text)
        assert after.number in (draft.number, draft.number + 1)
        if after.number == draft.number:
            assert after.content.startswith(draft.content)
        assert after.content.startswith(text)
        draft = after


async def test_a_citation_is_shown_when_it_is_complete() -> None:
    """Otherwise the text would begin again at each citation, because a draft only grows."""
    stored: list[str] = []
    writer = AnswerWriter(
        None,  # type: ignore[arg-type]  # nothing is written
        None,  # type: ignore[arg-type]
        uuid4(),
        Draft(0, ""),
        lambda: 0.0,
        lambda text: text.replace("[n17]", "[node:x]"),
    )
    text = "Chile mines it [n17], see [1] and the [open end"
    for length in range(1, len(text) + 1):
        await writer.on_delta(text[:length])
        stored.append(writer.draft.content)
    assert all(later.startswith(earlier) for earlier, later in pairwise(stored))
    assert writer.draft == Draft(0, "Chile mines it [node:x], see [1] and the [open end")
