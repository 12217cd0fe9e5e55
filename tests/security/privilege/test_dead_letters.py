"""Dead letters under each service's own NATS user and Postgres role: stored, retried, republished, discarded."""

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import psycopg
import pytest

from services.scheduler import scheduler as scheduler_module
from shared.enums import IterationStatus
from shared.runtime.connections import create_bus, create_database
from shared.runtime.settings import Settings
from tests.support.api.clients import create_client
from tests.support.factories import make_agent
from tests.support.running_services import BUILDERS, ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
from tests.support.secured_installation import SecuredInstallation
from tests.support.stored_dead_letters import (
    UNREADABLE,
    list_letters,
    publish_payload,
    request_retry,
    wait_for_letter,
    wait_until_none,
)
from tests.support.waiting import wait_until


@pytest.fixture
async def api(installation: SecuredInstallation) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(installation.settings("api")) as client:
        yield client


@pytest.fixture(autouse=True)
def _quick_reconciliation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "RECONCILE_SECONDS", 0.05)


def settings_of_each(installation: SecuredInstallation, sandbox: str) -> dict[str, Settings]:
    return {name: installation.settings(name, sandbox_url=sandbox) for name in BUILDERS}


@pytest.mark.parametrize(
    ("publisher", "subject", "consumer"),
    [
        ("observer", "query.requested", "researcher"),
        ("aggregator", "iteration.completed", "scheduler"),
    ],
)
async def test_an_unreadable_message_is_republished_and_comes_back(
    installation: SecuredInstallation,
    api: httpx.AsyncClient,
    sandbox: str,
    publisher: str,
    subject: str,
    consumer: str,
) -> None:
    bus = create_bus(installation.settings(publisher), publisher)
    await bus.connect()
    async with running_services(settings_of_each(installation, sandbox)):
        await publish_payload(bus, UNREADABLE, subject)
        first = await wait_for_letter(api)
        assert first["service"] == consumer
        await request_retry(api, first)

        async def is_back() -> bool:
            return [item["stored_at"] > first["stored_at"] for item in await list_letters(api)] == [
                True
            ]

        await wait_until(is_back, what="the letter to come back")
    await bus.close()
    assert (await api.delete(f"/dead-letters/{first['id']}")).status_code == 204
    assert await list_letters(api) == []


async def test_a_failed_step_is_retried_and_completes(
    installation: SecuredInstallation, api: httpx.AsyncClient, sandbox: str
) -> None:
    sandbox_control = Sandbox(sandbox)
    sandbox_control.faults(
        {"kind": "status", "status": 401, "phase": "knowledge_acquisition", "nth": 1}
    )
    database = create_database(installation.settings("api"), "api")
    agent = await make_agent(database, name=f"Watch {uuid4()}")
    async with running_services(settings_of_each(installation, sandbox)):
        ended = await ended_iteration(database, agent, 1)
        dead_letter = await wait_for_letter(api)
        assert dead_letter["step"]["kind"] == "query"
        await request_retry(api, dead_letter)
        await wait_until_none(api)

        async def is_done() -> bool:
            iteration = (await api.get(f"/iterations/{ended.id}")).json()
            steps = {step["id"]: step["status"] for step in iteration["steps"]}
            return bool(steps[dead_letter["step"]["id"]] == "completed")

        await wait_until(is_done, what="the step to end well")
    assert ended.status in (IterationStatus.COMPLETED, IterationStatus.FAILED)
    assert (await api.delete(f"/agents/{agent.id}")).status_code == 204
    await database.close()


def test_the_scheduler_deletes_only_dead_letters_with_a_retry_request(
    installation: SecuredInstallation,
) -> None:
    with installation.connect("migrate") as owner, installation.connect("scheduler") as scheduler:
        insert = "insert into dead_letters (id, service, subject, payload, code, error, attempts, retry_requested_at)"
        for retry_requested_at in ("null", "now()"):
            owner.execute(
                f"{insert} values (gen_random_uuid(), 'observer', 'x', '', '', '', 1, {retry_requested_at})"
            )
        deleted = scheduler.execute("delete from dead_letters").rowcount
        remaining = owner.execute("delete from dead_letters").rowcount
    assert (deleted, remaining) == (1, 1)


def test_a_service_cannot_change_the_dead_letters_of_others(
    installation: SecuredInstallation,
) -> None:
    with installation.connect("migrate") as owner, installation.connect("researcher") as researcher:
        owner.execute(
            "insert into dead_letters (id, service, subject, payload, code, error, attempts)"
            " values (gen_random_uuid(), 'observer', 'x', '', '', '', 1)"
        )
        assert researcher.execute("update dead_letters set error = 'x'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            researcher.execute("select payload from dead_letters")
        owner.execute("delete from dead_letters")
