"""The sentences of conclusions that a model reads, each with what it cites."""

from typing import Final
from uuid import UUID, uuid4

import pytest

from shared.enums import ADVICE_TYPE, SentenceKind, SentenceVerdict
from shared.graph.conclusions.readings import (
    ConclusionReadings,
    Draft,
    draft_of,
    draft_of_review,
    outcome,
)
from shared.graph.conclusions.sentences import split_sentences
from shared.graph.scope import GraphScope
from shared.tools import ToolRefusalError
from shared.tools.readings import Findings, Material, NotRead, ReadableSentence, SentenceFinding

SCOPE: Final = GraphScope(uuid4(), uuid4())
ONE, TWO = (UUID(int=number) for number in (1, 2))
GOOD: Final = SentenceFinding(SentenceKind.STATES, SentenceVerdict.SUPPORTED)
BAD: Final = SentenceFinding(SentenceKind.INFERS, SentenceVerdict.DOES_NOT_FOLLOW, "the opposite")


def _draft(content: str = f"It grows [node:{ONE}].") -> Draft:
    return draft_of(
        SCOPE,
        ADVICE_TYPE,
        "Wait",
        summary="It is early.",
        content=content,
        invalidation="Sales fall by 10 %.",
        change="Sales grew.",
        action="HOLD",
    )


def _found(draft: Draft, *findings: SentenceFinding | None) -> Findings:
    sentences = [
        ReadableSentence(draft.id, number, sentence.text, ())
        for number, sentence in enumerate(draft.sentences, 1)
    ]
    by_place = {place: each for place, each in enumerate(findings) if each is not None}
    return Findings(Material([], sentences), "m", uuid4(), 1, {}, by_place)


def test_citations_belong_to_their_sentence() -> None:
    text = f"## Growth\n\n- It has 5 [node:{ONE}]. Then 6 [edge:{TWO}], later.\nIt grows. [node:{ONE}][node:{TWO}]"
    assert [(each.text, each.cited) for each in split_sentences(text)] == [
        ("Growth", ()),
        ("It has 5.", (ONE,)),
        ("Then 6, later.", (TWO,)),
        ("It grows.", (ONE, TWO)),
    ]


def test_lines_without_words_are_no_sentences() -> None:
    assert split_sentences("---\n\n***\n> \n|---|---|\n~~~ `` \u200b\n") == []


@pytest.mark.parametrize("text", ["🅱🆁🅰🅽🅳🅰🅻 🅷🅰🆂 🆆🅾🅽", "Ⓢⓔⓛⓛ", "✅", "𝐒𝐞𝐥𝐥", "売れ", "½", "\ue000"])
def test_what_a_person_can_read_is_a_sentence(text: str) -> None:
    assert [each.text for each in split_sentences(f"It grows.\n\n{text}")] == ["It grows.", text]


def test_each_text_and_the_action_are_read() -> None:
    assert [(each.text, each.role) for each in _draft().sentences] == [
        ("Wait", "title"),
        ("It is early.", ""),
        ("It grows.", ""),
        ("Sales fall by 10 %.", "wrong if"),
        ("Sales grew.", "change"),
        ("HOLD", "action"),
    ]


def test_a_text_is_read_in_each_of_its_roles() -> None:
    draft = draft_of(
        SCOPE,
        ADVICE_TYPE,
        "Ore falls.",
        summary="Ore falls.",
        content=f"HOLD\nOre falls [node:{ONE}].",
        invalidation="The mine opens.",
        change="The mine opens.",
        action="HOLD",
    )
    assert [(each.text, each.role) for each in draft.sentences] == [
        ("Ore falls.", "title"),
        ("HOLD", ""),
        ("The mine opens.", "wrong if"),
        ("Ore falls.", ""),
        ("Ore falls.", ""),
        ("The mine opens.", "change"),
        ("HOLD", "action"),
    ]


def test_a_sentence_is_read_after_each_other_one() -> None:
    content = "Kesra has left. It loses its bond. Trident stays. It loses its bond."
    draft = draft_of(SCOPE, ADVICE_TYPE, "Left", summary="Kesra has left.", content=content)
    assert [each.text for each in draft.sentences][1:] == [
        "Kesra has left.",
        "It loses its bond.",
        "Trident stays.",
        "It loses its bond.",
    ]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Price target:\n\n150) Holm raised it", ["Price target:", "150) Holm raised it"]),
        ("1. Sell\n2. Wait", ["1. Sell", "2. Wait"]),
        ("– 3.4 % a year", ["– 3.4 % a year"]),
        ("- 3.4 % a year\n* It grows", ["3.4 % a year", "It grows"]),
        ("## 90. MorvPension", ["90. MorvPension"]),
        ("• It grows", ["• It grows"]),
    ],
)
def test_numbers_and_signs_at_the_start_of_a_line_are_read(text: str, read: list[str]) -> None:
    assert [each.text for each in split_sentences(text)] == read


def test_what_a_review_does_is_read_with_its_reasons() -> None:
    draft = draft_of_review(
        TWO, "Sell ore", "It falls. So it is.", [ONE], "It confirms SELL “Sell ore”."
    )
    assert [(each.text, each.role, each.cited) for each in draft.sentences] == [
        ("It falls.", "", (ONE, TWO)),
        ("So it is.", "", (ONE, TWO)),
        ("It confirms SELL “Sell ore”.", "review", (ONE, TWO)),
    ]


def test_without_a_reading_nothing_counts_as_read() -> None:
    assert ConclusionReadings(SCOPE).check(_draft()) == ""
    readings = ConclusionReadings(SCOPE)
    readings.use(NotRead("the budget is used up"))
    assert readings.check(_draft()) == "the budget is used up"


def test_a_conclusion_passes_if_each_of_its_sentences_does() -> None:
    draft, readings = _draft(), ConclusionReadings(SCOPE)
    readings.begin([])
    readings.use(_found(draft, *[GOOD] * 6))
    assert readings.check(draft) == ""


def test_a_sentence_without_a_verdict_leaves_the_conclusion_unread() -> None:
    draft, readings = _draft(), ConclusionReadings(SCOPE)
    readings.begin([])
    readings.use(_found(draft, GOOD, GOOD, None, *[GOOD] * 3))
    assert readings.check(draft) == "the model gave no verdict on a sentence"


def test_a_failing_sentence_refuses_and_its_reason_is_told_once() -> None:
    draft, readings = _draft(), ConclusionReadings(SCOPE)
    readings.begin([])
    readings.use(_found(draft, GOOD, GOOD, BAD, *[GOOD] * 3))
    with pytest.raises(
        ToolRefusalError, match=r"“It grows\.”: does not follow \(the opposite\)"
    ) as first:
        readings.check(draft)
    assert "once, or leave it out" in str(first.value)
    readings.begin([{"error": "", **first.value.details}])
    readings.use(_found(draft, GOOD, GOOD, BAD, *[GOOD] * 3))
    with pytest.raises(ToolRefusalError, match="stays unwritten: go on without it") as second:
        readings.check(draft)
    readings.begin([first.value.details, second.value.details])
    readings.collect()
    with pytest.raises(ToolRefusalError, match="before, and stays unwritten"):
        readings.check(draft)


def test_other_words_than_were_read_are_refused() -> None:
    readings = ConclusionReadings(SCOPE)
    readings.begin([])
    readings.use(_found(_draft(), *[GOOD] * 6))
    with pytest.raises(ToolRefusalError, match="passes now"):
        readings.check(_draft(f"It falls [node:{ONE}]."))
    readings.use(None)
    with pytest.raises(ToolRefusalError, match="passes now"):
        readings.check(_draft())


def test_after_many_failures_nothing_is_read_any_more() -> None:
    readings = ConclusionReadings(SCOPE)
    readings.begin([{"notWritten": f"Title {number}"} for number in range(6)])
    readings.collect()
    with pytest.raises(ToolRefusalError, match="6 comparisons of this task have failed"):
        readings.check(_draft())


def test_the_result_names_what_was_left_out_and_counts_what_is_not_read() -> None:
    stored = _draft()
    results = [
        {"error": "no", "notWritten": "Wait"},
        {"error": "no", "notWritten": "Buy"},
        {"nodeId": str(stored.id), "notRead": "the budget is used up"},
        {"error": "no", "notWritten": "Buy"},
    ]
    assert outcome(SCOPE, ADVICE_TYPE, results) == {
        "left_out": ["Buy"],
        "not_read": {"count": 1, "why": "the budget is used up"},
    }
    assert outcome(SCOPE, ADVICE_TYPE, [{"nodeId": str(stored.id)}]) == {}
