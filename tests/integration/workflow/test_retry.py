"""A permanently failed step, retried over the API: its own service runs it once its iteration has ended."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from services.scheduler import scheduler
from services.scheduler.dead_letter_retries import Retrier
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Agent, Call, Interaction, Iteration, Step
from shared.enums import IterationStatus, StepStatus
from shared.errors import PermanentError, TransientError
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult
from shared.workflow import leases
from shared.workflow.iterations import IterationRow, StepRow
from shared.workflow.leases import AlreadyEnded
from tests.support.api.clients import assert_problem, create_client
from tests.support.factories import make_agent, make_iteration
from tests.support.failing_steps import (
    claim_step,
    end_iteration,
    fail_permanently,
    failed_query,
    researcher,
    succeed,
)
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.steps import observer, reload_step, running_service, status_is
from tests.support.stored_dead_letters import (
    list_letters,
    request_retry,
    stream_payloads,
    wait_for_letter,
    wait_until_none,
)
from tests.support.waiting import wait_until

# The publication of an iteration's end is independent of its retries.
PUBLICATION_COLUMNS = {
    Iteration.__table__.c[name]
    for name in ("end_published_at", "end_republish_count", "end_republished_at")
}
ALL_BUT_ADVISER = ("scheduler", "observer", "researcher", "aggregator", "analyzer")


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(settings) as client:
        yield client


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the scheduler poll more often and the workers back off for less time."""
    monkeypatch.setattr(scheduler, "RECONCILE_SECONDS", 0.05)
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)


async def test_a_retried_query_runs_and_its_ended_iteration_is_unchanged(
    sandbox_settings: Settings,
    api: httpx.AsyncClient,
    database: Database,
    bus: Bus,
    sandbox_control: Sandbox,
) -> None:
    plan = {
        "queries": [
            {"objective": name, "reasoning": "why not", "searchHints": ["lithium"]}
            for name in ("Who buys lithium?", "Who sells lithium?")
        ],
        "insights": [],
    }
    sandbox_control.script({"phase": "observer", "content": plan})
    fault = {"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1}
    sandbox_control.faults(fault)
    agent = await make_agent(database)
    async with running_services(sandbox_settings, ALL_BUT_ADVISER):
        before = await ended_iteration(database, agent, 1)
        assert before.status == IterationStatus.COMPLETED
        assert ["401" in error for error in before.errors] == [True]
        dead_letter = await wait_for_letter(api)
        assert (dead_letter["code"], dead_letter["service"], dead_letter["refusal"]) == (
            "llm_key",
            "researcher",
            None,
        )
        assert (dead_letter["step"]["kind"], dead_letter["step"]["status"]) == ("query", "failed")
        assert dead_letter["step"]["agent_name"] == agent.name
        details = (await api.get(f"/dead-letters/{dead_letter['id']}")).json()
        assert "s lithium?" in details["text"]
        await request_retry(api, dead_letter)
        step = await _step(database, dead_letter["step"]["id"])
        await wait_until(partial(status_is, database, step, StepStatus.COMPLETED), what="the query")
        await wait_until_none(api)
    done = await reload_step(database, step)
    assert (done.error, done.attempts) == (None, 0)
    assert done.result is not None
    assert done.result["nodes"] > 0
    after = await ended_iteration(database, agent, 1)
    for column in set(Iteration.__table__.columns) - PUBLICATION_COLUMNS:
        assert getattr(after, column.name) == getattr(before, column.name), column.name
    assert len(await stream_payloads(bus, "query.completed")) == 2
    assert len(await stream_payloads(bus, "iteration.completed")) == 1


async def test_a_step_that_fails_again_becomes_a_dead_letter_again(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    async def fail_always(lease: leases.Lease, step: StepRow) -> StepResult:
        raise TransientError("the server is away")

    settings = settings.model_copy(update={"max_attempts": 2})
    query = await failed_query(database, bus, settings, fail_always)
    first = await wait_for_letter(api)
    assert (first["code"], first["attempts"]) == ("attempts_used_up", 2)
    await request_retry(api, first)

    async def is_back() -> Any:
        return [
            dead_letter
            for dead_letter in await list_letters(api)
            if dead_letter["stored_at"] > first["stored_at"]
        ]

    async with (
        running_service(researcher(settings, fail_always)),
        running_services(settings, ["scheduler"]),
    ):
        (again,) = await wait_until(is_back, what="the dead letter to come back")
        await wait_until(partial(_is_only_one, api), what="the old dead letter to be deleted")
    assert (again["attempts"], again["retry_requested_at"]) == (2, None)
    assert again["step"]["id"] == str(query.id)
    step = await reload_step(database, query)
    assert (step.status, step.attempts, step.epoch) == (StepStatus.FAILED, 2, 4)
    await request_retry(api, again)
    async with (
        running_service(researcher(settings, succeed)),
        running_services(settings, ["scheduler"]),
    ):
        await wait_until(
            partial(status_is, database, query, StepStatus.COMPLETED), what="the query"
        )
        await wait_until_none(api)


async def test_a_retry_uses_the_current_model_setting(
    sandbox_settings: Settings, api: httpx.AsyncClient, database: Database, sandbox_control: Sandbox
) -> None:
    """A phase that never got a response is restarted with the current settings."""
    query = {"objective": "lithium", "reasoning": "why not", "searchHints": []}
    sandbox_control.script({"phase": "observer", "content": {"queries": [query], "insights": []}})
    agent = await make_agent(database)
    await _set_models(database, agent, knowledge_acquisition="gpt-wrong")
    async with running_services(sandbox_settings, ALL_BUT_ADVISER):
        await ended_iteration(database, agent, 1)
        dead_letter = await wait_for_letter(api)
    assert dead_letter["code"] == "llm_model"
    await _set_models(database, agent)
    async with running_services(sandbox_settings, ALL_BUT_ADVISER):
        await request_retry(api, dead_letter)
        step = await _step(database, dead_letter["step"]["id"])
        await wait_until(partial(status_is, database, step, StepStatus.COMPLETED), what="the query")
    async with database.transaction() as session:
        call_models = select(Call.model).where(
            Call.step_id == step.id, Call.answered_at.is_not(None)
        )
        assert set(await session.scalars(call_models)) - {None} == {"sandbox-reader"}
        run_models = select(Interaction.model).where(Interaction.step_id == step.id)
        assert set(await session.scalars(run_models)) == {"sandbox-reader"}


async def test_a_step_is_not_retried_while_its_iteration_runs(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    """The join has counted the step as failed; it would wait for it again or miss it."""
    query = await failed_query(database, bus, settings, ended=False)
    dead_letter = await wait_for_letter(api)
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(
        answer, 409, "iteration 1 of Battery watch is still running", "when the iteration has"
    )
    assert (await reload_step(database, query)).retry_requested_at is None
    assert isinstance(await claim_step(database, query), AlreadyEnded)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, query.iteration_id)
    await end_iteration(database, iteration)
    assert (await wait_for_letter(api))["refusal"] is None
    await request_retry(api, dead_letter)


async def test_an_observe_step_is_not_retried_and_the_error_says_what_to_do(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    started = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(started.iteration, started.observe))
    consumer = observer(settings, fail_permanently)
    async with running_service(consumer), running_services(settings, ["aggregator"]):
        await ended_iteration(database, await _agent_of(database, started.iteration), 1)
    dead_letter = await wait_for_letter(api)
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(answer, 409, "without a plan", '`vigil run "Battery watch"`')


async def test_a_failure_of_a_stored_response_is_not_retried(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    async def fail_without_document(lease: leases.Lease, step: StepRow) -> StepResult:
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")

    await failed_query(database, bus, settings, fail_without_document)
    dead_letter = await wait_for_letter(api)
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(answer, 409, "response is stored", "vigil run")


async def test_only_the_agents_owner_can_access_a_steps_dead_letter(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    await failed_query(database, bus, settings)
    dead_letter = await wait_for_letter(api)
    async with create_client(settings, user="stranger") as other:
        assert await list_letters(other) == []
        for send in (other.get, other.delete):
            assert_problem(await send(f"/dead-letters/{dead_letter['id']}"), 404)
        assert_problem(await other.post(f"/dead-letters/{dead_letter['id']}/retry"), 404)
    assert await wait_for_letter(api) == dead_letter


async def test_discarding_a_dead_letter_discards_its_retry(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    dead_letter = await request_retry(api, await wait_for_letter(api))
    assert (await api.delete(f"/dead-letters/{dead_letter['id']}")).status_code == 204
    assert await Retrier(database, bus).list_requests() == []
    assert isinstance(await claim_step(database, query), AlreadyEnded)
    assert (await reload_step(database, query)).error == "the key is wrong"


async def _is_only_one(api: httpx.AsyncClient) -> bool:
    return len(await list_letters(api)) == 1


async def _step(database: Database, step_id: str) -> Step:
    async with database.transaction() as session:
        return (await session.scalars(select(Step).where(Step.id == step_id))).one()


async def _agent_of(database: Database, iteration: IterationRow) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, iteration.agent_id)


async def _set_models(database: Database, agent: Agent, **models: str) -> None:
    async with database.transaction() as session:
        await session.execute(update(Agent).where(Agent.id == agent.id).values(models=models))
