"""The entailment check: what it reads, pays and stores, within a researcher's or an adviser's step."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import (
    Agent,
    Call,
    EntailmentVerdict,
    Evidence,
    GraphNode,
    Interaction,
    Step,
)
from shared.enums import Phase, StepKind
from shared.errors import RetrySoonError
from shared.graph import entity_resolution
from shared.graph.conclusions import conclusions
from shared.graph.provenance import entailment
from shared.graph.scope import GraphScope
from shared.llm.answer_errors import AnswerError, FailureKind
from shared.llm.entailment import StoreVerdict, check_entailment
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.provider import OnDelta
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.tools import Json
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.factories import make_agent, make_iteration
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.refusing_provider import RefusingProvider
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import change, remove

NAMES: Final = ("Ghana", "Togo", "Benin", "Mali")
MAX_CALL_USD: Final = Decimal("0.02")
"""Somewhat above what one check can cost."""
MERGE_SECONDS: Final = 0.5


class WorkerKilledError(Exception):
    pass


class KillingProvider:
    """A provider whose worker is killed while it waits for the answer."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            raise WorkerKilledError

    async def close(self) -> None:
        return


class BreakingProvider:
    """A provider whose answers break off, which it tries three times."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        for _ in range(2):
            with suppress(AnswerError):
                async with in_flight.attempt():
                    raise AnswerError("it broke off", kind=FailureKind.CUT_OFF)
        async with in_flight.attempt():
            raise AnswerError("it broke off", kind=FailureKind.CUT_OFF)

    async def close(self) -> None:
        return


@dataclass
class MergingProvider:
    """A provider that finds everything supported. A merge begins before its first answer, and ends after it."""

    agent_graph: AgentGraph
    kept_id: UUID
    merged_id: UUID
    merging: asyncio.Task[None] | None = None

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            if self.merging is None:
                has_merged = asyncio.Event()
                self.merging = asyncio.create_task(self._merge(has_merged))
                await has_merged.wait()
            text = '{"verdict": "supported", "reason": "It says so."}'
            return ChatAnswer({"role": "assistant", "content": text}, "stop", 1, 1)

    async def _merge(self, has_merged: asyncio.Event) -> None:
        scope = self.agent_graph.scope
        async with self.agent_graph.database.transaction() as session:
            await entity_resolution.merge_nodes(
                session,
                scope,
                kept_id=self.kept_id,
                merged_id=self.merged_id,
                reason="One country.",
                made_by=scope.owner_id,
            )
            has_merged.set()
            await asyncio.sleep(MERGE_SECONDS)

    async def close(self) -> None:
        return


@dataclass(frozen=True)
class CheckCase:
    """A claimed step that has written nodes, each with one piece of evidence."""

    agent_graph: AgentGraph
    settings: Settings
    sandbox: Sandbox
    lease: Lease

    @property
    def database(self) -> Database:
        return self.agent_graph.database

    async def check(
        self,
        *,
        usd: str = "1",
        share: float = 1.0,
        provider: Any = None,
        store: StoreVerdict | None = None,
    ) -> Json:
        scope = self.agent_graph.scope
        await self.set_up(usd, share)
        agent = self.lease.agent._replace(
            entailment_usd_per_day=Decimal(usd), entailment_share=share
        )
        lease = replace(self.lease, agent=agent)
        model = create_model(self.settings, self.database, provider)
        try:
            return await check_entailment(
                model,
                lease,
                entailment.new_evidence(scope, share),
                store or partial(entailment.store_verdict, scope),
            )
        finally:
            await model.provider.close()

    async def set_up(self, usd: str, share: float) -> None:
        values = {"entailment_usd_per_day": Decimal(usd), "entailment_share": share}
        async with self.database.transaction() as session:
            await session.execute(
                update(Agent).where(Agent.id == self.agent_graph.scope.agent_id).values(**values)
            )

    async def verdicts(self) -> list[EntailmentVerdict]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(EntailmentVerdict)))

    async def calls(self) -> list[Call]:
        async with self.database.transaction() as session:
            of_phase = Call.phase == Phase.ENTAILMENT_CHECK
            return list(await session.scalars(select(Call).where(of_phase)))

    async def evidence_ids(self) -> list[UUID]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(Evidence.id).order_by(Evidence.id)))


@pytest.fixture
async def check_case(
    database: Database, sandbox_control: Sandbox, sandbox_settings: Settings
) -> CheckCase:
    agent_graph = await make_agent_graph(database)
    async with database.transaction() as session:
        agent = await session.get_one(Agent, agent_graph.scope.agent_id)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        claim = await claims.claimed(session, started.observe.id, "test")
    lease = claim.lease
    scope = replace(agent_graph.scope, iteration_id=lease.iteration_id, step_id=lease.step_id)
    agent_graph = replace(agent_graph, scope=scope)
    for name in NAMES:
        await agent_graph.node(name, capital="Accra")
    return CheckCase(agent_graph, sandbox_settings, sandbox_control, lease)


async def test_each_verdict_is_a_call_of_the_ledger(check_case: CheckCase) -> None:
    result = await check_case.check()
    verdicts, calls = await check_case.verdicts(), await check_case.calls()
    assert sum(result.values()) == len(verdicts) == len(calls) == len(NAMES)
    assert {verdict.call_id for verdict in verdicts} == {call.id for call in calls}
    assert all(call.answered_at and call.cost_usd and not call.reserved_on for call in calls)
    assert {verdict.evidence_id for verdict in verdicts} == set(await check_case.evidence_ids())
    async with check_case.database.transaction() as session:
        [run] = await session.scalars(
            select(Interaction).where(Interaction.phase == Phase.ENTAILMENT_CHECK)
        )
    assert run.completed_at is not None


async def test_a_resumed_step_pays_for_nothing_again(check_case: CheckCase) -> None:
    check_case.sandbox.script(
        {"content": '{"verdict": "supported", "reason": "It says so."}'},
        {"content": "I do not know."},
    )
    result = await check_case.check()
    assert result["unchecked"] == 1
    calls = await check_case.calls()
    assert len(calls) == len(NAMES)
    async with check_case.database.transaction() as session:
        verdict = (await check_case.verdicts())[0]
        await remove(session, (verdict))
    assert await check_case.check() == {"unchecked": 1} | {verdict.verdict: 1}
    assert len(await check_case.verdicts()) == len(NAMES) - 1
    assert {(call.id, call.attempts) for call in await check_case.calls()} == {
        (call.id, call.attempts) for call in calls
    }


async def test_a_sample_is_the_same_whenever_it_is_drawn(check_case: CheckCase) -> None:
    evidence_ids = await check_case.evidence_ids()
    share = (evidence_ids[0].int + evidence_ids[1].int) / 2 / 2**128
    await check_case.check(share=share)
    assert [verdict.evidence_id for verdict in await check_case.verdicts()] == evidence_ids[:1]
    assert await check_case.check(share=share) == {}
    assert len(await check_case.calls()) == 1


async def test_a_claim_is_true_until_its_last_day(check_case: CheckCase) -> None:
    scope = check_case.agent_graph.scope
    first, end = (datetime(year, 1, 1, tzinfo=UTC) for year in (2023, 2025))
    async with check_case.database.transaction() as session:
        await session.execute(update(Evidence).values(valid_from=first, valid_to=end))
    for quotation in await check_case.database.run(entailment.new_evidence(scope, 1.0)):
        assert quotation.claim.endswith(" (from 2023-01-01 until 2024-12-31)")


async def test_checks_stop_at_their_own_budget(check_case: CheckCase) -> None:
    result = await check_case.check(usd="0.001")
    assert result == {"unchecked": 4, "stopped": "the daily budget of checks is reached"}
    assert await check_case.calls() == []
    result = await check_case.check(usd=str(MAX_CALL_USD))
    [*_, last] = sorted(await check_case.calls(), key=lambda call: call.started_at)
    assert last.cost_usd is not None
    spent = sum((call.cost_usd or Decimal(0) for call in await check_case.calls()), Decimal(0))
    assert 0 < spent <= MAX_CALL_USD
    assert sum(value for key, value in result.items() if key != "stopped") == len(NAMES)


async def test_a_call_that_is_sent_again_stays_within_the_budget_of_checks(
    check_case: CheckCase,
) -> None:
    for _ in range(3):
        with suppress(WorkerKilledError):
            await check_case.check(usd=str(MAX_CALL_USD), provider=KillingProvider())
    [call] = await check_case.calls()
    assert call.attempts == 1
    assert call.assumed_usd + (call.reserved_usd or 0) <= MAX_CALL_USD


async def test_further_attempts_of_a_call_stay_within_the_budget_of_checks(
    check_case: CheckCase,
) -> None:
    result = await check_case.check(usd=str(MAX_CALL_USD), provider=BreakingProvider())
    assert "the budget does not cover the maximum cost" in result["stopped"]
    [call] = await check_case.calls()
    assert (call.attempts, call.reserved_usd) == (1, None)
    assert 0 < call.assumed_usd <= MAX_CALL_USD


async def test_the_budget_of_the_agent_stops_checks_and_suspends_nobody(
    check_case: CheckCase,
) -> None:
    agent_id = check_case.agent_graph.scope.agent_id
    async with check_case.database.transaction() as session:
        await session.update(Agent, agent_id, budget_usd_per_day=Decimal("0.0001"))
    result = await check_case.check()
    assert result["unchecked"] == len(NAMES)
    assert "budget" in result["stopped"]
    async with check_case.database.transaction() as session:
        assert (await session.get_one(Agent, agent_id)).suspended_until is None


async def test_a_server_that_fails_leaves_the_rest_unchecked(check_case: CheckCase) -> None:
    provider = RefusingProvider(FailureKind.UNUSABLE)
    result = await check_case.check(provider=provider)
    assert result["unchecked"] == len(NAMES)
    assert "no time for this" in result["stopped"]
    assert await check_case.verdicts() == []
    assert provider.attempts == 1


async def test_a_verdict_that_could_not_be_stored_is_stored_when_the_step_is_resumed(
    check_case: CheckCase,
) -> None:
    """PostgreSQL was not available for a moment."""
    ends_connection = BoundQuery[None](
        CompiledStatement("select pg_terminate_backend(pg_backend_pid())"), {}, lambda _: None
    )
    with pytest.raises(RetrySoonError):
        await check_case.check(store=lambda *_, **__: ends_connection)
    await check_case.check()
    assert len(await check_case.verdicts()) == len(NAMES)
    assert {call.attempts for call in await check_case.calls()} == {1}


async def test_evidence_that_is_being_merged_has_no_verdict_and_fails_no_step(
    check_case: CheckCase,
) -> None:
    """The merge changes the id of the evidence just before its verdict is stored."""
    async with check_case.database.transaction() as session:
        first, other, *_ = await session.scalars(select(Evidence).order_by(Evidence.id))
    assert first.node_id
    assert other.node_id
    provider = MergingProvider(check_case.agent_graph, other.node_id, first.node_id)
    result = await check_case.check(provider=provider)
    assert provider.merging is not None
    await provider.merging
    assert result == {"supported": len(NAMES)}
    assert first.id not in {verdict.evidence_id for verdict in await check_case.verdicts()}


async def test_a_model_that_refuses_one_quote_reads_the_others(check_case: CheckCase) -> None:
    provider = RefusingProvider(FailureKind.NO_ANSWER)
    for _ in range(2):
        assert await check_case.check(provider=provider) == {"unchecked": len(NAMES)}
    assert provider.attempts == len(NAMES)


async def test_a_filter_that_refuses_one_quote_lets_others_be_read(check_case: CheckCase) -> None:
    provider = RefusingProvider(FailureKind.NO_ANSWER, refuses_content=True)
    assert await check_case.check(provider=provider) == {"unchecked": len(NAMES)}
    assert provider.attempts == len(NAMES)


async def test_all_that_advice_rests_on_is_found(check_case: CheckCase) -> None:
    agent_graph = check_case.agent_graph
    scope = agent_graph.scope
    async with check_case.database.transaction() as session:
        ids = {node.name: node.id for node in await session.scalars(select(GraphNode))}
    border = await agent_graph.edge(ids["Ghana"], ids["Togo"])
    async with check_case.database.transaction() as session:
        analyses = [
            await conclusions.add_analysis(
                session,
                scope,
                name=f"On {name}",
                kind="pattern",
                summary="So it is.",
                content=f"It is so {cited}.",
                **ANALYSIS_TERMS,
            )
            for name, cited in (
                ("Benin", f"[node:{ids['Benin']}]"),
                ("borders", f"[edge:{border}]"),
            )
        ]
        advice = await conclusions.add_advice(
            session,
            scope,
            name="Wait",
            action="HOLD",
            summary="Wait.",
            content=" ".join(f"So [node:{analysis}]." for analysis in analyses),
            **ADVICE_TERMS,
        )
    found = await check_case.database.run(entailment.evidence_below(scope, [advice]))
    texts = sorted(quotation.claim for quotation in found)
    assert texts == [
        '"Ghana" borders "Togo"',
        'Country "Benin": capital = "Accra"; summary = "A state."',
        'Country "Ghana": capital = "Accra"; summary = "A state."',
        'Country "Togo": capital = "Accra"; summary = "A state."',
    ]
    assert all("An atlas of states" in quotation.title for quotation in found)
    assert all("capitals are Abidjan" in quotation.quote for quotation in found)


@pytest.mark.parametrize("is_on", [True, False])
async def test_an_iteration_checks_a_share_of_its_evidence(
    database: Database, sandbox_settings: Settings, is_on: bool
) -> None:
    agent = await make_agent(database, mission="Watch battery makers and their lithium supply")
    async with database.transaction() as session:
        changed = await session.get_one(Agent, agent.id)
        changed = await change(
            session, changed, entailment_usd_per_day=Decimal(5 * is_on), entailment_share=1.0
        )
        changed = await change(session, changed, budget_usd_per_day=None)
    async with running_services(sandbox_settings):
        await ended_iteration(database, agent, 1)
    async with database.transaction() as session:
        calls = await session.scalar(
            select(func.count()).where(Call.phase == Phase.ENTAILMENT_CHECK)
        )
        evidence = await session.scalar(select(func.count()).select_from(Evidence))
        verdicts = list(await session.scalars(select(EntailmentVerdict.verdict)))
        steps = await session.scalars(select(Step.result).where(Step.kind == StepKind.QUERY))
        checks = [result.get("checks") for result in steps if result]
    if not is_on:
        assert (calls, len(verdicts), checks) == (0, 0, [None] * len(checks))
        return
    assert evidence
    assert calls == len(verdicts) == evidence
    assert "supported" in verdicts
    assert sum(sum(each.values()) for each in checks if each) == evidence


async def test_a_stranger_reads_none_of_it(check_case: CheckCase, database: Database) -> None:
    stranger = await make_agent_graph(database, "stranger")
    scope = check_case.agent_graph.scope
    foreign = GraphScope(stranger.scope.owner_id, scope.agent_id, scope.iteration_id, scope.step_id)
    assert await database.run(entailment.new_evidence(foreign, 1.0)) == []
    node = (await check_case.evidence_ids())[0]
    assert await database.run(entailment.evidence_below(foreign, [node])) == []
