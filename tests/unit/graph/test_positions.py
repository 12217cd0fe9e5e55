"""An agent has one position on a subject: what new advice must declare, and which advice stands."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from random import Random
from types import MappingProxyType
from typing import Final
from uuid import UUID

import pytest

from shared.enums import PositionState
from shared.graph.conclusions.commitments import validate_change
from shared.graph.conclusions.position_store import MAX_TOKENS, standing_lines
from shared.graph.conclusions.positions import (
    HAD_EXPIRED,
    WAS_DOUBTED,
    WAS_MERGED,
    Declaration,
    Placed,
    Position,
    contradicting,
    judge,
    position_line,
    rule,
    standing,
)
from shared.graph.conclusions.subjects import SubjectNode, Ties, find_subject
from shared.graph.prompt_format import byte_length
from shared.graph.scope import GraphScope
from shared.tools import ToolRefusalError
from shared.workflow.agent_clock import AgentClock
from tests.support.seeds import first_seed, repeatable, seed_count

ORION, VEGA, CHILE = (UUID(int=number) for number in (1, 2, 3))
NODES = [
    SubjectNode(ORION, ("Orion Bank", "ORB")),
    SubjectNode(VEGA, ("Vega Steel",)),
    SubjectNode(CHILE, ("Chile",)),
]
NAMES = {node.id: node.names[0] for node in NODES}
AGENT = UUID(int=50)
TODAY = date(2026, 11, 30)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CHANGE = "Its losses have doubled since."


def position(number: int, *subject: UUID, action: str = "BUY", **fields: object) -> Position:
    """Those with a higher number are later."""
    known = {each: NAMES[each] for each in subject}
    stated_at = NOW + timedelta(minutes=number)
    stands = Position(
        UUID(int=100 + number), AGENT, f"Advice {number}", action, known, 0.5, None, stated_at
    )
    return replace(stands, **fields)  # type: ignore[arg-type]  # fields of any type


def place(
    positions: Collection[Position],
    action: str,
    *subject: UUID,
    replaces: Collection[UUID] = (),
    name: str | None = None,
    summary: str = "",
    change: str | None = None,
    ties: Ties = MappingProxyType({}),
) -> Placed:
    """The name is that of the subject, if none is given."""
    said = change if change is not None else CHANGE if replaces else ""
    declaration = Declaration(action, subject, replaces, said)
    title = ", ".join(NAMES[each] for each in subject) if name is None else name
    return declaration.place(title, summary, NODES, list(positions), TODAY, ties)


@pytest.mark.parametrize(
    ("name", "summary", "inherited", "subject"),
    [
        ("Orion Bank before its results", "Buy.", (), {ORION}),
        ("ORB is cheap", "Vega Steel is not.", (), {ORION}),
        ("Orion Bank over Vega Steel", "", (), {ORION, VEGA}),
        ("Take profits", "Sell ORB in Chile.", (), {ORION, CHILE}),
        ("Take profits", "Now.", (), {ORION, VEGA, CHILE}),
        ("Take profits", "Now.", {VEGA, UUID(int=9)}, {VEGA}),
        ("Take profits", "Sell ORB.", {VEGA}, {VEGA}),
        ("Orion Bank again", "Now.", {VEGA}, {ORION}),
    ],
)
def test_a_subject_that_is_not_stated_is_what_the_advice_names(
    name: str, summary: str, inherited: Collection[UUID], subject: set[UUID]
) -> None:
    assert find_subject((), name, summary, NODES, inherited) == subject


@pytest.mark.parametrize(
    ("stated", "name", "summary", "refusal"),
    [
        ({ORION}, "Orion Bank before its results", "Sell.", ""),
        ({ORION, VEGA}, "Orion Bank over Vega Steel", "Sell.", ""),
        ({ORION, VEGA}, "Sell Orion Bank", "And Vega Steel.", ""),
        ({ORION}, "Take profits", "ORB is overvalued.", ""),
        (
            {VEGA},
            "Sell Orion Bank",
            "Vega Steel buys it.",
            "the name of this advice names another node: Orion Bank",
        ),
        (
            {CHILE},
            "Sell ORB",
            "Orion Bank is insolvent.",
            "the name of this advice names another node: Orion Bank",
        ),
        (
            {VEGA},
            "Take profits",
            "Sell Orion Bank in Chile.",
            "the summary of this advice names another node: Chile",
        ),
        ({VEGA}, "Take profits", "Now.", "neither the name nor the summary"),
        ({ORION, VEGA}, "Sell Orion Bank", "Now.", "of this advice names Vega Steel"),
        (
            {UUID(int=9)},
            "Sell Orion Bank",
            "Now.",
            "do not rest on this. Give nodes of these: Chile",
        ),
    ],
)
def test_a_stated_subject_is_what_the_advice_rests_on_and_names(
    stated: set[UUID], name: str, summary: str, refusal: str
) -> None:
    if not refusal:
        assert find_subject(stated, name, summary, NODES) == stated
        return
    with pytest.raises(ToolRefusalError, match=refusal):
        find_subject(stated, name, summary, NODES)


def test_what_the_name_names_belongs_to_a_stated_subject() -> None:
    """Otherwise advice on a bank could stand beside the opposite, by naming one of its creditors too."""
    stated = find_subject({ORION}, "Orion Bank over Vega Steel", "Sell Chile.", NODES)
    assert stated == {ORION, VEGA}


def test_a_name_within_a_longer_name_is_not_the_subject() -> None:
    share = SubjectNode(UUID(int=8), ("Orion Bank share",))
    nodes = [*NODES, share]
    assert find_subject((), "Sell the Orion Bank share", "Orion Bank falls.", nodes) == {share.id}
    both = find_subject((), "Sell the Orion Bank share before Orion Bank does", "", nodes)
    assert both == {share.id, ORION}
    with pytest.raises(ToolRefusalError, match="names another node: Orion Bank share"):
        find_subject({ORION}, "Sell the Orion Bank share", "Now.", nodes)


def test_a_stated_subject_may_be_named_in_other_words() -> None:
    bond = SubjectNode(UUID(int=8), ("Orion Bank bond of 2024",))
    stated = find_subject([bond.id], "Hold", "Hold the 2024 bond of Orion.", [*NODES, bond])
    assert stated == {bond.id}


def test_advice_that_names_none_of_many_nodes_is_refused() -> None:
    """It would be on the subject of any other advice."""
    many = [
        *NODES,
        *(SubjectNode(UUID(int=60 + number), (f"Mine {number}",)) for number in range(9)),
    ]
    with pytest.raises(ToolRefusalError, match="neither the name nor the summary"):
        find_subject((), "Take profits", "Now.", many)
    assert find_subject((), "Take profits", "Now.", many, {VEGA}) == {VEGA}
    bond = SubjectNode(UUID(int=8), ("Orion Bank bond of 2024",))
    assert find_subject((), "Hold the 2024 bond of Orion", "Now.", [*many, bond]) == {bond.id}


def test_advice_on_a_free_subject_stands_beside_others() -> None:
    placed = place([position(1, VEGA)], "SELL", ORION, CHILE)
    assert placed == Placed(frozenset({ORION, CHILE}), {}, "")


@pytest.mark.parametrize("action", ["SELL", "BUY"])
@pytest.mark.parametrize("subject", [{ORION}, {ORION, VEGA}, {ORION, CHILE}])
def test_advice_beside_a_standing_position_is_refused_until_it_says_what_it_replaces(
    action: str, subject: set[UUID]
) -> None:
    stands = position(1, ORION, VEGA)
    with pytest.raises(ToolRefusalError) as refused:
        place([stands], action, *subject)
    reason = str(refused.value)
    assert all(part in reason for part in (stands.title, str(stands.id), "`replaces`", "`change`"))
    assert ("SELL contradicts" in reason) == (action == "SELL")
    assert ("reviewAdvice" in reason) == (action == "BUY")
    placed = place([stands], action, *subject, replaces=[stands.id])
    assert placed.ended == {stands.id: CHANGE}
    assert placed.note == f" This replaces “Advice 1”: {CHANGE}"


def test_all_standing_positions_on_the_subject_have_to_be_replaced() -> None:
    orion, vega = position(1, ORION), position(2, VEGA)
    with pytest.raises(ToolRefusalError, match="Advice 2"):
        place([orion, vega], "SELL", ORION, VEGA, replaces=[orion.id])
    placed = place([orion, vega], "SELL", ORION, VEGA, replaces=[orion.id, vega.id])
    assert placed.ended.keys() == {orion.id, vega.id}


BOTH: Final = "Vega Steel is sold for its debt, which this is not about."


@pytest.mark.parametrize(
    ("ties", "stated", "name", "summary", "why"),
    [
        ({frozenset((ORION, VEGA)): "issued_by"}, {}, "Orion Bank", "", "issued_by"),
        ({}, {}, "Orion Bank", "Unlike Vega Steel.", "“Vega Steel” is named"),
        ({}, {"title": "Vega Steel owes Orion Bank"}, "Orion Bank", "", "“Orion Bank” is named"),
        ({}, {"summary": "Sell it to ORB."}, "Orion Bank", "", "“Orion Bank” is named"),
    ],
)
def test_advice_that_contradicts_a_position_on_a_related_subject_replaces_it_or_says_why_both_hold(
    ties: Ties, stated: dict[str, object], name: str, summary: str, why: str
) -> None:
    sells = position(1, VEGA, action="SELL", **stated)
    advice = {"name": name, "summary": summary, "ties": ties}
    for change in ("", CHANGE):  # The second is about something else.
        with pytest.raises(ToolRefusalError) as refused:
            place([sells], "BUY", ORION, change=change, **advice)  # type: ignore[arg-type]  # of any type
        reason = str(refused.value)
        parts = (
            "BUY contradicts advice on a related",
            str(sells.id),
            why,
            "`replaces`",
            "`change`",
        )
        assert all(part in reason for part in parts), reason
    beside = place([sells], "BUY", ORION, change=BOTH, **advice)  # type: ignore[arg-type]  # of any type
    note = f" This stands beside SELL “{sells.title}”: {BOTH}"
    assert beside == Placed(frozenset({ORION}), {}, note)
    newer = place([sells], "BUY", ORION, replaces=[sells.id], **advice)  # type: ignore[arg-type]  # of any type
    assert newer.ended == {sells.id: CHANGE}
    assert newer.note == f" This replaces “{sells.title}”: {CHANGE}"
    # Without a contradiction, nothing has to be said.
    assert place([sells], "SELL", ORION, **advice).note == ""  # type: ignore[arg-type]  # of any type
    assert place([replace(sells, is_doubted=True)], "BUY", ORION, **advice).note == ""  # type: ignore[arg-type]  # of any type


def test_words_of_other_missions_can_go_together_on_related_subjects() -> None:
    ties = {frozenset((ORION, VEGA)): "part_of"}
    placed = place([position(1, VEGA, action="WAIT")], "UPGRADE", ORION, ties=ties)
    assert placed == Placed(frozenset({ORION}), {}, "")


def test_advice_can_replace_one_position_and_stand_beside_another() -> None:
    ties = {frozenset((ORION, VEGA)): "issued_by", frozenset((ORION, CHILE)): "part_of"}
    sells, holds = position(1, VEGA, action="SELL"), position(2, CHILE, action="HOLD")
    with pytest.raises(ToolRefusalError, match=r"related subject.*Advice 1"):
        place([sells, holds], "BUY", ORION, replaces=[holds.id], ties=ties)
    placed = place([sells, holds], "BUY", ORION, replaces=[holds.id], change=BOTH, ties=ties)
    assert placed.ended == {holds.id: BOTH}
    assert placed.note == f" This replaces “Advice 2” and stands beside SELL “Advice 1”: {BOTH}"


def test_standing_positions_that_contradict_each_other_are_shown_first_and_side_by_side() -> None:
    ties = {frozenset((ORION, VEGA)): "issued_by"}
    buys, sells, other = position(1, ORION), position(2, VEGA, action="SELL"), position(3, CHILE)
    stands = [other, sells, buys]
    assert contradicting(stands, ties) == {sells.id: [buys], buys.id: [sells]}
    scope = GraphScope(AGENT, UUID(int=51))
    lines = standing_lines(stands, scope, AgentClock(NOW), ties).splitlines()
    assert f"beside BUY [node:{buys.id}]" in lines[0]
    assert f"beside SELL [node:{sells.id}]" in lines[1]
    assert "beside" not in lines[2]


@pytest.mark.parametrize("replaced", [UUID(int=999), position(2, VEGA).id])
def test_only_positions_on_the_subject_can_be_replaced(replaced: UUID) -> None:
    positions = [position(1, ORION), position(2, VEGA)]
    with pytest.raises(ToolRefusalError, match=r"is no standing advice on this subject.*Advice 1"):
        place(positions, "SELL", ORION, replaces=[replaced])


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ({"is_doubted": True}, PositionState.DOUBTED, WAS_DOUBTED),
        ({"horizon": date(2026, 11, 29)}, PositionState.EXPIRED, HAD_EXPIRED),
    ],
)
def test_what_does_not_stand_needs_no_declaration_and_never_stands_again(
    fields: dict[str, object], state: PositionState, reason: str
) -> None:
    old = replace(position(1, ORION), **fields)  # type: ignore[arg-type]  # fields of any type
    assert judge(old, [old], TODAY).state is state
    placed = place([old], "SELL", ORION)
    assert placed.ended == {old.id: reason}
    assert placed.note == ""


def test_on_its_last_day_advice_stands() -> None:
    last = position(1, ORION, horizon=TODAY)
    assert standing([last], TODAY) == [last]
    assert standing([last], TODAY + timedelta(days=1)) == []


def test_of_positions_on_merged_nodes_the_one_stated_last_stands() -> None:
    older, newer = position(1, ORION), position(2, ORION, action="SELL")
    other_agent = position(3, ORION, agent_id=UUID(int=51))
    judged = judge(older, [older, newer, other_agent], TODAY)
    assert (judged.state, judged.reason) == (PositionState.REPLACED, WAS_MERGED)
    assert judged.replaced_by == (newer.id, newer.title)
    assert standing([older, newer], TODAY) == [newer]
    confirmed = replace(older, stated_at=newer.stated_at + timedelta(days=1))
    assert standing([confirmed, newer], TODAY) == [confirmed]
    placed = place([older, newer], "HOLD", ORION, replaces=[newer.id])
    assert placed.ended == {newer.id: CHANGE, older.id: WAS_MERGED}


def test_ended_positions_say_how_they_ended() -> None:
    withdrawn = position(1, ORION, ended_at=NOW, reason="It was sold.")
    assert judge(withdrawn, [], TODAY).state is PositionState.WITHDRAWN
    replaced = replace(withdrawn, replaced_by=UUID(int=7), replaced_by_title="Sell")
    assert judge(replaced, [], TODAY).replaced_by == (UUID(int=7), "Sell")


@pytest.mark.parametrize("change", [None, "", "  ", "Losses.", "x" * 601])
def test_what_changed_has_to_be_said(change: str | None) -> None:
    with pytest.raises(ToolRefusalError, match="what changed since"):
        validate_change(change)
    assert validate_change(f" {CHANGE}\n") == CHANGE


def test_a_position_is_a_line_of_the_prompt() -> None:
    texts = {"summary": "Buy it.", "content": "It is cheap.", "invalidation": "A loss in 2027."}
    stands = position(1, ORION, horizon=TODAY, **texts)
    line = position_line(stands, NOW + timedelta(days=1), 100)
    assert line == (
        f'- [node:{stands.id}] BUY "Advice 1" on "Orion Bank" [node:{ORION}];'
        " until 2026-11-30, confidence 0.5, since 2026-11-30"
        ' {"summary": "Buy it.", "invalidation": "A loss in 2027.", "content": "It is cheap."}'
    )
    short = position_line(stands, NOW + timedelta(days=1), 0)
    assert line.replace(', "content": "It is cheap."', "") == short
    confirmed = replace(stands, confirmations=1)
    # An agent with an archive date is not shown a later one.
    assert "confirmed 2026-09-01" in position_line(confirmed, NOW - timedelta(days=90), 0)


def test_standing_advice_fits_its_budget_with_summary_and_invalidation() -> None:
    """The more of it there is, the less of its content is shown; without room for all, the last stated comes first."""
    scope, clock = GraphScope(AGENT, UUID(int=51)), AgentClock(NOW + timedelta(days=1))
    texts = {"summary": "Buy it.", "invalidation": "A loss in 2027.", "content": "x" * 1_900}
    stands = [position(number, ORION, **texts) for number in reversed(range(40))]
    stated = [replace(each, subject={UUID(int=200 + n): "A"}) for n, each in enumerate(stands)]
    shown = {count: standing_lines(stated[:count], scope, clock, {}) for count in (1, 3, 9, 40)}
    assert [shown[count].count("x") for count in (1, 3, 9)] == [1_900, 3 * 599, 0]
    assert [shown[count].count('"invalidation"') for count in (1, 3, 9)] == [1, 3, 9]
    assert "Advice 39" in shown[40].splitlines()[0]
    assert shown[40].endswith("more left out for their length)")
    assert all(byte_length(text) <= scope.budget_bytes(MAX_TOKENS) + 60 for text in shown.values())


def test_no_two_standing_positions_share_a_node() -> None:
    first = first_seed()
    for seed in range(first, first + (seed_count() or 200)):
        with repeatable(seed):
            _walk(Random(seed))


def _walk(random: Random) -> None:
    positions: list[Position] = []
    for number in range(30):
        action, nodes = random.choice(["BUY", "SELL", "HOLD"]), [ORION, VEGA, CHILE]
        subject = random.sample(nodes, random.randint(1, 3))
        is_open = [each for each in positions if each.ended_at is None]
        replaces = [each.id for each in is_open if random.random() < 0.4]
        try:
            placed = place(is_open, action, *subject, replaces=replaces)
        except ToolRefusalError:
            continue
        new = position(number, *subject, action=action, is_doubted=random.random() < 0.2)
        positions = [
            replace(each, ended_at=NOW, replaced_by=new.id, reason=placed.ended[each.id])
            if each.id in placed.ended
            else each
            for each in positions
        ]
        positions.append(new)
        is_open = [each for each in positions if each.ended_at is None]
        # Whatever is in doubt now, or will no longer be.
        assert not any(
            one.overlaps(other.subject.keys()) for one, other in combinations(is_open, 2)
        )
        assert all(each.reason for each in positions if each.ended_at is not None)


@pytest.mark.parametrize(("action", "is_of_markets"), [("SELL", True), ("UPGRADE", False)])
def test_the_rule_on_markets_is_for_those_who_advise_on_them(
    action: str, is_of_markets: bool
) -> None:
    line = f'- [n1] {action} "BUY and SELL" on "Ghana" [n2]; confidence 0.5'
    assert ("related subjects" in rule(line)) is is_of_markets
