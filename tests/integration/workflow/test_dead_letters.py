"""Poison: kept with its reason, listed, shown, retried and discarded, over the real bus and the api."""

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
from tests.support.actors import running
from tests.support.api.asking import assert_problem, client_of
from tests.support.letters import (
    MISPLACED,
    SUBJECT,
    UNKNOWN,
    UNREADABLE,
    from_the_future,
    listed,
    none_left,
    one_letter,
    retried,
    rows,
    say,
    told,
)
from tests.support.making import make_agent, make_iteration
from tests.support.processes import nothing
from tests.support.steps import observer, status_is
from tests.support.steps import running as running_actor
from tests.support.waiting import until

FUTURE = b'{"type": "vigil.iteration.v2.started"}'
POISON = {
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
    async with client_of(settings) as client:
        yield client


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler looks more often than it would."""
    monkeypatch.setattr(scheduler, "RECONCILE_SECONDS", 0.05)


async def kept_poison(api: httpx.AsyncClient, bus: Bus, settings: Settings, payload: bytes) -> Any:
    """The letter that `payload` became when an observer heard it."""
    await say(bus, payload)
    async with running(settings, ["observer"]):
        return await one_letter(api)


@pytest.mark.parametrize("kind", POISON)
async def test_poison_is_listed_and_shown_with_its_reason_in_words(
    settings: Settings, api: httpx.AsyncClient, bus: Bus, kind: str
) -> None:
    payload, code, words = POISON[kind]
    letter = await kept_poison(api, bus, settings, payload)
    assert (letter["code"], letter["actor"], letter["subject"]) == (code, "observer", SUBJECT)
    assert (letter["attempts"], letter["step"], letter["refusal"]) == (1, None, None)
    assert [word for word in words if word not in letter["error"]] == []
    shown = (await api.get(f"/dead-letters/{letter['id'][:8]}")).json()
    assert base64.urlsafe_b64decode(shown["payload"]) == payload
    assert shown["text"] == (None if kind == "unreadable" else payload.decode())
    assert {key: shown[key] for key in letter} == letter


@pytest.mark.parametrize("kind", POISON)
async def test_poison_that_is_retried_comes_back_and_is_discarded(
    settings: Settings, api: httpx.AsyncClient, bus: Bus, kind: str
) -> None:
    payload, code, _ = POISON[kind]
    first = await kept_poison(api, bus, settings, payload)
    await retried(api, first)

    async def is_back() -> Any:
        return [letter for letter in await listed(api) if letter["stored_at"] != first["stored_at"]]

    async with running(settings, ["observer", "scheduler"]):
        await until(is_back, what="the letter to be kept again")
    again = await one_letter(api)
    assert (again["id"], again["code"], again["attempts"]) == (first["id"], code, 1)
    assert again["retry_requested_at"] is None
    assert await told(bus, SUBJECT) == [payload, payload]
    assert (await api.delete(f"/dead-letters/{first['id'][:8]}")).status_code == 204
    assert await listed(api) == []
    assert_problem(await api.get(f"/dead-letters/{first['id']}"), 404, first["id"])
    assert_problem(await api.delete(f"/dead-letters/{first['id']}"), 404)


async def test_a_version_from_the_future_is_understood_after_an_upgrade(
    settings: Settings,
    api: httpx.AsyncClient,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = await make_iteration(database, await make_agent(database))
    await kept_poison(api, bus, settings, from_the_future(made))
    letter = await one_letter(api)
    monkeypatch.setitem(codec._BY_TYPE, "vigil.iteration.v2.started", IterationStarted)
    await retried(api, letter)
    async with running_actor(observer(settings, nothing)), running(settings, ["scheduler"]):
        await until(
            partial(status_is, database, made.observe, StepStatus.COMPLETED), what="the step"
        )
        await none_left(api)


async def test_letters_are_listed_newest_first_page_by_page_and_by_actor(
    api: httpx.AsyncClient, database: Database
) -> None:
    for number in range(5):
        await _keep(database, b"%d" % number, actor="observer" if number % 2 else "adviser")
    letters, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get("/dead-letters", params=params)).json()
        letters += page["items"]
        if (cursor := page["next"]) is None:
            break
    errors = [letter["error"] for letter in letters]
    assert errors == ["error 4", "error 3", "error 2", "error 1", "error 0"]
    of_observer = await listed(api, actor="observer")
    assert [letter["error"] for letter in of_observer] == ["error 3", "error 1"]
    await _keep(database, b"1", actor="observer")
    assert (await listed(api))[0]["error"] == "error 1", "what fails again is news"
    assert_problem(await api.get("/dead-letters", params={"cursor": "x"}), 422, "not a cursor")
    assert_problem(await api.get("/dead-letters", params={"limit": 0}), 422, "limit")


async def test_an_id_may_be_cut_where_it_stays_its_own(
    api: httpx.AsyncClient, database: Database
) -> None:
    # Of seventeen, two begin with the same of sixteen digits.
    for number in range(17):
        await _keep(database, b"%d" % number)
    ids = sorted(letter["id"] for letter in await listed(api))
    twins = next(first for first, second in pairwise(ids) if first[0] == second[0])
    assert_problem(await api.get(f"/dead-letters/{twins[0]}"), 409, "Several", twins[0])
    assert_problem(await api.delete(f"/dead-letters/{twins[0]}"), 409, "more of the id")
    found = await api.get(f"/dead-letters/{twins[:18].upper()}")
    assert found.json()["id"] == twins
    for wrong in ("zzz", "%", "_" * 8, str(uuid4())):
        assert_problem(await api.get(f"/dead-letters/{wrong}"), 404, wrong)
    assert len(await listed(api)) == 17


async def test_what_nobody_hears_is_not_retried(api: httpx.AsyncClient, database: Database) -> None:
    """Else who may keep letters could have others told what it may not say itself."""
    await _keep(database, b"{}", subject="analysis.produced", actor="researcher")
    letter = await one_letter(api)
    assert "no researcher of this version consumes analysis.produced" in letter["refusal"]
    answer = await api.post(f"/dead-letters/{letter['id']}/retry")
    assert_problem(answer, 409, "analysis.produced", "discard it")
    assert [row.retry_requested_at for row in await rows(database)] == [None]


async def test_a_retry_that_is_asked_for_twice_is_one(
    api: httpx.AsyncClient, database: Database
) -> None:
    await _keep(database, b"{}")
    first = await retried(api, await one_letter(api))
    assert await retried(api, first) == first
    wished = datetime.fromisoformat(first["retry_requested_at"])
    assert [row.retry_requested_at for row in await rows(database)] == [wished]


async def _keep(
    database: Database, payload: bytes, *, actor: str = "observer", subject: str = SUBJECT
) -> None:
    async with database.transaction() as session:
        await dead_letters.store(
            session,
            actor=actor,
            subject=subject,
            payload=payload,
            code="unreadable_event",
            error=f"error {payload.decode()}",
            attempts=1,
        )
