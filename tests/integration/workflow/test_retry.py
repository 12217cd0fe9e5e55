"""A step that failed for good, retried over the api: worked on by its own actor, once its iteration has ended."""

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
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.errors import PermanentError, TransientError
from shared.runtime import step_runner as work_module
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.runtime.step_runner import StepResult, step_consumer
from shared.workflow import leases
from shared.workflow.leases import AlreadyEnded
from tests.support.actors import ended_iteration, running
from tests.support.api.asking import assert_problem, client_of
from tests.support.failing import (
    breaks,
    claimed,
    end_iteration,
    failed_query,
    researcher,
    works,
)
from tests.support.letters import listed, none_left, one_letter, retried, told
from tests.support.levers import Sandbox
from tests.support.making import make_agent, make_iteration
from tests.support.steps import running as running_actor
from tests.support.steps import status_is, step_now
from tests.support.waiting import until

# When the word of an iteration's end was heard has nothing to do with its retries.
OF_TELLING = {
    Iteration.__table__.c[name]
    for name in ("end_published_at", "end_republish_count", "end_republished_at")
}
ALL_BUT_ADVISER = ("scheduler", "observer", "researcher", "aggregator", "analyzer")


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(settings) as client:
        yield client


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler looks more often than it would, and workers rest less."""
    monkeypatch.setattr(scheduler, "RECONCILE_SECONDS", 0.05)
    monkeypatch.setattr(work_module, "MIN_BACKOFF_SECONDS", 0.01)


async def test_a_retried_query_is_worked_on_and_its_iteration_stays_as_it_ended(
    sandbox_settings: Settings,
    api: httpx.AsyncClient,
    database: Database,
    bus: Bus,
    levers: Sandbox,
) -> None:
    plan = {
        "queries": [
            {"objective": name, "reasoning": "why not", "searchHints": ["lithium"]}
            for name in ("Who buys lithium?", "Who sells lithium?")
        ],
        "insights": [],
    }
    levers.script({"phase": "observer", "content": plan})
    refused = {"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1}
    levers.faults(refused)
    agent = await make_agent(database)
    async with running(sandbox_settings, ALL_BUT_ADVISER):
        before = await ended_iteration(database, agent, 1)
        assert before.status == IterationStatus.COMPLETED
        assert ["401" in error for error in before.errors] == [True]
        letter = await one_letter(api)
        assert (letter["code"], letter["actor"], letter["refusal"]) == (
            "llm_key",
            "researcher",
            None,
        )
        assert (letter["step"]["kind"], letter["step"]["status"]) == ("query", "failed")
        assert letter["step"]["agent_name"] == agent.name
        shown = (await api.get(f"/dead-letters/{letter['id']}")).json()
        assert "s lithium?" in shown["text"]
        await retried(api, letter)
        step = await _step(database, letter["step"]["id"])
        await until(partial(status_is, database, step, StepStatus.COMPLETED), what="the query")
        await none_left(api)
    done = await step_now(database, step)
    assert (done.error, done.attempts) == (None, 0)
    assert done.result is not None
    assert done.result["nodes"] > 0
    after = await ended_iteration(database, agent, 1)
    for column in set(Iteration.__table__.columns) - OF_TELLING:
        assert getattr(after, column.name) == getattr(before, column.name), column.name
    assert len(await told(bus, "query.completed")) == 2
    assert len(await told(bus, "iteration.completed")) == 1


async def test_a_step_that_fails_again_has_its_letter_back(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    async def hopeless(lease: leases.Lease, step: Step) -> StepResult:
        raise TransientError("the server is away")

    settings = settings.model_copy(update={"max_attempts": 2})
    query = await failed_query(database, bus, settings, hopeless)
    first = await one_letter(api)
    assert (first["code"], first["attempts"]) == ("attempts_used_up", 2)
    await retried(api, first)

    async def is_back() -> Any:
        return [letter for letter in await listed(api) if letter["stored_at"] > first["stored_at"]]

    async with running_actor(researcher(settings, hopeless)), running(settings, ["scheduler"]):
        (again,) = await until(is_back, what="the letter to come back")
        await until(partial(_is_alone, api), what="the old letter to be gone")
    assert (again["attempts"], again["retry_requested_at"]) == (2, None)
    assert again["step"]["id"] == str(query.id)
    step = await step_now(database, query)
    assert (step.status, step.attempts, step.epoch) == (StepStatus.FAILED, 2, 4)
    await retried(api, again)
    async with running_actor(researcher(settings, works)), running(settings, ["scheduler"]):
        await until(partial(status_is, database, query, StepStatus.COMPLETED), what="the query")
        await none_left(api)


async def test_what_was_wrong_may_have_been_the_model(
    sandbox_settings: Settings, api: httpx.AsyncClient, database: Database, levers: Sandbox
) -> None:
    """A phase that never had an answer is begun anew, with the settings of now."""
    query = {"objective": "lithium", "reasoning": "why not", "searchHints": []}
    levers.script({"phase": "observer", "content": {"queries": [query], "insights": []}})
    agent = await make_agent(database)
    await _set_models(database, agent, knowledge_acquisition="gpt-wrong")
    async with running(sandbox_settings, ALL_BUT_ADVISER):
        await ended_iteration(database, agent, 1)
        letter = await one_letter(api)
    assert letter["code"] == "llm_model"
    await _set_models(database, agent)
    async with running(sandbox_settings, ALL_BUT_ADVISER):
        await retried(api, letter)
        step = await _step(database, letter["step"]["id"])
        await until(partial(status_is, database, step, StepStatus.COMPLETED), what="the query")
    async with database.transaction() as session:
        asked = select(Call.model).where(Call.step_id == step.id, Call.answered_at.is_not(None))
        assert set(await session.scalars(asked)) - {None} == {"sandbox-reader"}
        models = select(Interaction.model).where(Interaction.step_id == step.id)
        assert set(await session.scalars(models)) == {"sandbox-reader"}


async def test_while_its_iteration_runs_a_step_is_not_retried(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    """The join has counted it as failed; it would wait for it again, or not see it any more."""
    query = await failed_query(database, bus, settings, ended=False)
    letter = await one_letter(api)
    answer = await api.post(f"/dead-letters/{letter['id']}/retry")
    assert_problem(
        answer, 409, "iteration 1 of Battery watch is still running", "when the iteration has"
    )
    assert (await step_now(database, query)).retry_requested_at is None
    assert isinstance(await claimed(database, query), AlreadyEnded)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, query.iteration_id)
    await end_iteration(database, iteration)
    assert (await one_letter(api))["refusal"] is None
    await retried(api, letter)


async def test_an_observe_step_is_not_retried_and_the_refusal_says_what_to_do(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    made = await make_iteration(database, await make_agent(database))
    await bus.publish(derived_events.iteration_step_event(made.iteration, made.observe))
    failing = step_consumer(
        "observer",
        settings,
        Database(settings.database_url, name="o"),
        {StepKind.OBSERVE: breaks},
        slots=1,
    )
    async with running_actor(failing), running(settings, ["aggregator"]):
        await ended_iteration(database, await _agent_of(database, made.iteration), 1)
    letter = await one_letter(api)
    answer = await api.post(f"/dead-letters/{letter['id']}/retry")
    assert_problem(answer, 409, "without a plan", '`vigil run "Battery watch"`')


async def test_an_answer_that_would_be_read_again_is_not_asked_for_again(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    async def finds_nothing(lease: leases.Lease, step: Step) -> StepResult:
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")

    await failed_query(database, bus, settings, finds_nothing)
    letter = await one_letter(api)
    answer = await api.post(f"/dead-letters/{letter['id']}/retry")
    assert_problem(answer, 409, "response is stored", "vigil run")


async def test_letters_about_steps_are_their_agents_owners(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    await failed_query(database, bus, settings)
    letter = await one_letter(api)
    async with client_of(settings, user="stranger") as other:
        assert await listed(other) == []
        for order in (other.get, other.delete):
            assert_problem(await order(f"/dead-letters/{letter['id']}"), 404)
        assert_problem(await other.post(f"/dead-letters/{letter['id']}/retry"), 404)
    assert await one_letter(api) == letter


async def test_a_discarded_letter_takes_its_retry_along(
    settings: Settings, api: httpx.AsyncClient, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    letter = await retried(api, await one_letter(api))
    assert (await api.delete(f"/dead-letters/{letter['id']}")).status_code == 204
    assert await Retrier(database, bus).list_requests() == []
    assert isinstance(await claimed(database, query), AlreadyEnded)
    assert (await step_now(database, query)).error == "the key is wrong"


async def _is_alone(api: httpx.AsyncClient) -> bool:
    return len(await listed(api)) == 1


async def _step(database: Database, step_id: str) -> Step:
    async with database.transaction() as session:
        return (await session.scalars(select(Step).where(Step.id == step_id))).one()


async def _agent_of(database: Database, iteration: Iteration) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, iteration.agent_id)


async def _set_models(database: Database, agent: Agent, **models: str) -> None:
    async with database.transaction() as session:
        await session.execute(update(Agent).where(Agent.id == agent.id).values(models=models))
