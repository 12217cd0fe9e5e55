"""Advice of one run never contradicts other advice of it on the same subject, unless it replaces it."""

from random import Random
from uuid import UUID

import pytest

from shared.graph.conclusions.basis import (
    Position,
    SubjectNode,
    contradiction,
    find_subject,
    unnamed_subject,
)
from tests.support.seeds import first_seed, repeatable, seed_count

ORION, VEGA, CHILE = (UUID(int=number) for number in (1, 2, 3))
NODES = [
    SubjectNode(ORION, ("Orion Bank", "ORB")),
    SubjectNode(VEGA, ("Vega Steel",)),
    SubjectNode(CHILE, ("Chile",)),
]


@pytest.mark.parametrize(
    ("stated", "title", "subject"),
    [
        (None, "Orion Bank before its results", {ORION}),
        (None, "ORB is cheap", {ORION}),
        (None, "Orion Bank over Vega Steel", {ORION, VEGA}),
        (None, "Orion Bank in Chile", {ORION, CHILE}),
        (None, "Take profits", {ORION, VEGA, CHILE}),
        (ORION, "Orion Bank in Chile", {ORION}),
        (VEGA, "Take profits", {VEGA}),
    ],
)
def test_the_subject_is_what_is_stated_or_what_the_title_names(
    stated: UUID | None, title: str, subject: set[UUID]
) -> None:
    assert find_subject(stated, title, NODES) == subject


@pytest.mark.parametrize(
    ("stated", "title", "summary", "refusal"),
    [
        (ORION, "Orion Bank before its results", "Sell.", ""),
        (ORION, "Orion Bank over Vega Steel", "Sell Vega Steel.", ""),
        (ORION, "Take profits", "ORB is dear.", ""),
        (
            VEGA,
            "Sell Orion Bank",
            "Vega Steel buys it.",
            "the name of this advice names another node: Orion Bank",
        ),
        (
            CHILE,
            "Sell ORB",
            "Orion Bank is insolvent.",
            "the name of this advice names another node: Orion Bank",
        ),
        (
            VEGA,
            "Take profits",
            "Sell Orion Bank in Chile.",
            "the summary of this advice names another node: Chile",
        ),
        (VEGA, "Take profits", "Now.", "neither the name nor the summary"),
    ],
)
def test_the_stated_subject_is_what_the_advice_names(
    stated: UUID, title: str, summary: str, refusal: str
) -> None:
    reason = unnamed_subject(stated, title, summary, NODES)
    assert (refusal in reason, bool(reason)) == (True, bool(refusal))


@pytest.mark.parametrize(
    ("earlier", "new", "refusal"),
    [
        # Titles share a place.
        ({ORION}, {VEGA, CHILE}, ""),
        ({ORION, CHILE}, {VEGA, CHILE}, "may contradict"),
        ({ORION}, {VEGA}, ""),
        # Titles name nothing.
        ({ORION, VEGA, CHILE}, {ORION, VEGA, CHILE}, "may contradict"),
        ({ORION, VEGA, CHILE}, {ORION}, "SELL contradicts BUY"),
        ({ORION}, {ORION}, "SELL contradicts BUY"),
    ],
)
def test_advice_that_may_be_about_the_same_node_must_state_its_subject(
    earlier: set[UUID], new: set[UUID], refusal: str
) -> None:
    stands = Position(UUID(int=7), "First", "BUY", earlier)
    names = {node.id: node.names[0] for node in NODES}
    reason = contradiction(Position(UUID(int=8), "Second", "SELL", new), [stands], names)
    assert (refusal in reason, bool(reason)) == (True, bool(refusal))
    if len(new) > 1 and reason:
        assert "Set `subject`" in reason
        assert all(f"{names[each]} [node:{each}]" in reason for each in new)


def _random_advice(random: Random, number: int, accepted: list[Position]) -> Position:
    replaces = None
    if accepted and random.random() < 0.4:
        replaces = random.choice(accepted).id
    if random.random() < 0.05:
        replaces = UUID(int=999)
    return Position(
        UUID(int=100 + number),
        f"Advice {number}",
        random.choice(["BUY", "SELL", "HOLD"]),
        frozenset(random.sample([ORION, VEGA, CHILE], random.randint(0, 3))),
        replaces,
    )


def test_no_two_standing_pieces_of_advice_are_opposed() -> None:
    first = first_seed()
    for seed in range(first, first + (seed_count() or 200)):
        with repeatable(seed):
            _walk(Random(seed))


def _walk(random: Random) -> None:
    accepted: list[Position] = []
    for number in range(30):
        new = _random_advice(random, number, accepted)
        if not contradiction(new, accepted):
            accepted.append(new)
        replaced = {each.replaces for each in accepted}
        standing = [each for each in accepted if each.id not in replaced]
        assert replaced <= {None, *(each.id for each in accepted)}
        for one in standing:
            assert not any(
                one.action != other.action and one.subject & other.subject for other in standing
            )


def test_the_refusal_says_which_one_stands_and_how_to_replace_it() -> None:
    stands = Position(UUID(int=7), "Orion Bank is cheap", "BUY", {ORION})
    reason = contradiction(Position(UUID(int=8), "Sell", "SELL", {ORION}), [stands])
    assert all(part in reason for part in ("SELL", "BUY", stands.title, str(stands.id), "replaces"))
    replacing = Position(UUID(int=9), "Sell", "SELL", {ORION}, stands.id)
    assert not contradiction(replacing, [stands])
    assert "BUY contradicts SELL" in contradiction(
        Position(UUID(int=10), "Buy", "BUY", {ORION}), [stands, replacing]
    )
