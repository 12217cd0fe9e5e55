"""Drafts of an answer: within one, text is only ever added."""

from random import Random

import pytest

from services.assistant.streaming_answer import Draft

BEGUN = Draft(3, "Lithium is")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lithium is dear", Draft(3, "Lithium is dear")),
        ("Lith", BEGUN),
        ("", BEGUN),
        ("Cobalt", Draft(4, "Cobalt")),
        ("Lithium was", Draft(4, "Lithium was")),
    ],
)
def test_what_is_said_so_far(text: str, expected: Draft) -> None:
    assert BEGUN.with_beginning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lithium is", BEGUN),
        ("Lithium is dear", Draft(3, "Lithium is dear")),
        ("Lithium", Draft(4, "Lithium")),
    ],
)
def test_the_whole_of_it(text: str, expected: Draft) -> None:
    assert BEGUN.with_text(text) == expected


def test_a_resumed_answer_looks_at_the_same_again() -> None:
    looks = ({"tool": "queryGraph", "about": "x"}, {"tool": "queryGraph", "about": "y"})
    both = BEGUN.with_tool_uses(looks)
    assert both.tool_uses == looks
    assert both.with_tool_uses(looks[:1]) == both


def test_within_a_number_nothing_said_is_unsaid(seed: int) -> None:
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
