"""The whole loop: from a mission to analyses that cite the graph."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import func, select

from shared.billing import resumable_call
from shared.database.engine import Database
from shared.database.signing import JournalSigner
from shared.database.tables import (
    Agent,
    Call,
    GraphEdge,
    GraphJournal,
    GraphNode,
    Interaction,
    Step,
)
from shared.enums import ANALYSIS_TYPE, CallKind, IterationStatus, Phase, StepKind, StepStatus
from shared.events.codec import decode
from shared.events.models import IterationCompleted
from shared.graph.conclusions.citations import parse_citations
from shared.graph.scope import GraphScope
from shared.graph.verification.journal import check_signatures, load_entries
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import iterations
from tests.support.factories import make_agent
from tests.support.graph.history import read_journal
from tests.support.running_services import ended_iteration, running_services
from tests.support.signing import new_signing_key
from tests.support.stored_dead_letters import stream_payloads
from tests.support.table_rows import change


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
