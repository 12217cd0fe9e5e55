"""Another model answers while the first one's provider is away. What is in the ledger is never paid for again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from shared.billing import reservations
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, Call, ProviderLimit
from shared.enums import Phase
from shared.errors import PermanentError, RetrySoonError, TransientError, UnavailableError
from shared.llm.adaptation import BYTES_PER_TOKEN
from shared.llm.ledgered_model import read_last_answer
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model, ModelRouter
from shared.provider_limits import state as limit_states
from shared.provider_limits.gate import ProviderGate
from shared.provider_limits.state import Limits, ProviderState
from shared.provider_limits.store import Known, StateStore, provider_key
from shared.runtime.providers import create_model
from shared.runtime.settings import ModelProvider, Settings
from shared.workflow import steps
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.factories import make_agent, make_iteration
from tests.support.providers.stand_in import StandIn
from tests.support.sandbox.server import running_app
from tests.support.table_rows import change, replaced
from tests.support.waiting import wait_until

FIRST, SECOND = "gpt-x", "second/llama"


@dataclass
class Case:
    """A step of an agent, and two providers."""

    database: Database
    settings: Settings
    agent: Agent
    lease: Lease
    first: StandIn
    second: StandIn
    models: list[Model] = field(default_factory=list)

    def run(self, context: str = "Is it?") -> PhaseRun:
        """A run as a new process begins or resumes it."""
        model = create_model(self.settings, self.database)
        self.models.append(model)
        return PhaseRun(model, self.lease, self.agent, Phase.OBSERVER, context)

    @property
    def first_gate(self) -> ProviderGate:
        """Of the newest run."""
        router = self.models[-1].provider
        assert isinstance(router, ModelRouter)
        return router._default.gate

    async def answer(self, run: PhaseRun | None = None) -> str:
        run = run or self.run()
        request = await run.begin()
        answer = (await run.model.answer(request, read_last_answer)).answer
        return answer.text

    async def days(self) -> list[BudgetDay]:
        """The budgets, once the step holds nothing for its next calls."""
        async with self.database.transaction() as session:
            await reservations.release_hold(self.lease.step_id).execute(session)
            return list(await session.scalars(select(BudgetDay)))

    async def takeover(self) -> None:
        """Another worker claims the step."""
        async with self.database.transaction() as session:
            await steps.release(session, self.lease, "killed", attempts=0, rest_seconds=0)
        async with self.database.transaction() as session:
            claim = await claims.claimed(session, self.lease.step_id, "another")
        self.lease = claim.lease

    async def calls(self) -> dict[str | None, Call]:
        async with self.database.transaction() as session:
            return {call.model: call for call in await session.scalars(select(Call))}


@pytest.fixture
async def case(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Case]:
    monkeypatch.setattr(limit_states, "FAILURES", 3)
    monkeypatch.setattr(limit_states, "FAILING_SECONDS", 0.0)
    first, second = StandIn(answer_seconds=0), StandIn(answer_seconds=0)
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        agent = await session.get_one(Agent, agent.id)
        agent = await change(
            session, agent, models={Phase.OBSERVER.value: f"{FIRST}, then {SECOND}"}
        )
    async with database.transaction() as session:
        claim = await claims.claimed(session, started.observe.id, "test")
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(running_app(each.app)) for each in (first, second)]
        both = settings.model_copy(
            update={
                "openai_api_key": SecretStr("k"),
                "openai_base_url": f"{urls[0]}/v1",
                "providers": {"second": ModelProvider(base_url=f"{urls[1]}/v1")},
                "prices": {FIRST: (1.0, 1.0), "llama": (1000.0, 1000.0)},
            }
        )
        case = Case(database, both, agent, claim.lease, first, second)
        yield case
        for model in case.models:
            await model.provider.close()


async def test_the_first_model_answers_while_it_can(case: Case) -> None:
    assert await case.answer() == "Yes."
    assert set(await case.calls()) == {FIRST}
    assert not case.second.accepted


async def test_the_second_model_answers_during_an_outage_at_its_price(case: Case) -> None:
    case.first.status = 503
    assert await case.answer() == "Yes."
    calls = await case.calls()
    assert calls[FIRST].answered_at is None
    assert calls[SECOND].answered_at is not None
    assert calls[SECOND].cost_usd == Decimal("0.012")
    assert case.second.models == {"llama": 1}
    async with case.database.transaction() as session:
        await steps.end(session, case.lease, {})
        days = list(await session.scalars(select(BudgetDay)))
    assert {day.spent_usd for day in days} == {Decimal("0.012")}, "a 503 is not billed"


async def test_a_resumed_step_keeps_the_answer_of_the_second_model(case: Case) -> None:
    case.first.status = 503
    await case.answer()
    case.first.status = 200
    await case.takeover()
    assert await case.answer() == "Yes."
    assert not case.first.accepted
    assert len(case.second.accepted) == 1


async def test_a_resumed_step_keeps_the_answer_of_the_first_model_during_its_outage(
    case: Case,
) -> None:
    await case.answer()
    case.first.status = 503
    await case.takeover()
    assert await case.answer() == "Yes."
    assert (len(case.first.accepted), len(case.second.accepted)) == (1, 0)


@pytest.mark.parametrize("status", [404, 402])
async def test_the_second_model_answers_if_the_first_is_unknown_or_over_its_quota(
    case: Case, status: int
) -> None:
    case.first.status = status
    run = case.run()
    assert await case.answer(run) == "Yes."
    assert run.model.answered_by == SECOND


async def test_a_single_error_changes_no_model(case: Case) -> None:
    case.first.status, case.first.errors_left = 503, 1
    assert await case.answer() == "Yes."
    assert set(await case.calls()) == {FIRST}


async def test_a_wrong_key_is_an_error_of_the_settings(case: Case) -> None:
    case.first.status = 401
    with pytest.raises(PermanentError, match="OPENAI_API_KEY"):
        await case.answer()
    assert not case.second.accepted


@pytest.mark.parametrize("status", [400, 402])
async def test_a_step_waits_for_the_first_model_if_the_second_cannot_answer(
    case: Case, status: int
) -> None:
    """Its context may be shorter. Without a second model the step would wait too."""
    case.first.status, case.second.status = 503, status
    with pytest.raises(UnavailableError, match="cannot answer in its place") as caught:
        await case.answer()
    assert caught.value.counts is False
    case.first.status = 200
    await case.takeover()
    assert await case.answer() == "Yes."
    assert case.first.models == {FIRST: 1}


async def test_a_request_that_both_models_refuse_fails(case: Case) -> None:
    case.first.status, case.second.status = 404, 400
    with pytest.raises(PermanentError):
        await case.answer()


async def test_two_keys_of_one_server_have_different_names(case: Case) -> None:
    assert case.settings.openai_base_url is not None
    same = ModelProvider(base_url=case.settings.openai_base_url, api_key=SecretStr("other"))
    case.settings = case.settings.model_copy(update={"providers": {"second": same}})
    case.first.status = 503
    with pytest.raises(UnavailableError):
        await case.answer()
    async with case.database.transaction() as session:
        names = set(await session.scalars(select(ProviderLimit.name)))
    assert len(names) == 2
    assert any("provider 'second' at " in name for name in names)


async def test_an_error_names_the_setting_of_its_provider(case: Case) -> None:
    case.first.status, case.second.status = 503, 401
    with pytest.raises(PermanentError, match=r"VIGIL_PROVIDERS\['second'\]\['api_key'\]") as caught:
        await case.answer()
    assert "OPENAI_API_KEY" not in str(caught.value)


@pytest.mark.parametrize("reason", ["cancelled", "PostgreSQL is away"])
async def test_a_call_that_was_never_sent_costs_nothing(case: Case, reason: str) -> None:
    case.agent = replaced(case.agent, models={Phase.OBSERVER.value: FIRST})
    case.settings = case.settings.model_copy(update={"model_concurrency": 1})
    run = case.run()
    gate = case.first_gate

    async def refuse(_: int, __: ProviderState) -> Known:
        raise RetrySoonError("PostgreSQL: no connection")

    async def waits() -> bool:
        return bool(gate._waiters)

    if reason == "cancelled":
        async with gate.passage():  # another call is in progress, so this one waits
            work = asyncio.create_task(case.answer(run))
            await wait_until(waits, what="the call to wait")
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
    else:
        assert gate._store is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gate._store, "write", refuse)
            with pytest.raises(RetrySoonError):
                await case.answer(run)
    assert {(day.spent_calls, day.reserved_usd) for day in await case.days()} == {(0, Decimal(0))}
    await case.takeover()
    await case.answer()
    assert ({day.spent_calls for day in await case.days()}, len(case.first.accepted)) == ({1}, 1)


async def test_a_provider_gets_only_what_fits_into_its_context(case: Case) -> None:
    tokens = 8_192
    [named] = case.settings.providers.values()
    limited = named.model_copy(update={"context_tokens": tokens})
    case.settings = case.settings.model_copy(update={"providers": {"second": limited}})
    case.first.status = 503
    assert await case.answer(case.run("Is it so? " * 10_000)) == "Yes."
    (whole, *_), [limited_bytes] = case.first.body_bytes, case.second.body_bytes
    assert limited_bytes < tokens * BYTES_PER_TOKEN < whole


async def test_a_step_waits_for_the_first_model_if_the_context_of_the_second_is_too_short(
    case: Case,
) -> None:
    [named] = case.settings.providers.values()
    limited = named.model_copy(update={"context_tokens": 10})
    case.settings = case.settings.model_copy(update={"providers": {"second": limited}})
    case.first.status = 503
    setting = r"VIGIL_PROVIDERS\['second'\]\['context_tokens'\]"
    with pytest.raises(UnavailableError, match=setting) as caught:
        await case.answer()
    assert (caught.value.counts, case.second.accepted) == (False, [])


async def test_a_request_over_the_limit_of_a_minute_names_the_setting_of_its_provider(
    case: Case,
) -> None:
    case.first.status, case.second.status = 404, 429
    case.second.message = "Request too large for llama on tokens per min (TPM)"
    setting = r"VIGIL_PROVIDERS\['second'\]\['context_tokens'\]"
    with pytest.raises(PermanentError, match=f"Set {setting} below"):
        await case.answer()


async def test_an_unknown_provider_is_named(case: Case) -> None:
    case.first.status = 404
    case.agent = replaced(case.agent, models={Phase.OBSERVER.value: "secnod/llama"})
    with pytest.raises(PermanentError, match="'secnod' is meant as a provider") as caught:
        await case.answer()
    assert caught.value.is_unbilled
    assert not case.second.accepted


async def test_a_step_waits_if_no_provider_is_available(case: Case) -> None:
    case.first.status = case.second.status = 503
    with pytest.raises(UnavailableError) as caught:
        await case.answer()
    assert caught.value.counts is False
    assert {call.answered_at for call in (await case.calls()).values()} == {None}


async def test_a_call_with_unknown_outcome_stays_reserved_when_another_model_answers(
    case: Case,
) -> None:
    """The first provider took the request and never answered: it may bill it."""
    case.first.status = 504
    await case.answer()
    calls = await case.calls()
    assert calls[FIRST].reserved_usd is not None
    assert calls[SECOND].answered_at is not None
    async with case.database.transaction() as session:
        await steps.end(session, case.lease, {})
        days = list(await session.scalars(select(BudgetDay)))
    assert all(day.spent_usd > Decimal("0.012") for day in days), "written off as spent"
    assert {day.reserved_usd for day in days} == {Decimal(0)}


async def test_the_time_of_a_phase_stands_still_while_its_call_waits_for_its_turn(
    case: Case,
) -> None:
    """Else a limit of the provider would use up attempts, and budget for calls that were not sent."""
    url = case.settings.openai_base_url
    limits = {"phase_seconds": {Phase.OBSERVER: 4.0}, "model_concurrency": 1}
    case.settings = case.settings.model_copy(update=limits)
    store = StateStore(case.database, "model", provider_key(url, "k"), "it")
    other = ProviderGate("it", limits=Limits(concurrency=1), store=store)
    async with other.passage():
        answer = asyncio.create_task(case.answer())
        await asyncio.wait([answer], timeout=6)
        assert not answer.done()
    assert await answer == "Yes."
    await other.close()


async def test_a_phase_is_given_up_after_its_time_as_an_attempt(case: Case) -> None:
    case.first.answer_seconds = 30
    case.settings = case.settings.model_copy(update={"phase_seconds": {Phase.OBSERVER: 0.5}})
    with pytest.raises(TransientError, match="VIGIL_PHASE_SECONDS") as caught:
        await case.answer()
    assert caught.value.counts
    case.settings = case.settings.model_copy(update={"phase_seconds": {Phase.ADVICE_GENERATION: 1}})
    case.first.answer_seconds = 0
    await case.takeover()
    assert await case.answer() == "Yes."
