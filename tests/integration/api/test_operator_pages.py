"""Data of the pages of health, dead letters and events."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
from sqlalchemy import func, select, text, update

from services.api.queries import operations
from services.api.queries.operations import Waiting
from shared.database.engine import Database
from shared.database.tables import Call, DeadLetter, Step
from shared.enums import CallKind, StepStatus
from shared.workflow import dead_letters
from tests.support.api.full_agent import AGENT, add_phase_run, create_full_agent
from tests.support.factories import make_agent, make_iteration

ROOT = "http://127.0.0.1"
FORM = {"sec-fetch-site": "same-origin"}


async def store_dead_letters(database: Database, subject: str, number: int) -> list[UUID]:
    """Stores messages without a step for the researcher."""
    async with database.transaction() as session:
        for place in range(number):
            await dead_letters.store(
                session,
                service="researcher",
                subject=subject,
                payload=f"{subject} {place}".encode(),
                code="unreadable_event",
                error="not an event",
                attempts=1,
            )
        ids = await session.scalars(select(DeadLetter.id).where(DeadLetter.subject == subject))
        return list(ids)


async def test_several_dead_letters_are_retried_and_those_that_cannot_be_are_counted(
    database: Database, api: httpx.AsyncClient
) -> None:
    retryable = await store_dead_letters(database, "query.requested", 2)
    # No service of this version consumes it.
    refused = await store_dead_letters(database, "query.renamed", 1)
    others = await store_dead_letters(database, "plan.renamed", 1)
    form = {"letter": [str(each) for each in (*retryable, *refused, uuid4())]}
    answer = await api.post(f"{ROOT}/dead-letters/retry", data=form, headers=FORM)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/dead-letters?retried=2&refused=1"
    async with database.transaction() as session:
        requested = await session.scalars(
            select(DeadLetter.id).where(DeadLetter.retry_requested_at.is_not(None))
        )
        assert set(requested) == set(retryable)
        assert await session.get(DeadLetter, others[0]) is not None
    page = await api.get(f"{ROOT}{answer.headers['location']}")
    assert "2 retries requested." in page.text
    assert "1 message cannot be retried" in page.text


async def test_several_dead_letters_are_discarded(
    database: Database, api: httpx.AsyncClient
) -> None:
    first, second, third = await store_dead_letters(database, "query.requested", 3)
    form = {"letter": [str(first), str(second)]}
    answer = await api.post(f"{ROOT}/dead-letters/discard", data=form, headers=FORM)
    assert answer.headers["location"] == "/dead-letters?discarded=2"
    nothing = await api.post(f"{ROOT}/dead-letters/discard", data={}, headers=FORM)
    assert nothing.headers["location"] == "/dead-letters?discarded=0"
    async with database.transaction() as session:
        assert list(await session.scalars(select(DeadLetter.id))) == [third]


async def test_waiting_steps_are_told_apart_by_what_they_wait_for(database: Database) -> None:
    for name in ("Waits for a worker", "Waits for the model"):
        await make_iteration(database, await make_agent(database, name=name))
    async with database.transaction() as session:
        first, second = await session.scalars(select(Step.id).where(Step.kind == "observe"))
        ago = text("statement_timestamp() - interval '1 minute'")
        await session.execute(update(Step).where(Step.id == first).values(requested_at=ago))
        values = {"waiting_since": func.now(), "error": "the model server answered 503"}
        await session.execute(update(Step).where(Step.id == second).values(**values))
    async with database.transaction() as session:
        waiting = (await operations.read_waiting(session))["observer"]
        assert waiting.oldest_seconds is not None
        assert 60 <= waiting.oldest_seconds < 120
        assert (waiting.for_provider, waiting.provider_error) == (
            1,
            "the model server answered 503",
        )
        await session.execute(update(Step).values(status=StepStatus.COMPLETED))
    async with database.transaction() as session:
        assert await operations.read_waiting(session) == {}


def test_the_waits_of_two_kinds_of_steps_are_those_of_their_service() -> None:
    configuring, conversing = Waiting(3.0, 1, "away"), Waiting(None, 2, None)
    assert configuring.and_also(conversing) == Waiting(3.0, 3, "away")


async def test_the_last_answer_and_the_last_error_of_each_provider_are_known(
    database: Database,
) -> None:
    agent = await make_agent(database)
    await add_phase_run(database, await make_iteration(database, agent))
    failures = [
        {"at": "2026-03-01T10:00:00+00:00", "error": "overloaded"},
        {"at": "2026-03-01T11:00:00+00:00", "error": "too many requests"},
    ]
    async with database.transaction() as session:
        is_model = Call.kind == CallKind.LLM
        await session.execute(update(Call).where(is_model).values(failures=failures))
    async with database.transaction() as session:
        uses = await operations.read_provider_use(session)
    assert set(uses) == {"model", "search"}
    assert uses["model"].answered_at is not None
    assert uses["model"].failed_at == datetime(2026, 3, 1, 11, tzinfo=UTC)
    assert (uses["model"].error, uses["search"].error) == ("too many requests", None)


async def test_the_health_page_is_rendered_without_the_bus(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    await create_full_agent(database)
    page = await api.get(f"{ROOT}/health-of-all")
    assert page.status_code == 200, page.text
    assert "need attention." in page.text
    assert "NATS does not answer" in page.text
    assert "The observer is not running" in page.text
    async with database.transaction() as session:
        state = await operations.read_database_state(session)
    assert state.size_bytes > 0
    assert 1 <= state.connections <= state.max_connections


async def test_names_of_agents_and_numbers_of_iterations_are_only_the_owners(
    database: Database, api: httpx.AsyncClient
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    params = {
        "of": [str(full.agent_id), str(uuid4())],
        "iteration": [str(full.iteration_id), str(uuid4())],
    }
    answer = await api.get(f"{ROOT}/events/names", params=params)
    assert answer.json() == {
        "agents": {str(full.agent_id): AGENT},
        "iterations": {str(full.iteration_id): 2},
    }
    assert (await api.get(f"{ROOT}/events/names")).json() == {"agents": {}, "iterations": {}}
