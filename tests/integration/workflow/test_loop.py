"""The whole loop: from a mission to analyses that cite the graph, and the owner's feedback."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import ColumnElement, func, select, text, update

from cli.local.postgres import EmbeddedPostgres
from sandbox.settings import SandboxSettings
from services.observer.news import watched_query
from shared.agents import feedback
from shared.billing import budgets, resumable_call
from shared.billing.budgets import Caps
from shared.database.engine import Database
from shared.database.signing import JournalSigner
from shared.database.tables import (
    Agent,
    Call,
    Evidence,
    GraphEdge,
    GraphJournal,
    GraphNode,
    InboxItem,
    Interaction,
    Source,
    Step,
)
from shared.database.transaction import Transaction
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    CallKind,
    InboxKind,
    InboxOutcome,
    IterationStatus,
    Phase,
    StepKind,
    StepStatus,
)
from shared.events.codec import decode
from shared.events.models import IterationCompleted
from shared.graph import system_types
from shared.graph.conclusions import conclusions
from shared.graph.conclusions.citations import parse_citations
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Claim, project_properties
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.graph.verification.journal import check_signatures, load_entries
from shared.llm.phase_run_store import load_requests
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.workflow import investigations, iterations
from shared.workflow.investigations import MissingData
from tests.support.engines import Postgres
from tests.support.factories import make_agent, make_iteration
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.golden.missions import MISSIONS
from tests.support.golden.recorded_services import recorded_services
from tests.support.graph.history import read_journal
from tests.support.graph.mutations import MUTATIONS, name_of
from tests.support.graph.random_rows import Chance
from tests.support.graph.verification import breaks
from tests.support.mission import Mission
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox.server import running_sandbox
from tests.support.sandbox_control import Sandbox
from tests.support.seeds import repeatable
from tests.support.signing import new_signing_key
from tests.support.stored_dead_letters import stream_payloads
from tests.support.table_rows import change
from tests.support.waiting import wait_until


async def request_run(database: Database, agent: Agent) -> None:
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row = await change(session, row, run_requested_at=await iterations.database_time(session))


def assert_contexts_are_shared(steps: Sequence[Step], runs: Sequence[Interaction]) -> None:
    """All steps of a kind are given the same context in an iteration, and other kinds another one."""
    kinds = {step.id: step.kind for step in steps}
    contexts: dict[tuple[UUID | None, str], set[bytes | None]] = defaultdict(set)
    for run in runs:
        assert run.step_id is not None
        contexts[run.iteration_id, kinds[run.step_id]].add(run.context_sha256)
    for (iteration_id, kind), hashes in contexts.items():
        assert len(hashes) == 1, f"the steps of kind {kind} saw {len(hashes)} contexts"
        if kind != StepKind.OBSERVE:
            assert hashes != contexts[iteration_id, StepKind.OBSERVE]


def assert_journal_names_steps(
    journal: Sequence[GraphJournal], elements: Sequence[GraphNode | GraphEdge]
) -> None:
    """The first entry that names an element is of the step that created it."""
    creators: dict[UUID, UUID | None] = {}
    for entry in journal:
        for element_id in entry.changed:
            creators.setdefault(element_id, entry.step_id)
    assert creators == {element.id: element.step_id for element in elements}


@pytest.mark.parametrize("model_api", ["chat", "background"])
async def test_two_iterations_learn_and_conclude(
    sandbox_settings: Settings,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    model_api: str,
) -> None:
    monkeypatch.setattr(resumable_call, "FIRST_POLL_SECONDS", 0.02)
    agent = await make_agent(database)
    async with running_services(sandbox_settings.model_copy(update={"model_api": model_api})):
        first = await ended_iteration(database, agent, 1)
        await request_run(database, agent)
        second = await ended_iteration(database, agent, 2)
    assert (first.status, first.errors) == (IterationStatus.COMPLETED, [])
    assert (second.status, second.why, second.errors) == (IterationStatus.COMPLETED, "run_now", [])
    async with database.transaction() as session:
        nodes = list(await session.scalars(select(GraphNode)))
        edges = list(await session.scalars(select(GraphEdge)))
        steps = list(await session.scalars(select(Step)))
        references = list(
            await session.scalars(select(Call.provider_ref).where(Call.kind == CallKind.LLM))
        )
        runs = list(await session.scalars(select(Interaction)))
        unanswered = await session.scalar(
            select(func.count()).select_from(Call).where(Call.answered_at.is_(None))
        )
        journal = await read_journal(session, agent.id)
        unfinished = await session.scalar(
            select(func.count()).select_from(Interaction).where(Interaction.completed_at.is_(None))
        )
    assert all(step.status == StepStatus.COMPLETED for step in steps)
    assert {step.kind for step in steps} >= {StepKind.OBSERVE, StepKind.QUERY, StepKind.INSIGHT}
    assert {run.phase for run in runs} >= {
        Phase.OBSERVER,
        Phase.KNOWLEDGE_ACQUISITION,
        Phase.GRAPH_CONSTRUCTION,
    }
    assert (unanswered, unfinished) == (0, 0)
    assert_contexts_are_shared(steps, runs)
    assert_journal_names_steps(journal, [*nodes, *edges])
    roots = [entry.hash for entry in journal]
    assert [first.graph_root in roots, second.graph_root] == [True, roots[-1]]
    assert {reference is not None for reference in references} == {model_api == "background"}
    assert edges
    ids = {node.id for node in nodes} | {edge.id for edge in edges}
    analyses = [node for node in nodes if node.type == ANALYSIS_TYPE]
    assert analyses
    for analysis in analyses:
        citations = parse_citations(analysis.properties["content"])
        assert citations.ids()
        assert set(citations.ids()) <= ids


async def test_services_with_a_key_sign_what_they_write(
    sandbox_settings: Settings, database: Database, bus: Bus, tmp_path: Path
) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(new_signing_key())
    agent = await make_agent(database)
    settings = sandbox_settings.model_copy(update={"signing_key_file": path})
    async with running_services(settings):
        ended = await ended_iteration(database, agent, 1)
    async with database.snapshot() as session:
        scope = GraphScope(agent.owner_id, agent.id)
        entries = await load_entries(session, scope, 0, 1000)
    faults = check_signatures(scope, entries, JournalSigner.load(path))
    assert faults == []
    assert len(entries) > 3
    # The test itself has no key.
    assert {entry.writer for entry in entries if entry.signature is None} <= {"vigil-test"}
    [payload] = await stream_payloads(bus, "iteration.completed")
    completed = decode(payload)
    assert isinstance(completed, IterationCompleted)
    assert ended.graph_root is not None
    assert completed.graph_root == ended.graph_root.hex()


ROUNDS: Final = 2
"""How often each kind of mutation is made, unless $VIGIL_TEST_SEEDS sets it."""


@pytest.fixture
async def agent(database: Database, sandbox_settings: Settings) -> Agent:
    """An agent after its first iteration."""
    created = await make_agent(
        database, mission="Watch Halden Energy, Kestrel Cells and their suppliers of lithium"
    )
    async with running_services(sandbox_settings):
        await ended_iteration(database, created, 1)
    return created


async def test_all_nodes_and_edges_are_supported_by_pages(agent: Agent, database: Database) -> None:
    async with database.transaction() as session:
        nodes = [
            node
            for node in await session.scalars(select(GraphNode))
            if node.type not in RESERVED_TYPES
        ]
        edges = [edge for edge in await session.scalars(select(GraphEdge)) if edge.type != "about"]
        assert len(nodes) >= 5
        assert len(edges) >= 3
        for node in nodes:
            ids = await _assert_supported(session, Evidence.node_id == node.id, node.properties)
            assert node.seal == integrity.node_seal(
                node_id=node.id,
                agent_id=agent.id,
                type_name=node.type,
                name=node.name,
                properties=node.properties,
                evidence=ids,
            )
        for edge in edges:
            ids = await _assert_supported(session, Evidence.edge_id == edge.id, edge.properties)
            assert edge.seal == integrity.edge_seal(
                edge_id=edge.id,
                agent_id=agent.id,
                type_name=edge.type,
                source_id=edge.source_id,
                target_id=edge.target_id,
                properties=edge.properties,
                evidence=ids,
            )


@pytest.mark.slow
async def test_every_unauthorized_change_of_the_graph_is_detected(
    agent: Agent, database: Database, seed: int, seeds_wanted: int | None
) -> None:
    scope, random = GraphScope(agent.owner_id, agent.id), Random(seed)
    async with database.transaction() as session:
        node = await session.scalar(select(GraphNode.id).where(GraphNode.agent_id == agent.id))
        edge = await session.scalar(select(GraphEdge.id).where(GraphEdge.agent_id == agent.id))
        analyses = [
            await conclusions.add_analysis(
                session,
                scope,
                name=name,
                kind="observation",
                summary="It is so.",
                content=f"It is so [node:{node}], as [edge:{edge}] says.",
                **ANALYSIS_TERMS,
            )
            for name in ("So it is", "And so it is, too")
        ]
        await conclusions.add_advice(
            session,
            scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=f"As it is so {' '.join(f'[node:{analysis}]' for analysis in analyses)}.",
            **ADVICE_TERMS,
        )
    mutation_counts, detection_counts = Counter[str](), Counter[str]()
    with repeatable(seed):
        for mutation in [*MUTATIONS] * (seeds_wanted or ROUNDS):
            async with database.transaction() as session:
                assert await breaks(session, scope) == [], "intact"
                await mutation(Chance(session, random, agent.id))
                mutation_counts[name_of(mutation)] += 1
                detection_counts[name_of(mutation)] += bool(await breaks(session, scope))
                await session.rollback()
    assert detection_counts == mutation_counts
    print(
        f"{detection_counts.total()} of {mutation_counts.total()} mutations detected, of {len(mutation_counts)} kinds"
    )


async def test_no_tool_call_of_the_sandbox_is_refused(agent: Agent, database: Database) -> None:
    async with database.transaction() as session:
        runs = await session.scalars(
            select(Interaction.events).where(Interaction.phase == Phase.GRAPH_CONSTRUCTION)
        )
        results: list[Json] = [
            event["result"] for events in runs for event in events if "result" in event
        ]
    assert len(results) > 10
    assert [result["error"] for result in results if "error" in result] == []


async def _assert_supported(
    session: Transaction, condition: ColumnElement[bool], properties: Json
) -> list[UUID]:
    """Asserts that its quotes are in their pages and its properties follow from them; returns the ids of its evidence."""
    rows = (
        await session.execute(
            select(Evidence, Source).join(Source, Source.id == Evidence.source_id).where(condition)
        )
    ).all()
    assert rows
    for evidence, source in rows:
        quote = source.text.encode()[evidence.first_byte : evidence.end_byte]
        assert integrity.sha256(quote) == evidence.quote_sha256
        assert integrity.sha256(source.text) == source.sha256
    claims = [
        Claim(
            *(evidence.id, evidence.claims, evidence.as_of, evidence.learned_at),
            url=source.url,
            valid_from=evidence.valid_from,
            valid_to=evidence.valid_to,
        )
        for evidence, source in rows
    ]
    assert project_properties({}, claims, datetime.now(UTC)) == properties
    return [evidence.id for evidence, _ in rows]


ARCHIVE: Final = date(2026, 3, 1)
"""Two of the four documents of the mission were published later."""
LATER: Final = ("https://cocoa.example/brabant", "https://cocoa.example/lindqvist")
[COCOA] = [mission for mission in MISSIONS if mission.name == "cocoa"]
PHASES: Final = set(Phase) - {Phase.CONFIGURATION, Phase.CONVERSATION}


async def test_the_news_of_a_feed_begins_a_week_before_the_archive_date(
    database: Database,
) -> None:
    agent = await make_agent(database)
    scope = GraphScope(agent.owner_id, agent.id)
    feed = watched_query(scope, 10, "https://corpus.local/feed.xml")
    watching = await database.run(feed)
    assert (watching.archive_date, watching.new_since) == (None, agent.created_at)
    async with database.transaction() as session:
        await session.update(Agent, agent.id, archive_date=ARCHIVE)
    watching = await database.run(feed)
    assert watching.archive_date == ARCHIVE
    assert watching.new_since is not None
    assert watching.new_since.date() == date(2026, 2, 22)


async def test_every_phase_works_on_the_archive_date(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    agent = await make_agent(database, mission=COCOA.text)
    async with database.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row = await change(session, row, archive_date=ARCHIVE)
        await system_types.ensure_system_types(session, agent.id)
    corpus = tmp_path / "corpus"
    COCOA.write_corpus(corpus)
    async with running_sandbox(SandboxSettings(port=0, corpus=str(corpus))) as url:
        settings = Settings.model_validate(
            {
                "database_url": database_url,
                "openai_api_key": SecretStr("sandbox"),
                "openai_base_url": f"{url}/v1",
                "tavily_api_key": SecretStr("sandbox"),
                "tavily_base_url": url,
                "model": "sandbox-reader",
            }
        )
        async with recorded_services(database, settings) as services:
            for _ in range(2):
                await services.run_iteration(agent)
            requests = services.recording.requests
    assert {request.phase for request in requests} == PHASES
    real_day = f"{datetime.now(UTC):%Y-%m-%d}"
    for sent in requests:
        messages = [str(message.get("content") or "") for message in sent.request.messages]
        # A reader compares texts, for which the day does not count.
        if sent.phase is not Phase.VERIFICATION:
            assert messages[1].endswith("\n\nNow: 2026-03-01T23:59Z"), sent.step.title
        assert not [text for text in messages for url in LATER if url in text], sent.step.title
        assert real_day not in "\n".join(messages), sent.step.title
    async with database.transaction() as session:
        published = (await session.scalars(select(Source.published))).all()
        conclusions = await session.scalars(
            select(GraphNode).where(GraphNode.type.in_((ANALYSIS_TYPE, ADVICE_TYPE)))
        )
        generated = {node.properties["generated_at"] for node in conclusions}
    assert published
    assert all(day is not None and day.date() <= ARCHIVE for day in published)
    assert generated == {"2026-03-01T23:59:59Z"}


REASON = "We cannot buy before June"
INFORMED = {Phase.OBSERVER, Phase.ANALYSIS_GENERATION, Phase.ADVICE_GENERATION}


async def test_feedback_is_shown_to_the_phases_that_plan_and_conclude(
    sandbox_settings: Settings, database: Database, sandbox: str
) -> None:
    mission = await Mission.begin(database, Sandbox(sandbox), "feedback")
    async with database.transaction() as session:
        await session.insert(
            InboxItem,
            id=uuid4(),
            owner_id=mission.agent.owner_id,
            agent_id=mission.agent.id,
            kind=InboxKind.ADVICE,
            title="BUY: Buy Orran",
            summary="",
            outcome=InboxOutcome.DISMISSED,
            useful=False,
            feedback=REASON,
            answered_at=datetime(2026, 3, 2, tzinfo=UTC),
        )
    async with running_services(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
    async with database.transaction() as session:
        runs = (await session.scalars(select(Interaction))).all()
        requests = await load_requests(session, runs)
    line = f'- 2026-03-02, dismissed, not useful: "BUY: Buy Orran". Owner: "{REASON}"'
    phases = {Phase(run.phase) for run in runs}
    assert phases >= INFORMED
    for run in runs:
        text = requests[run.id]["messages"][-1]["content"]
        shown = f"<owner_feedback>\n{line}\n</owner_feedback>\n\n{feedback.RULE}" in text
        assert shown == (run.phase in INFORMED), run.phase


async def test_only_answered_advice_is_feedback_the_newest_first(database: Database) -> None:
    agent = await make_agent(database, name="answered")
    rows: list[tuple[str, InboxKind, dict[str, Any], int]] = [
        ("old", InboxKind.ADVICE, {"outcome": InboxOutcome.ACCEPTED}, 1),
        ("new", InboxKind.ADVICE, {"useful": True}, 2),
        ("reopened", InboxKind.ADVICE, {}, 3),
        ("notice", InboxKind.NOTICE, {"outcome": InboxOutcome.DISMISSED}, 4),
    ]
    async with database.transaction() as session:
        for title, kind, values, day in rows:
            await session.insert(
                InboxItem,
                id=uuid4(),
                owner_id=agent.owner_id,
                agent_id=agent.id,
                kind=kind,
                title=title,
                summary="",
                answered_at=datetime(2026, 3, day, tzinfo=UTC),
                **values,
            )
    async with database.transaction() as session:
        found = await feedback.list_feedback(agent.id).execute(session)
        assert await feedback.list_feedback(uuid4()).execute(session) == []
    assert [each.title for each in found] == ["new", "old"]


AGENTS = 2


@pytest.fixture
def written(postgres: Postgres) -> Callable[[], str]:
    """Return lines that the server logs during the test; the tests of this process use it one after another."""
    if not isinstance(postgres, EmbeddedPostgres):
        pytest.skip("the log of a container is not a file")
    log, before = postgres.log, postgres.log.stat().st_size
    return lambda: log.read_bytes()[before:].decode(errors="replace")


async def test_iterations_and_refused_budgets_cause_no_error(
    sandbox_settings: Settings, database: Database, written: Callable[[], str]
) -> None:
    agents = [await make_agent(database, name=f"Watch {number}") for number in range(AGENTS)]
    async with running_services(sandbox_settings):
        for number in (1, 2):
            for agent in agents:
                await ended_iteration(database, agent, number)
            await run_again(database)
        for agent in agents:
            await ended_iteration(database, agent, 3)
        async with database.transaction() as session:
            await budgets.cap_agent(session, agents[0].id, Caps(calls_per_day=1))
        await run_again(database)
        await until_suspended(database, agents[0])
        for agent in agents[1:]:
            await ended_iteration(database, agent, 4)
        async with database.transaction() as session:
            await budgets.cap_installation(session, Caps(calls_per_day=1))
        await run_again(database)
        for agent in agents[1:]:
            await until_suspended(database, agent)
    faults = [line for line in written().splitlines() if "ERROR" in line or "FATAL" in line]
    assert faults == []


async def run_again(database: Database) -> None:
    async with database.transaction() as session:
        now = await iterations.database_time(session)
        await session.execute(update(Agent).values(run_requested_at=now))


async def until_suspended(database: Database, agent: Agent) -> None:
    async def look() -> bool:
        async with database.transaction() as session:
            return (await session.get_one(Agent, agent.id)).suspended_until is not None

    await wait_until(look, what=f"a refused budget to suspend {agent.name}", seconds=60)


async def test_investigation_requests_are_read_after_a_later_migration(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    iteration = started.iteration
    async with database.transaction() as session:
        await investigations.create_request(
            iteration.agent_id,
            iteration.id,
            started.observe.id,
            MissingData("Output of Togo", "It is lacking.", ("output",)),
        ).execute(session)
    async with database.transaction() as session:
        await session.execute(text("alter table investigation_requests add column later integer"))
        requests = await investigations.list_requests(iteration.id).execute(session)
        await session.rollback()
    assert [(request.objective, request.search_hints) for request in requests] == [
        ("Output of Togo", ["output"])
    ]
