"""Validity in time: the day comes without a call of a model, and contested values stand side by side."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select

from services.api.resources.sources.model import list_evidence, load_agreement
from shared.database.tables import (
    Evidence,
    GraphEdge,
    GraphNode,
    Iteration,
    Step,
    ValidityBoundary,
)
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.conclusions import conclusions
from shared.graph.conclusions.readings import ConclusionReadings, draft_of
from shared.graph.context.named import known_facts
from shared.graph.context.survey import build_survey, written_lines
from shared.graph.projection import EDGES, NODES, load_claims
from shared.graph.provenance.claims import current_claims, project_properties
from shared.graph.provenance.evidence import EvidenceInput, VerifiedQuote
from shared.graph.retrieval.query import load_elements, query_graph
from shared.graph.transfer import graphml
from shared.graph.transfer.file_reader import BadFileError
from shared.graph.validity import apply_boundaries
from shared.graph.verification.report import verify_conclusion
from shared.schemas.base import PageRequest
from shared.schemas.provenance import VerificationResponse
from tests.support.api.access import agent_access
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.graph.agent_graph import COUNTRY, AgentGraph
from tests.support.graph.descriptions import describe_nodes
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.moving_clock import set_day
from tests.support.graph.transfer import exported, imported, reseal
from tests.support.graph.verification import breaks
from tests.support.graph.walking import NAMES, PAGES, SENTENCES, Walk
from tests.support.marks import slow
from tests.support.seeds import repeatable

NOVEMBER: Final = date(2023, 11, 30)
NEW_YEAR: Final = date(2024, 1, 1)
STARTS: Final = datetime(2024, 1, 1, tzinfo=UTC)
ANNOUNCED: Final = "From 1 January 2024 there are 5 people in Ghana."


async def say(
    agent_graph: AgentGraph,
    people: int,
    published: str,
    site: str = "press",
    quote: str | None = None,
    **validity: Any,
) -> UUID:
    """Write Ghana's population from a page of its own."""
    quote = quote or f"There are {people} people in Ghana."
    url = f"https://{site}.example/{people}"
    page = {"url": url, "title": "Ghana", "content": quote, "published_date": published}
    await agent_graph.store_search_results({"results": [page]})
    evidence = [replace(EvidenceInput(url, quote), **validity)]
    return (await agent_graph.add_node("Ghana", {**COUNTRY, "population": people}, evidence)).id


async def say_capital(agent_graph: AgentGraph) -> None:
    """From a page that is newer than those of the population."""
    quote, url = "The capital of Ghana is Accra.", "https://five.example/"
    page = {"url": url, "title": "Ghana", "content": quote, "published_date": "2023-11-28"}
    await agent_graph.store_search_results({"results": [page]})
    properties = {**COUNTRY, "capital": "Accra"}
    await agent_graph.add_node("Ghana", properties, [EvidenceInput(url, quote)])


async def people_of(agent_graph: AgentGraph, node_id: UUID) -> Any:
    async with agent_graph.database.transaction() as session:
        return (await session.get_one(GraphNode, node_id)).properties.get("population")


async def faults_of(agent_graph: AgentGraph) -> list[Any]:
    async with agent_graph.database.snapshot() as session:
        return await breaks(session, agent_graph.scope)


async def shown(agent_graph: AgentGraph, node_id: UUID) -> tuple[str, str, str | None]:
    """What the Observer, the Researcher and the tool `queryGraph` are shown of the node."""
    async with agent_graph.database.transaction() as session:
        survey = await build_survey(session, agent_graph.scope, StepKind.OBSERVE)
        known = await known_facts(agent_graph.scope, "How many people has Ghana?").execute(session)
        answer = await query_graph(session, agent_graph.scope, ids=[node_id])
    return survey, known, answer["nodes"][0].get("beside")


@pytest.fixture
async def announced(agent_graph: AgentGraph) -> AgentGraph:
    await set_day(agent_graph, NOVEMBER)
    await say(agent_graph, 4, "2023-02-01")
    await say(agent_graph, 5, "2023-11-20", quote=ANNOUNCED, valid_from=STARTS)
    return agent_graph


async def ghana(agent_graph: AgentGraph) -> UUID:
    async with agent_graph.database.transaction() as session:
        return (await session.scalars(select(GraphNode.id).where(GraphNode.name == "Ghana"))).one()


async def test_an_upcoming_value_stands_beside_the_present_one(announced: AgentGraph) -> None:
    node_id = await ghana(announced)
    assert await people_of(announced, node_id) == 4
    survey, known, beside = await shown(announced, node_id)
    assert beside == "population from 2024-01-01: 5"
    assert '"population": 4} 2023-11-20; population from 2024-01-01: 5' in survey
    assert known.endswith('"population": 4} population from 2024-01-01: 5')
    async with announced.database.transaction() as session:
        relevant = await describe_nodes(session, announced.scope, [node_id])
    assert relevant.endswith("; population from 2024-01-01: 5)"), "as the Analyzer is shown it"
    async with announced.database.transaction() as session:
        access = agent_access(session, announced.scope)
        agreement = (await load_agreement(access, NODES, node_id))["population"]
        listed = await list_evidence(access, NODES, node_id, PageRequest())
    [upcoming] = agreement.upcoming
    assert (upcoming.value, upcoming.begins, upcoming.quote) == (5, STARTS, ANNOUNCED)
    assert {
        (claim.value, claim.holds, claim.upcoming)
        for each in listed.items
        for claim in each.claims
        if claim.property == "population"
    } == {(4, True, False), (5, False, True)}
    assert await faults_of(announced) == []


async def test_json_lines_have_what_stands_beside_values_and_an_import_keeps_it(
    announced: AgentGraph,
) -> None:
    node_id = await ghana(announced)
    file = await exported(EvidenceGraph(announced))
    [line] = [json.loads(each)["node"] for each in file.splitlines() if b'{"node"' in each]
    assert (line["id"], line["beside"]) == (str(node_id), "population from 2024-01-01: 5")
    copy = replace(announced, scope=await imported(EvidenceGraph(announced), file, "Copy"))
    again = await exported(EvidenceGraph(copy))
    assert again.count(b'"beside":"population from 2024-01-01: 5"') == 1
    assert await faults_of(copy) == []


@pytest.mark.parametrize("is_passing", [True, False])
async def test_the_day_comes_without_a_model(announced: AgentGraph, is_passing: bool) -> None:
    node_id = await ghana(announced)
    await apply_boundaries(announced.database)
    assert await people_of(announced, node_id) == 4
    await set_day(announced, NEW_YEAR, is_passing=is_passing)
    # Until the next look, the graph is as it was, and that is no fault.
    assert await people_of(announced, node_id) == 4
    assert await faults_of(announced) == []
    await apply_boundaries(announced.database)
    assert await people_of(announced, node_id) == 5
    survey, _, beside = await shown(announced, node_id)
    assert beside is None
    assert '- Country "Ghana" population: 4 (2023-02-01), now 5 (2024-01-01)' in survey
    assert await faults_of(announced) == []
    async with announced.database.transaction() as session:
        waiting = select(func.count()).where(ValidityBoundary.due_at.is_not(None))
        assert await session.scalar(waiting) == 0
    # The owner sets the date back.
    await set_day(announced, NOVEMBER, is_passing=False)
    assert await faults_of(announced) == []
    await apply_boundaries(announced.database)
    assert await people_of(announced, node_id) == 4
    assert await faults_of(announced) == []


async def test_what_has_ended_gives_way_or_is_shown_as_ended(agent_graph: AgentGraph) -> None:
    await set_day(agent_graph, NOVEMBER)
    node_id = await say(
        agent_graph,
        4,
        "2023-11-01",
        quote="Until 2023 there are 4 people in Ghana.",
        valid_to=STARTS,
    )
    await set_day(agent_graph, NEW_YEAR)
    await apply_boundaries(agent_graph.database)
    assert await people_of(agent_graph, node_id) == 4
    *_, beside = await shown(agent_graph, node_id)
    assert beside == "ended 2023-12-31"
    await say(agent_graph, 3, "2023-02-01")
    assert await people_of(agent_graph, node_id) == 3
    *_, beside = await shown(agent_graph, node_id)
    assert beside is None
    assert await faults_of(agent_graph) == []


async def test_an_edge_that_begins_later_is_shown_with_its_day(agent_graph: AgentGraph) -> None:
    await agent_graph.store_search_results()
    ghana_id, togo_id = await agent_graph.node("Ghana"), await agent_graph.node("Togo")
    await set_day(agent_graph, NOVEMBER)
    quote, url = "From 1 January 2024, Ghana borders Togo.", "https://press.example/edge"
    page = {"url": url, "title": "", "content": quote, "published_date": "2023-11-20"}
    await agent_graph.store_search_results({"results": [page]})
    entry = EvidenceInput(url, quote, valid_from=STARTS)
    edge = await agent_graph.add_edge(ghana_id, togo_id, {}, [entry])
    for day, expected in ((NOVEMBER, "only from 2024-01-01"), (NEW_YEAR, None)):
        await set_day(agent_graph, day)
        async with agent_graph.database.transaction() as session:
            _, [shown_edge] = await load_elements(session, agent_graph.scope, [], [edge.id])
            relevant = await describe_nodes(session, agent_graph.scope, [ghana_id])
        assert shown_edge.get("beside") == expected
        assert ("only from 2024-01-01)" in relevant) is bool(expected)


async def test_contested_values_stand_side_by_side(agent_graph: AgentGraph) -> None:
    await say(agent_graph, 4, "2023-11-20", "one")
    await say(agent_graph, 5, "2023-11-20", "two")
    await say(agent_graph, 5, "2023-11-20", "three")
    node_id = await say(agent_graph, 3, "2023-11-10", "four")
    # What is newer of another property changes nothing.
    await say_capital(agent_graph)
    survey, known, beside = await shown(agent_graph, node_id)
    assert beside == ("contested population: 5 (2 origins, 2023-11-20) or 4 (1 origin, 2023-11-20)")
    assert beside in survey
    assert beside in known
    async with agent_graph.database.transaction() as session:
        access = agent_access(session, agent_graph.scope)
        agreement = (await load_agreement(access, NODES, node_id))["population"]
    others = [(each.value, each.origins, each.contested) for each in agreement.others]
    assert others == [(4, 1, True), (3, 1, False)]


async def test_an_analyzer_is_shown_an_announcement_of_its_iteration(
    agent_graph: AgentGraph,
) -> None:
    await set_day(agent_graph, NOVEMBER)
    await say(agent_graph, 4, "2023-02-01")
    iteration, query = uuid4(), uuid4()
    of_agent = {"agent_id": agent_graph.scope.agent_id}
    async with agent_graph.database.transaction() as session:
        await session.insert(
            Iteration, id=iteration, number=1, why="due", deadline_at=STARTS, **of_agent
        )
        values = {"id": query, "iteration_id": iteration, "kind": StepKind.QUERY, "index": 0}
        await session.insert(Step, **values, **of_agent, status=StepStatus.COMPLETED)
    scope = replace(agent_graph.scope, iteration_id=iteration, step_id=query)
    writer = replace(agent_graph, scope=scope)
    node_id = await say(writer, 5, "2023-11-20", quote=ANNOUNCED, valid_from=STARTS)
    lines = await agent_graph.database.run(written_lines(scope))
    assert lines.startswith(f'- [node:{node_id}] Country "Ghana" ')
    assert lines.endswith("; population from 2024-01-01: 5")


async def test_both_sides_reach_the_reader_of_a_conclusion(announced: AgentGraph) -> None:
    """Also if the conclusion states one of them as a fact, and so does what it announces."""
    await say(announced, 6, "2023-02-01", "two")
    node_id = await ghana(announced)
    draft = draft_of(
        announced.scope,
        ANALYSIS_TYPE,
        "People",
        summary="It has 6 people.",
        content=f"It has 6 people, then 5 [node:{node_id}].",
    )
    readings = ConclusionReadings(announced.scope)
    readings.collect()
    readings.add(draft)
    async with announced.database.transaction() as session:
        material = await readings.load_material(session)
    assert material is not None
    claims = {each.text: each.passage for each in material.claims}
    beside = (
        "contested population: 6 (1 origin, 2023-02-01) or 4 (1 origin, 2023-02-01);"
        " population from 2024-01-01: 5"
    )
    assert claims[f'Country "Ghana": {beside}'] == ""
    [announcement] = [text for text in claims if "(from 2024-01-01)" in text]
    assert claims[announcement] == f"»{ANNOUNCED}«"


async def test_verify_shows_what_stands_beside_a_proof_that_stays(agent_graph: AgentGraph) -> None:
    await set_day(agent_graph, NOVEMBER)
    node_id = await say(agent_graph, 4, "2023-02-01")
    async with agent_graph.database.transaction() as session:
        analysis_id = await conclusions.add_analysis(
            session,
            agent_graph.scope,
            name="People",
            kind="observation",
            summary="It has people.",
            content=f"Ghana has 4 people [node:{node_id}].",
            **ANALYSIS_TERMS,
        )
    first = (await verified(agent_graph, analysis_id)).conclusions[0]
    assert first.since.beside == []
    await say(agent_graph, 6, "2023-02-01", "two")
    await say(agent_graph, 5, "2023-11-20", quote=ANNOUNCED, valid_from=STARTS)
    text = (
        "Ghana: contested population: 6 (1 origin, 2023-02-01) or 4 (1 origin, 2023-02-01);"
        " population from 2024-01-01: 5"
    )
    later = (await verified(agent_graph, analysis_id)).conclusions[0]
    assert later.since.beside == [text]
    assert (later.since.newer, later.since.contradicts) == (1, 1)
    await set_day(agent_graph, NEW_YEAR)
    await apply_boundaries(agent_graph.database)
    changed = (await verified(agent_graph, analysis_id)).conclusions[0]
    assert changed.since.beside == []
    for each in (later, changed):
        assert [(row.stated, row.value, row.quote) for row in each.proof] == [
            (row.stated, row.value, row.quote) for row in first.proof
        ]


async def verified(agent_graph: AgentGraph, conclusion_id: UUID) -> VerificationResponse:
    async with agent_graph.database.snapshot() as session:
        report = await verify_conclusion(session, agent_graph.scope.owner_id, conclusion_id)
    assert report is not None
    return report


async def test_exports_show_what_stands_beside(announced: AgentGraph) -> None:
    await say(announced, 6, "2023-02-01", "two")
    file = await exported(EvidenceGraph(announced), graphml.export_graphml)
    text = "contested population: 6 (1 origin, 2023-02-01) or 4 (1 origin, 2023-02-01); population from 2024-01-01: 5"
    assert text in file.decode()


async def test_an_export_of_an_earlier_release_is_projected_again(
    agent_graph: AgentGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a release has let the announcement replace the present value at once."""
    await set_day(agent_graph, NOVEMBER)
    claim = VerifiedQuote.claim
    with monkeypatch.context() as earlier:
        earlier.setattr(
            VerifiedQuote,
            "claim",
            lambda quote, of: replace(claim(quote, of), valid_from=None, valid_to=None),
        )
        await say(agent_graph, 4, "2023-02-01")
        await say(agent_graph, 5, "2023-11-20", quote=ANNOUNCED, valid_from=STARTS)
    lines = (await exported(EvidenceGraph(agent_graph))).splitlines(True)
    head = lines[0].replace(b'"now":"2023-11-30T23:59:59.999999Z",', b"")
    assert head != lines[0]
    file = reseal([head, *lines[1:]])
    with pytest.raises(BadFileError, match="its population is not what its evidence says"):
        await imported(EvidenceGraph(agent_graph), reseal(lines), "changed")
    scope = await imported(EvidenceGraph(agent_graph), file, "copy")
    copy = AgentGraph(agent_graph.database, scope, agent_graph.validators)
    for people in (5, 4):
        async with copy.database.transaction() as session:
            of_copy = GraphNode.agent_id == scope.agent_id
            [node] = await session.scalars(select(GraphNode).where(of_copy))
        assert node.properties["population"] == people
        assert await faults_of(copy) == []
        await apply_boundaries(copy.database)


class ClockWalk(Walk):
    """A walk during which the agent's clock moves, and what is written has an end too."""

    day: date = date(2020, 7, 1)

    async def begin(self) -> None:
        await set_day(self.agent_graph, self.day)
        await super().begin()

    async def read_pages(self) -> None:
        for number, url in enumerate(PAGES):
            page = {"url": url, "title": ", ".join(NAMES), "content": "\n".join(SENTENCES)}
            if number % 2:
                page["published_date"] = f"2020-0{number + 1}-01"
            await self.agent_graph.store_search_results({"results": [page]})

    @property
    def _actions(self) -> list[tuple[Any, int]]:
        return [*super()._actions, (self.move_clock, 6), (self.apply, 4)]

    async def move_clock(self) -> None:
        """Mostly forward; backward only as an owner does it."""
        days = self.chance.choice([1, 40, 200, 400, -200])
        self.day = min(max(self.day + timedelta(days=days), date(2020, 7, 1)), date(2025, 6, 1))
        await set_day(
            self.agent_graph, self.day, is_passing=days > 0 and self.chance.random() < 0.8
        )

    async def apply(self) -> None:
        await apply_boundaries(self.agent_graph.database, at_once=self.chance.randint(1, 9))

    def _evidence_input(self) -> EvidenceInput:
        start, end = sorted(self.chance.sample(range(2020, 2031), 2))
        moments = [datetime(year, 1, 1, tzinfo=UTC) for year in (start, end)]
        entry = super()._evidence_input()
        return EvidenceInput(
            entry.source_url,
            entry.quote,
            valid_from=self.chance.choice([None, moments[0]]),
            valid_to=self.chance.choice([None, None, moments[1]]),
        )

    async def check(self) -> None:
        """After all is applied: a fresh projection, a present value that holds, and nothing that is lost."""
        async with self.agent_graph.database.snapshot() as session:
            evidence = await session.scalar(select(func.count()).select_from(Evidence))
            loaded = 0
            for kind, table in ((NODES, GraphNode), (EDGES, GraphEdge)):
                rows: Sequence[Any] = (await session.scalars(select(table))).all()
                for row in rows:
                    known = (await load_claims(session, kind, [row.id]))[row.id]
                    loaded += len(known.claims)
                    if not known.claims:
                        continue
                    assert row.properties == project_properties(
                        row.properties, known.claims, known.now
                    ), row.id
                    active = [claim for claim in known.claims if not claim.is_retracted]
                    for name, claim in current_claims(active, known.now).items():
                        others = [each for each in active if name in each.values]
                        if any(each.holds(known.now) for each in others):
                            assert claim.holds(known.now), (row.id, name)
            assert loaded == evidence


@pytest.mark.parametrize("steps", [60, *slow(200)])
async def test_no_walk_leaves_a_value_that_another_moment_had(
    agent_graph: AgentGraph, seed: int, steps: int
) -> None:
    """Writes with validity, merges, retractions and a moving clock at random."""
    with repeatable(seed):
        walk = ClockWalk(agent_graph, Random(seed))
        await walk.begin()
        for number in range(steps):
            action = await walk.step()
            if number % 3 == 0:
                faults = [
                    each for each in await faults_of(agent_graph) if each.broken != "retracted"
                ]
                assert faults == [], f"after step {number}: {action}"
                await apply_boundaries(agent_graph.database)
                await walk.check()
