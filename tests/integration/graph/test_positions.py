"""An agent has one position on a subject, over all its iterations."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, func, select, update

from services.api.resources.inbox.model import list_inbox_items
from services.notifier.channels import text as mail_text
from services.notifier.payload import ItemData, build_message
from shared.database import ids
from shared.database.tables import (
    Agent,
    GraphNode,
    InboxItem,
    Message,
    Position,
)
from shared.enums import ADVICE_TYPE, PositionState, StepKind
from shared.graph import types
from shared.graph.conclusions import position_store, queries
from shared.graph.conclusions.conclusions import add_advice
from shared.graph.conclusions.positions import WAS_EARLIER, WAS_MERGED
from shared.graph.conclusions.readings import NOT_READ
from shared.graph.conclusions.related import ties_query
from shared.graph.conclusions.reviews import Review, review_advice
from shared.graph.context import build_survey
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.schemas.base import PageRequest, PositionResponse
from shared.tools import ToolRefusalError
from shared.workflow.agent_clock import AgentClock, agent_clock
from tests.support.api.access import owner_access
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.duplicates import merge_nodes, undo_merge
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.position_walk import PositionWalk
from tests.support.graph.transfer import exported, imported
from tests.support.graph.verification import breaks
from tests.support.seeds import repeatable

CHANGE: Final = "What speaks for it has changed since."


def run_of(graph: AgentGraph) -> GraphScope:
    """A further iteration."""
    return replace(graph.scope, iteration_id=uuid4(), step_id=uuid4())


async def cited(graph: AgentGraph, node: UUID, name: str) -> str:
    """Citations of two analyses of the node."""
    analyses = [
        await graph.analysis(f"[node:{node}]", f"{word} of {name}") for word in ("Size", "Trend")
    ]
    return " ".join(f"[node:{each}]" for each in analyses)


async def review(
    graph: AgentGraph, advice: UUID, relation: Review, because: str, **terms: Any
) -> None:
    async with graph.database.transaction() as session:
        await review_advice(session, run_of(graph), advice, relation, because=because, **terms)


async def states(graph: AgentGraph) -> dict[str, PositionResponse | None]:
    """What the list of advice says of each, by name."""
    async with graph.database.transaction() as session:
        page = await queries.list_conclusions(session, graph.scope, ADVICE_TYPE, PageRequest())
        inbox = await list_inbox_items(owner_access(session, graph.scope.owner_id), PageRequest())
    listed = {each.name: each.position for each in page.items}
    advice = [item for item in inbox.items if item.node_id is not None]
    assert {item.title.partition(": ")[2]: item.position for item in advice} == listed
    return listed


async def state(graph: AgentGraph, name: str) -> PositionResponse:
    position = (await states(graph))[name]
    assert position is not None
    return position


async def told(graph: AgentGraph) -> Sequence[int | None]:
    async with graph.database.transaction() as session:
        return [
            await session.scalar(select(func.count()).select_from(table))
            for table in (InboxItem, Message)
        ]


async def test_over_several_iterations_opposed_advice_is_refused_until_it_replaces_the_other(
    agent_graph: AgentGraph,
) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    buy = await agent_graph.advice(citations, "Ghana is cheap", "BUY", scope=run_of(agent_graph))
    for action in ("SELL", "HOLD"):
        with pytest.raises(ToolRefusalError, match=rf"{action} contradicts .*{buy}.*`replaces`"):
            await agent_graph.advice(
                citations, "Ghana is overvalued", action, scope=run_of(agent_graph)
            )
    with pytest.raises(ToolRefusalError, match=r"There is a position .*reviewAdvice"):
        await agent_graph.advice(citations, "Ghana again", "BUY", scope=run_of(agent_graph))
    with pytest.raises(ToolRefusalError, match="what changed since"):
        await agent_graph.advice(citations, "Ghana is overvalued", "SELL", replaces=[buy])
    sell = await agent_graph.advice(
        citations, "Ghana is overvalued", "SELL", replaces=[buy], change=CHANGE
    )
    assert (await state(agent_graph, "Ghana is overvalued")).state is PositionState.STANDING
    replaced = await state(agent_graph, "Ghana is cheap")
    assert (replaced.state, replaced.replaced_by, replaced.replaced_by_id, replaced.reason) == (
        PositionState.REPLACED,
        "Ghana is overvalued",
        sell,
        CHANGE,
    )
    assert replaced.sentence.startswith("Replaced on 2")
    assert replaced.sentence.endswith(f" by “Ghana is overvalued”: {CHANGE}")
    async with agent_graph.database.transaction() as session:
        items = {each.node_id: each for each in await session.scalars(select(InboxItem))}
        survey = await build_survey(
            session, agent_graph.scope, StepKind.OBSERVE, token_budget=4_000
        )
    assert items[sell].summary == f"{NOT_READ} Wait. This replaces “Ghana is cheap”: {CHANGE}"
    assert items[buy].resolved_at is not None
    assert items[buy].read_at is not None
    assert items[sell].resolved_at is None
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert f'"Ghana is cheap": Wait. ({today}) (replaced by "Ghana is overvalued")' in survey
    assert survey.count("replaced by") == 1


async def test_the_ends_of_cited_edges_can_be_the_subject(agent_graph: AgentGraph) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    border = await agent_graph.edge(ghana, togo)
    node_cited = await cited(agent_graph, ghana, "Ghana")
    analyses = [await agent_graph.analysis(f"[edge:{border}]", name) for name in ("C", "D")]
    edge_cited = " ".join(f"[node:{each}]" for each in analyses)
    buy = await agent_graph.advice(node_cited, "Ghana is cheap", "BUY")
    for content in (node_cited, edge_cited):
        with pytest.raises(ToolRefusalError, match=rf"SELL contradicts .*{buy}.*`replaces`"):
            await agent_graph.advice(content, "Ghana is overvalued", "SELL")
    with pytest.raises(ToolRefusalError, match=rf"replaces: .*is no standing advice.*{buy}"):
        await agent_graph.advice(
            node_cited, "Ghana is overvalued", "SELL", replaces=[uuid4()], change=CHANGE
        )
    # It names neither, so it may be about both.
    with pytest.raises(ToolRefusalError, match="set `subject` to that"):
        await agent_graph.advice(edge_cited, "Both wait", "SELL")
    with pytest.raises(ToolRefusalError, match=rf"subject: .*Ghana \[node:{ghana}\]"):
        await agent_graph.advice(node_cited, "Ghana again", "BUY", subject=[togo])
    with pytest.raises(ToolRefusalError, match="the name of this advice names another node: Ghana"):
        await agent_graph.advice(edge_cited, "Ghana is overvalued", "SELL", subject=[togo])
    with pytest.raises(ToolRefusalError, match=rf"SELL contradicts .*{buy}"):
        await agent_graph.advice(edge_cited, "Ghana trades with Togo", "SELL", subject=[togo])
    await agent_graph.advice(edge_cited, "Togo is overvalued", "SELL", subject=[togo])
    about = (await state(agent_graph, "Togo is overvalued")).subject
    assert [(each.id, each.name) for each in about] == [(togo, "Togo")]


async def test_a_share_a_bond_and_their_company_are_held_side_by_side(
    agent_graph: AgentGraph,
) -> None:
    """Toyota issued Facebook, its share, and Borland, its bond; Alphabet supplies it."""
    company, share, bond = [
        await agent_graph.node(name) for name in ("Toyota", "Facebook", "Borland")
    ]
    for name in ("share_of", "issued_by", "supplies"):
        await agent_graph.edge_type(name)
    await agent_graph.edge(share, company, "share_of")
    await agent_graph.edge(bond, company, "issued_by")
    supplier = await agent_graph.node("Alphabet")
    await agent_graph.edge(supplier, company, "supplies")
    cited_by = {
        name: await cited(agent_graph, node, name)
        for name, node in {"C": company, "S": share, "B": bond, "V": supplier}.items()
    }
    buy = await agent_graph.advice(cited_by["S"], "Facebook is cheap", "BUY")
    for name, title in {"C": "Toyota fails", "B": "Borland fails"}.items():
        relation = "share_of" if name == "C" else "issued_by"
        with pytest.raises(
            ToolRefusalError, match=rf"SELL contradicts .*related.*{buy}.*\((share_of|{relation})\)"
        ):
            await agent_graph.advice(cited_by[name], title, "SELL")
    await agent_graph.advice(cited_by["V"], "Alphabet loses orders", "SELL")
    reason = "Facebook is cheap even if Borland is repaid late, which it says nothing of."
    sell = await agent_graph.advice(cited_by["B"], "Borland fails", "SELL", change=reason)
    clock, scope = AgentClock(datetime.now(UTC)), agent_graph.scope
    async with agent_graph.database.transaction() as session:
        item = await session.scalar(select(InboxItem).where(InboxItem.node_id == sell))
        known = await position_store.load_open(session, scope)
        lines = await position_store.load_lines(session, scope, clock, known)
        assert await breaks(session, scope) == []
    assert item is not None
    assert item.summary.endswith(f" This stands beside BUY “Facebook is cheap”: {reason}")
    assert [line.split(";")[0].split("] ")[1] for line in lines.splitlines()] == [
        f'SELL "Borland fails" on "Borland" [node:{bond}]',
        f'BUY "Facebook is cheap" on "Facebook" [node:{share}]',
        f'SELL "Alphabet loses orders" on "Alphabet" [node:{supplier}]',
    ]
    assert [line.count("beside") for line in lines.splitlines()] == [1, 1, 0]
    await agent_graph.advice(cited_by["C"], "Toyota fails", "SELL", replaces=[buy], change=CHANGE)
    assert (await state(agent_graph, "Facebook is cheap")).state is PositionState.REPLACED
    assert (await state(agent_graph, "Borland fails")).state is PositionState.STANDING


@pytest.mark.parametrize(
    ("name", "schema", "is_related"),
    [
        ("part_of", None, True),
        ("is_a_subsidiary_of", None, True),
        ("has_bonds", None, True),
        ("owns_part_of", None, False),
        ("holds_shares_of", None, False),
        ("borders", None, False),
        ("backs", {"type": "object", "x-subjects": "issuer"}, True),
        ("issued_by", {"type": "object", "x-subjects": "none"}, False),
    ],
)
async def test_the_type_of_an_edge_says_whether_it_relates_subjects(
    agent_graph: AgentGraph, name: str, schema: dict[str, str] | None, is_related: bool
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    if name != "borders":
        async with agent_graph.database.transaction() as session:
            await types.create_edge_type(
                session,
                agent_graph.scope,
                name=name,
                description="What it says",
                source_types=[],
                target_types=[],
                created_by="test",
                properties_schema=schema,
            )
    await agent_graph.edge(ghana, togo, name)
    async with agent_graph.database.transaction() as session:
        ties = await ties_query(agent_graph.scope, [ghana, togo]).execute(session)
    assert ties == ({frozenset((ghana, togo)): name} if is_related else {})


async def test_a_confirmation_refreshes_the_standing_advice_and_tells_the_owner_nothing(
    agent_graph: AgentGraph,
) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    advice = await agent_graph.advice(citations, "Ghana is cheap", "BUY", horizon="10 days")
    first, before = citations.split()[0], await told(agent_graph)
    because = f"It is cheaper still {first}."
    with pytest.raises(ToolRefusalError, match="because: cites nothing"):
        await review(agent_graph, advice, Review.CONFIRMS, "It is cheaper still.")
    with pytest.raises(ToolRefusalError, match="do not exist"):
        await review(agent_graph, advice, Review.CONFIRMS, f"It is cheaper [node:{uuid4()}].")
    with pytest.raises(ToolRefusalError, match="4,711"):
        await review(agent_graph, advice, Review.CONFIRMS, f"It costs 4,711 euros {first}.")
    with pytest.raises(ToolRefusalError, match=rf"no advice of this id stands.*{advice}"):
        await review(agent_graph, uuid4(), Review.CONFIRMS, because)
    await review(agent_graph, advice, Review.CONFIRMS, because)
    await review(agent_graph, advice, Review.CONFIRMS, because, confidence=0.9, horizon="60 days")
    assert await told(agent_graph) == before
    confirmed = await state(agent_graph, "Ghana is cheap")
    async with agent_graph.database.transaction() as session:
        today = (await agent_clock(agent_graph.scope.agent_id).execute(session)).today
        [item] = await session.scalars(select(InboxItem))
    # Everything is from one site.
    assert (confirmed.confidence, confirmed.confirmations) == (0.7, 2)
    assert confirmed.horizon == today + timedelta(days=60)
    assert confirmed.reason == "It is cheaper still."
    assert confirmed.sentence.endswith(", 2 times: It is cheaper still.")
    assert (item.resolved_at, item.read_at) == (None, None)


async def test_withdrawn_advice_no_longer_stands_and_nothing_takes_its_place(
    agent_graph: AgentGraph,
) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    advice = await agent_graph.advice(citations, "Ghana is cheap", "BUY")
    async with agent_graph.database.transaction() as session:
        await session.execute(update(InboxItem).values(read_at=func.clock_timestamp()))
    items, messages = await told(agent_graph)
    await review(agent_graph, advice, Review.WITHDRAWS, "The owner has none of it any more.")
    withdrawn = await state(agent_graph, "Ghana is cheap")
    assert withdrawn.state is PositionState.WITHDRAWN
    assert withdrawn.sentence.endswith(": The owner has none of it any more.")
    # The owner sees it again, and reads why in the conversation.
    assert await told(agent_graph) == [items, (messages or 0) + 1]
    async with agent_graph.database.transaction() as session:
        [item] = await session.scalars(select(InboxItem))
        message = await session.get_one(Message, ids.withdrawal_message_id(advice))
    assert (item.read_at, item.resolved_at) == (None, None)
    assert message.content.startswith("**Withdrawn: BUY: Ghana is cheap**")
    with pytest.raises(ToolRefusalError, match=r"no advice of this id stands\. These do: none"):
        await review(agent_graph, advice, Review.CONFIRMS, f"Yes, it is so {citations}.")
    await agent_graph.advice(citations, "Ghana is overvalued", "SELL")


async def test_two_steps_cannot_both_advise_on_a_subject(agent_graph: AgentGraph) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    first_has_written, second_waits = asyncio.Event(), asyncio.Event()

    async def advise(name: str, action: str, *, is_first: bool) -> None:
        if not is_first:
            await first_has_written.wait()
            second_waits.set()
        async with agent_graph.database.transaction() as session:
            await add_advice(
                session,
                run_of(agent_graph),
                name=name,
                action=action,
                summary="So.",
                content=citations,
                **ADVICE_TERMS,
            )
            if is_first:
                first_has_written.set()
                await second_waits.wait()

    results = await asyncio.gather(
        advise("Ghana is cheap", "BUY", is_first=True),
        advise("Ghana is overvalued", "SELL", is_first=False),
        return_exceptions=True,
    )
    assert results[0] is None
    assert "SELL contradicts advice that stands. BUY “Ghana is cheap”" in str(results[1])


async def test_two_pieces_of_advice_of_one_transaction_cannot_contradict_each_other(
    agent_graph: AgentGraph,
) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    async with agent_graph.database.transaction() as session:
        terms: dict[str, Any] = {"summary": "So.", "content": citations, **ADVICE_TERMS}
        await add_advice(session, agent_graph.scope, name="Ghana", action="BUY", **terms)
        with pytest.raises(ToolRefusalError, match="SELL contradicts"):
            await add_advice(
                session, agent_graph.scope, name="Ghana overvalued", action="SELL", **terms
            )


async def test_advice_in_doubt_leaves_its_place_for_good(agent_graph: AgentGraph) -> None:
    ghana = await agent_graph.node("Ghana")
    page = {"url": "https://togo.example/", "title": "Togo", "content": "Togo is a state."}
    await agent_graph.store_search_results({"results": [page]})
    togo = (
        await agent_graph.add_node("Togo", evidence=[EvidenceInput(page["url"], page["content"])])
    ).id
    of_ghana = (await cited(agent_graph, ghana, "Ghana")).split()
    of_togo = (await cited(agent_graph, togo, "Togo")).split()
    await agent_graph.advice(f"{of_ghana[0]} {of_togo[0]}", "Ghana is cheap", "BUY")
    async with agent_graph.database.transaction() as session:
        retraction = await retractions.retract_source(
            session, agent_graph.scope, page["url"], "made up"
        )
    await propagate_retractions(agent_graph.database)
    assert (await state(agent_graph, "Ghana is cheap")).state is PositionState.DOUBTED
    await agent_graph.advice(" ".join(of_ghana), "Ghana is overvalued", "SELL")
    async with agent_graph.database.transaction() as session:
        await retractions.restore_source(session, agent_graph.scope, retraction)
    await propagate_retractions(agent_graph.database)
    listed = await states(agent_graph)
    assert {name: each and each.state for name, each in listed.items()} == {
        "Ghana is cheap": PositionState.REPLACED,
        "Ghana is overvalued": PositionState.STANDING,
    }


async def test_when_subjects_are_merged_the_newer_position_stands_until_they_are_separate_again(
    agent_graph: AgentGraph,
) -> None:
    ghana, gold = await agent_graph.node("Ghana"), await agent_graph.node("Gold Coast")
    buy = await agent_graph.advice(await cited(agent_graph, ghana, "Ghana"), "Buy Ghana", "BUY")
    await agent_graph.advice(
        await cited(agent_graph, gold, "Gold Coast"), "Sell Gold Coast", "SELL"
    )
    merge = await merge_nodes(agent_graph, ghana, gold)
    older = await state(agent_graph, "Buy Ghana")
    assert (older.state, older.replaced_by, older.reason) == (
        PositionState.REPLACED,
        "Sell Gold Coast",
        WAS_MERGED,
    )
    newer = await state(agent_graph, "Sell Gold Coast")
    assert newer.state is PositionState.STANDING
    assert [each.id for each in newer.subject] == [ghana]
    with pytest.raises(ToolRefusalError, match="no advice of this id stands"):
        await review(agent_graph, buy, Review.CONFIRMS, "It still holds for all I know.")
    async with agent_graph.database.transaction() as session:
        assert await breaks(session, agent_graph.scope) == []
    await undo_merge(agent_graph, merge.id)
    listed = await states(agent_graph)
    assert {each and each.state for each in listed.values()} == {PositionState.STANDING}


async def test_after_a_withdrawal_what_stood_behind_it_since_a_merge_does_not_return(
    agent_graph: AgentGraph,
) -> None:
    ghana, gold = await agent_graph.node("Ghana"), await agent_graph.node("Gold Coast")
    await agent_graph.advice(await cited(agent_graph, ghana, "Ghana"), "Buy Ghana", "BUY")
    citations = await cited(agent_graph, gold, "Gold Coast")
    sell = await agent_graph.advice(citations, "Sell Gold Coast", "SELL")
    await merge_nodes(agent_graph, ghana, gold)
    await review(agent_graph, sell, Review.WITHDRAWS, "Nothing speaks for it any more.")
    listed = await states(agent_graph)
    assert {name: each and each.state for name, each in listed.items()} == {
        "Buy Ghana": PositionState.REPLACED,
        "Sell Gold Coast": PositionState.WITHDRAWN,
    }


async def _forget_positions(graph: AgentGraph) -> None:
    """As if an earlier version had written the advice."""
    async with graph.database.transaction() as session:
        await session.execute(delete(Position))


async def test_of_advice_of_earlier_versions_the_newest_on_a_subject_stands(
    agent_graph: AgentGraph,
) -> None:
    ghana, togo = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    citations = await cited(agent_graph, ghana, "Ghana")
    cheap = await agent_graph.advice(citations, "Ghana is cheap", "BUY")
    await agent_graph.advice(citations, "Ghana waits", "HOLD", replaces=[cheap], change=CHANGE)
    await agent_graph.advice(await cited(agent_graph, togo, "Togo"), "Togo", "BUY")
    await _forget_positions(agent_graph)
    assert set((await states(agent_graph)).values()) == {None}
    with pytest.raises(ToolRefusalError, match=r"SELL contradicts.*“Ghana waits”"):
        await agent_graph.advice(citations, "Ghana is overvalued", "SELL")
    clock, scope = AgentClock(datetime.now(UTC)), agent_graph.scope
    async with agent_graph.database.transaction() as session:
        known = await position_store.load_open(session, scope)
        lines = await position_store.load_lines(session, scope, clock, known)
    assert all('"invalidation": "' in line for line in lines.splitlines())
    assert all('"content": "' in line for line in lines.splitlines())
    assert [line.split("] ", 1)[1].split(";")[0] for line in lines.splitlines()] == [
        f'BUY "Togo" on "Togo" [node:{togo}]',
        f'HOLD "Ghana waits" on "Ghana" [node:{ghana}]',
    ]
    earlier = await state(agent_graph, "Ghana is cheap")
    assert (earlier.state, earlier.replaced_by, earlier.reason) == (
        PositionState.REPLACED,
        "Ghana waits",
        WAS_EARLIER,
    )
    async with agent_graph.database.transaction() as session:
        assert await breaks(session, agent_graph.scope) == []


async def test_positions_are_exported_and_imported(agent_graph: AgentGraph) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    buy = await agent_graph.advice(citations, "Ghana is cheap", "BUY")
    sell = await agent_graph.advice(
        citations, "Ghana is overvalued", "SELL", replaces=[buy], change=CHANGE
    )
    await review(agent_graph, sell, Review.CONFIRMS, f"It is so {citations.split()[0]}.")
    async with agent_graph.database.transaction() as session:
        await session.execute(
            update(Agent)
            .where(Agent.id == agent_graph.scope.agent_id)
            .values(actions={"STAY": "Change nothing."})
        )
    whole = EvidenceGraph(agent_graph, {}, {}, {})
    copy = await imported(whole, await exported(whole))
    kept = ("state", "confidence", "horizon", "confirmed_at", "confirmations", "ended_at", "reason")
    for scope in (agent_graph.scope, copy):
        async with agent_graph.database.transaction() as session:
            page = await queries.list_conclusions(session, scope, ADVICE_TYPE, PageRequest())
            agent = await session.get_one(Agent, scope.agent_id)
            assert await breaks(session, scope) == []
        assert agent.actions == {"STAY": "Change nothing."}
        found = {
            each.name: each.position.model_dump(include=set(kept))
            for each in page.items
            if each.position
        }
        if scope is agent_graph.scope:
            original = found
    assert found == original
    assert {name: each["state"] for name, each in found.items()} == {
        "Ghana is cheap": PositionState.REPLACED,
        "Ghana is overvalued": PositionState.STANDING,
    }


async def test_a_mail_says_first_that_advice_no_longer_stands(agent_graph: AgentGraph) -> None:
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    buy = await agent_graph.advice(citations, "Ghana is cheap", "BUY")

    async def mail() -> ItemData:
        async with agent_graph.database.transaction() as session:
            item = await session.get_one(InboxItem, ids.inbox_item_id(buy))
            node = await session.get_one(GraphNode, buy)
        message = build_message(item, "Watch", node, None, await state(agent_graph, node.name))
        assert isinstance(message.data, ItemData)
        return message.data

    standing = await mail()
    assert standing.position is not None
    assert mail_text(standing).startswith(f"{NOT_READ} Wait.\n\nStanding.\n")
    await review(agent_graph, buy, Review.WITHDRAWS, "Nothing speaks for it any more.")
    withdrawn = await mail()
    assert mail_text(withdrawn).startswith("Withdrawn on ")
    assert withdrawn.model_dump(mode="json")["position"]["state"] == "withdrawn"


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        (
            {"ended_at": None, "replaced_by": None, "reason": None},
            {"BUY and SELL", "SELL and BUY"},
        ),
        ({"ended_at": None}, {"it stands, although", "BUY and SELL", "SELL and BUY"}),
        ({"replaced_by": uuid4()}, {"the advice that replaces it does not exist"}),
        ({"reason": None}, {"nothing says why"}),
        ({"horizon": datetime(2050, 1, 1, tzinfo=UTC).date()}, {"is not what was advised"}),
        ({"confidence": 1}, {"is not what was advised"}),
    ],
)
async def test_verification_finds_a_state_that_the_rules_do_not_allow(
    agent_graph: AgentGraph, changes: dict[str, Any], faults: set[str]
) -> None:
    """The change is by Vigil's own connection, so that the journal does not show it."""
    citations = await cited(agent_graph, await agent_graph.node("Ghana"), "Ghana")
    buy = await agent_graph.advice(citations, "Ghana is cheap", "BUY")
    await agent_graph.advice(
        citations, "Ghana is overvalued", "SELL", replaces=[buy], change=CHANGE
    )
    async with agent_graph.database.transaction() as session:
        assert await breaks(session, agent_graph.scope) == []
        await session.execute(update(Position).where(Position.advice_id == buy).values(**changes))
    async with agent_graph.database.transaction() as session:
        found = await breaks(session, agent_graph.scope)
    assert {each.link for each in found} == {"position"}
    messages = [each.message for each in found]
    assert all(any(fault in message for message in messages) for fault in faults), messages
    assert len(messages) == len(faults)


@pytest.mark.parametrize(
    "conclusions",
    [60, pytest.param(500, marks=pytest.mark.slow)],
)
async def test_a_walk_never_leaves_two_positions_on_a_subject(
    agent_graph: AgentGraph, seed: int, conclusions: int
) -> None:
    with repeatable(seed):
        walk = PositionWalk(agent_graph, Random(seed))
        await walk.begin()
        while walk.conclusions < conclusions:
            await walk.step()
        assert walk.outcomes["advise"]
        assert walk.outcomes["advise refused"]
        assert conclusions < 500 or walk.outcomes["beside"]
        async with agent_graph.database.transaction() as session:
            assert await breaks(session, agent_graph.scope) == []
