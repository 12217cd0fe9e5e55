"""Dead letters under each service's own NATS user and Postgres role: kept, retried, published again, discarded."""

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import psycopg
import pytest

from services.scheduler import scheduler as clock
from shared.enums import IterationStatus
from shared.runtime.connections import create_bus, create_database
from shared.runtime.settings import Settings
from tests.support.actors import BUILDERS, ended_iteration, running
from tests.support.api.asking import client_of
from tests.support.guarded import Guarded
from tests.support.letters import UNREADABLE, listed, none_left, one_letter, retried, say
from tests.support.levers import Sandbox
from tests.support.making import make_agent
from tests.support.waiting import until


@pytest.fixture
async def api(closed: Guarded) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(closed.settings("api")) as client:
        yield client


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "RECONCILE_SECONDS", 0.05)


def settings_of_each(closed: Guarded, sandbox: str) -> dict[str, Settings]:
    return {name: closed.settings(name, sandbox_url=sandbox) for name in BUILDERS}


@pytest.mark.parametrize(
    ("sayer", "subject", "hearer"),
    [
        ("observer", "query.requested", "researcher"),
        ("aggregator", "iteration.completed", "scheduler"),
    ],
)
async def test_poison_is_published_again_and_comes_back(
    closed: Guarded, api: httpx.AsyncClient, sandbox: str, sayer: str, subject: str, hearer: str
) -> None:
    bus = create_bus(closed.settings(sayer), sayer)
    await bus.connect()
    async with running(settings_of_each(closed, sandbox)):
        await say(bus, UNREADABLE, subject)
        first = await one_letter(api)
        assert first["actor"] == hearer
        await retried(api, first)

        async def is_back() -> bool:
            return [each["stored_at"] > first["stored_at"] for each in await listed(api)] == [True]

        await until(is_back, what="the letter to come back")
    await bus.close()
    assert (await api.delete(f"/dead-letters/{first['id']}")).status_code == 204
    assert await listed(api) == []


async def test_a_failed_step_is_retried_and_ends_well(
    closed: Guarded, api: httpx.AsyncClient, sandbox: str
) -> None:
    levers = Sandbox(sandbox)
    levers.faults({"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1})
    database = create_database(closed.settings("api"), "api")
    agent = await make_agent(database, name=f"Watch {uuid4()}")
    async with running(settings_of_each(closed, sandbox)):
        ended = await ended_iteration(database, agent, 1)
        letter = await one_letter(api)
        assert letter["step"]["kind"] == "query"
        await retried(api, letter)
        await none_left(api)

        async def is_done() -> bool:
            found = (await api.get(f"/iterations/{ended.id}")).json()
            steps = {step["id"]: step["status"] for step in found["steps"]}
            return bool(steps[letter["step"]["id"]] == "completed")

        await until(is_done, what="the step to end well")
    assert ended.status in (IterationStatus.COMPLETED, IterationStatus.FAILED)
    assert (await api.delete(f"/agents/{agent.id}")).status_code == 204
    await database.close()


def test_the_scheduler_deletes_nothing_whose_retry_was_not_asked_for(closed: Guarded) -> None:
    with closed.connect("migrate") as owner, closed.connect("scheduler") as scheduler:
        letter = "insert into dead_letters (id, actor, subject, payload, code, error, attempts, retry_requested_at)"
        for wished_at in ("null", "now()"):
            owner.execute(
                f"{letter} values (gen_random_uuid(), 'observer', 'x', '', '', '', 1, {wished_at})"
            )
        deleted = scheduler.execute("delete from dead_letters").rowcount
        left = owner.execute("delete from dead_letters").rowcount
    assert (deleted, left) == (1, 1)


def test_who_keeps_a_letter_cannot_touch_anothers(closed: Guarded) -> None:
    with closed.connect("migrate") as owner, closed.connect("researcher") as researcher:
        owner.execute(
            "insert into dead_letters (id, actor, subject, payload, code, error, attempts)"
            " values (gen_random_uuid(), 'observer', 'x', '', '', '', 1)"
        )
        assert researcher.execute("update dead_letters set error = 'x'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            researcher.execute("select payload from dead_letters")
        owner.execute("delete from dead_letters")
