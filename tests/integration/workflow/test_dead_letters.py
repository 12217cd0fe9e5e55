"""Invalid messages: stored with the reason, listed, shown, retried and discarded, over real NATS and the API."""

import base64
from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import pytest

from services.scheduler import scheduler
from shared.database.engine import Database
from shared.enums import StepStatus
from shared.events import codec
from shared.events.models import IterationStarted
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.workflow import dead_letters
from tests.support.api.clients import assert_problem, create_client
from tests.support.factories import make_agent, make_iteration
from tests.support.processes import nothing
from tests.support.running_services import running_services
from tests.support.steps import observer, running_service, status_is
from tests.support.stored_dead_letters import (
    MISPLACED,
    SUBJECT,
    UNKNOWN,
    UNREADABLE,
    future_version_payload,
    list_letters,
    publish_payload,
    request_retry,
    rows,
    stream_payloads,
    wait_for_letter,
    wait_until_none,
)
from tests.support.waiting import wait_until

FUTURE = b'{"type": "vigil.iteration.v2.started"}'
INVALID_MESSAGES = {
    "unreadable": (UNREADABLE, "unreadable_event", ["not an event", "Invalid JSON"]),
    "unknown": (
        UNKNOWN,
        "unknown_event",
        ["this version of Vigil", "does not know", "'vigil.nothing.v1.happened'", "upgrade"],
    ),
    "future": (
        FUTURE,
        "unknown_event",
        ["does not know version 2 of iteration.started", "upgrade, then retry"],
    ),
    "misplaced": (MISPLACED, "misplaced_event", ["vigil.plan.v1.produced", "wrong subject"]),
}


@pytest.fixture
async def api(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(settings) as client:
        yield client


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the scheduler poll more often."""
    monkeypatch.setattr(scheduler, "RECONCILE_SECONDS", 0.05)


async def make_dead_letter(
    api: httpx.AsyncClient, bus: Bus, settings: Settings, payload: bytes
) -> Any:
    """The dead letter that an observer makes of `payload`."""
    await publish_payload(bus, payload)
    async with running_services(settings, ["observer"]):
        return await wait_for_letter(api)


@pytest.mark.parametrize("kind", INVALID_MESSAGES)
async def test_an_invalid_message_is_listed_and_shown_with_its_reason(
    settings: Settings, api: httpx.AsyncClient, bus: Bus, kind: str
) -> None:
    payload, code, words = INVALID_MESSAGES[kind]
    dead_letter = await make_dead_letter(api, bus, settings, payload)
    assert (dead_letter["code"], dead_letter["service"], dead_letter["subject"]) == (
        code,
        "observer",
        SUBJECT,
    )
    assert (dead_letter["attempts"], dead_letter["step"], dead_letter["refusal"]) == (1, None, None)
    assert [word for word in words if word not in dead_letter["error"]] == []
    details = (await api.get(f"/dead-letters/{dead_letter['id'][:8]}")).json()
    assert base64.urlsafe_b64decode(details["payload"]) == payload
    assert details["text"] == (None if kind == "unreadable" else payload.decode())
    assert {key: details[key] for key in dead_letter} == dead_letter


@pytest.mark.parametrize("kind", INVALID_MESSAGES)
async def test_a_retried_invalid_message_returns_and_can_be_discarded(
    settings: Settings, api: httpx.AsyncClient, bus: Bus, kind: str
) -> None:
    payload, code, _ = INVALID_MESSAGES[kind]
    first = await make_dead_letter(api, bus, settings, payload)
    await request_retry(api, first)

    async def is_back() -> Any:
        return [
            dead_letter
            for dead_letter in await list_letters(api)
            if dead_letter["stored_at"] != first["stored_at"]
        ]

    async with running_services(settings, ["observer", "scheduler"]):
        await wait_until(is_back, what="the dead letter to be stored again")
    again = await wait_for_letter(api)
    assert (again["id"], again["code"], again["attempts"]) == (first["id"], code, 1)
    assert again["retry_requested_at"] is None
    assert await stream_payloads(bus, SUBJECT) == [payload, payload]
    assert (await api.delete(f"/dead-letters/{first['id'][:8]}")).status_code == 204
    assert await list_letters(api) == []
    assert_problem(await api.get(f"/dead-letters/{first['id']}"), 404, first["id"])
    assert_problem(await api.delete(f"/dead-letters/{first['id']}"), 404)


async def test_an_event_of_a_newer_version_is_handled_after_an_upgrade(
    settings: Settings,
    api: httpx.AsyncClient,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = await make_iteration(database, await make_agent(database))
    await make_dead_letter(api, bus, settings, future_version_payload(started))
    dead_letter = await wait_for_letter(api)
    monkeypatch.setitem(codec._BY_TYPE, "vigil.iteration.v2.started", IterationStarted)
    await request_retry(api, dead_letter)
    async with (
        running_service(observer(settings, nothing)),
        running_services(settings, ["scheduler"]),
    ):
        await wait_until(
            partial(status_is, database, started.observe, StepStatus.COMPLETED), what="the step"
        )
        await wait_until_none(api)


async def test_dead_letters_are_listed_newest_first_page_by_page_and_by_service(
    api: httpx.AsyncClient, database: Database
) -> None:
    for number in range(5):
        await _store(database, b"%d" % number, service="observer" if number % 2 else "adviser")
    dead_letters, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get("/dead-letters", params=params)).json()
        dead_letters += page["items"]
        if (cursor := page["next"]) is None:
            break
    errors = [dead_letter["error"] for dead_letter in dead_letters]
    assert errors == ["error 4", "error 3", "error 2", "error 1", "error 0"]
    of_observer = await list_letters(api, service="observer")
    assert [dead_letter["error"] for dead_letter in of_observer] == ["error 3", "error 1"]
    await _store(database, b"1", service="observer")
    assert (await list_letters(api))[0]["error"] == "error 1", (
        "a repeated failure moves to the front"
    )
    assert_problem(await api.get("/dead-letters", params={"cursor": "x"}), 422, "not a cursor")
    assert_problem(await api.get("/dead-letters", params={"limit": 0}), 422, "limit")


async def test_an_id_may_be_abbreviated_to_a_unique_prefix(
    api: httpx.AsyncClient, database: Database
) -> None:
    # Of seventeen ids, two begin with the same hexadecimal digit.
    for number in range(17):
        await _store(database, b"%d" % number)
    ids = sorted(dead_letter["id"] for dead_letter in await list_letters(api))
    twin_id = next(first for first, second in pairwise(ids) if first[0] == second[0])
    assert_problem(await api.get(f"/dead-letters/{twin_id[0]}"), 409, "Several", twin_id[0])
    assert_problem(
        await api.delete(f"/dead-letters/{twin_id[0]}"), 409, "more characters of the id"
    )
    response = await api.get(f"/dead-letters/{twin_id[:18].upper()}")
    assert response.json()["id"] == twin_id
    for wrong in ("zzz", "%", "_" * 8, str(uuid4())):
        assert_problem(await api.get(f"/dead-letters/{wrong}"), 404, wrong)
    assert len(await list_letters(api)) == 17


async def test_a_message_without_a_consumer_is_not_retried(
    api: httpx.AsyncClient, database: Database
) -> None:
    """Otherwise a service could use a dead letter to publish an event that it may not publish itself."""
    await _store(database, b"{}", subject="analysis.produced", service="researcher")
    dead_letter = await wait_for_letter(api)
    assert "no researcher of this version consumes analysis.produced" in dead_letter["refusal"]
    answer = await api.post(f"/dead-letters/{dead_letter['id']}/retry")
    assert_problem(answer, 409, "analysis.produced", "discard it")
    assert [row.retry_requested_at for row in await rows(database)] == [None]


async def test_a_retry_requested_twice_is_stored_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    await _store(database, b"{}")
    first = await request_retry(api, await wait_for_letter(api))
    assert await request_retry(api, first) == first
    requested_at = datetime.fromisoformat(first["retry_requested_at"])
    assert [row.retry_requested_at for row in await rows(database)] == [requested_at]


async def _store(
    database: Database, payload: bytes, *, service: str = "observer", subject: str = SUBJECT
) -> None:
    async with database.transaction() as session:
        await dead_letters.store(
            session,
            service=service,
            subject=subject,
            payload=payload,
            code="unreadable_event",
            error=f"error {payload.decode()}",
            attempts=1,
        )
