"""Every other way to name what is anothers': in a query, a cursor, a body, by a name, by a key for what is done once."""

import re
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import httpx
import pytest

from shared.accounts import credentials
from shared.database.tables import IdempotencyKey
from shared.enums import AccessScope
from tests.support.api.asking import MISSION, assert_problem
from tests.support.attacks.routes import ENDLESS, Route, guarded
from tests.support.attacks.world import Person, World, from_anywhere, person

ASKED = [
    (route, question)
    for route in guarded()
    if route.is_safe and not route.is_operated
    for question in route.questions
]
PAGED = [route for route, question in ASKED if question == "cursor"]
ONCE = [route for route in guarded() if "Idempotency-Key" in route.headers]
UNSAFE = [route for route in guarded() if not route.is_safe and not route.is_operated]
AS_THINGS_STAND: dict[tuple[str, str], int] = {
    ("POST", "/api/v1/sign-out"): 409,
    ("POST", "/api/v1/dead-letters/{letter}/retry"): 409,
}
IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NO_PAGES = ("/api/v1/costs", "/api/v1/agents/{agent}/costs", "/api/v1/dead-letters")
"""Lists of which a victim has one page, however small: its cost are of today, and one of its letters is about no step,
which is told to operators alone.
"""
NAMED = ("agent", "node_id", "edge_id", "node_type", "edge_type", "item_id", "letter", "user")


async def asked(
    client: httpx.AsyncClient, route: Route, values: dict[str, str], **more: Any
) -> httpx.Response:
    url = f"http://127.0.0.1{route.url(values)}"
    return await client.request(route.method, url, json=route.says(values), **more)


def test_there_is_something_to_ask() -> None:
    assert len(ASKED) > len(PAGED) > 15
    assert ("/api/v1/events", "agent") in [(route.path, question) for route, question in ASKED]
    assert ("POST", "/api/v1/agents") in [(route.method, route.path) for route in ONCE]


@pytest.mark.parametrize(("route", "question"), ASKED, ids=str)
async def test_a_question_about_anothers_is_answered_like_one_about_nothing(
    world: World, route: Route, question: str
) -> None:
    if route.path in ENDLESS and question != "agent":
        return
    names = ("agent",) if route.path in ENDLESS else NAMED
    async with from_anywhere(world.app, headers=world.attacker.bearer) as client:
        for name in (*names, None):
            named = "Of victim" if name is None else world.victim.values[name]
            answer = await asked(client, route, world.attacker.values, params={question: named})
            if route.path in ENDLESS:
                assert_problem(answer, 404, named)
            assert answer.status_code in (200, 404, 422), answer.text
            assert_tells_nothing(answer, world.victim, but=named)
            if answer.status_code == 200 and question != "cursor":
                nothing = str(uuid4()) if IDS.fullmatch(named) else "Of nobody"
                of_nothing = await asked(
                    client, route, world.attacker.values, params={question: nothing}
                )
                assert of_nothing.text == answer.text


@pytest.mark.parametrize("route", PAGED, ids=str)
async def test_anothers_cursor_leads_to_nothing_of_theirs(world: World, route: Route) -> None:
    params: dict[str, Any] = {"limit": 1}
    async with from_anywhere(world.app) as client:
        page = await asked(
            client, route, world.victim.values, params=params, headers=world.victim.bearer
        )
        cursor = page.json()["next"]
        assert cursor or route.path in NO_PAGES
        for limit in (1, 100) if cursor else ():
            answer = await asked(
                client,
                route,
                world.attacker.values,
                params={"limit": limit, "cursor": cursor},
                headers=world.attacker.bearer,
            )
            assert answer.status_code in (200, 422), answer.text
            assert_tells_nothing(answer, world.victim)


async def test_a_name_that_only_another_uses_names_nothing(world: World) -> None:
    """People name agents by name, and letters by how their ids begin."""
    forms = {"agent": "Of victim", "letter": world.victim.values["letter"][:8]}
    before = await world.state()
    async with from_anywhere(world.app, headers=world.attacker.bearer) as client:
        for route in guarded():
            for parameter in set(route.parameters) & set(forms):
                values = {**world.attacker.values, parameter: forms[parameter]}
                assert_problem(await asked(client, route, values), 404)
        destination = {"kind": "webhook", "address": "https://hooks.example.org/mine"}
        for agent in ("Of victim", world.victim.values["agent"]):
            wanted = {**destination, "agent": agent}
            assert_problem(await client.post("/destinations", json=wanted), 404, agent)
    assert await world.state() == before


async def test_an_agent_of_the_same_name_is_ones_own(world: World) -> None:
    async with from_anywhere(world.app, headers=world.attacker.bearer) as client:
        made = await client.post("/agents", json={"mission": MISSION, "name": "Of victim"})
        assert made.status_code == 201
        shown = await client.get("/agents/Of victim")
        assert shown.json()["id"] == made.json()["id"]
        before = await world.state()
        for parameter in ("node_id", "message_id", "memory_id", "edge_type", "number"):
            values = {
                **world.attacker.values,
                "agent": "Of victim",
                parameter: world.victim.values[parameter],
            }
            for route in guarded():
                if {"agent", parameter} <= set(route.parameters):
                    assert_problem(await asked(client, route, values), 404)
        assert await world.state() == before
        await client.delete("/agents/Of victim")


@pytest.mark.parametrize("route", ONCE, ids=str)
async def test_a_key_replays_to_nobody_else(world: World, route: Route) -> None:
    key = {"idempotency-key": f"of-{uuid4()}"}
    maker, made_by = world.victim.bearer, "victim"
    if route.is_operated:
        maker, made_by = await _operator(world), "chief"
    reads = bearer_of(await world.token(made_by, [AccessScope.READ]))
    async with from_anywhere(world.app, headers=key) as client:
        made = await asked(client, route, world.victim.values, headers=maker)
        assert made.status_code == 201, made.text
        again = await asked(client, route, world.victim.values, headers=maker)
        assert "idempotency-replayed" in again.headers or "made-already" in again.text
        before = await world.state()
        for bearer, refused in (({}, 401), (reads, 403)):
            answer = await asked(client, route, world.victim.values, headers=bearer)
            assert_problem(answer, refused)
        assert await world.state() == before
        theirs = await asked(client, route, world.attacker.values, headers=world.attacker.bearer)
        assert theirs.status_code == (403 if route.is_operated else 201), theirs.text
        assert "idempotency-replayed" not in theirs.headers
        assert made.text != theirs.text
        assert not set(IDS.findall(made.text)) & set(IDS.findall(theirs.text))


async def test_what_a_removed_user_made_once_replays_to_no_heir(world: World) -> None:
    key = {"idempotency-key": "of-the-dead"}
    made = []
    for _ in range(2):
        token = await world.token("mortal", [AccessScope.READ, AccessScope.WRITE])
        bearer = {"authorization": f"Bearer {token}", **key}
        async with from_anywhere(world.app, headers=bearer) as client:
            answer = await client.post("/agents", json={"mission": MISSION})
        assert answer.status_code == 201
        assert "idempotency-replayed" not in answer.headers
        made.append(answer.json()["id"])
        async with world.database.transaction() as session:
            mortal = await credentials.find_user(session, "mortal")
            assert mortal is not None
            await credentials.delete_user(session, mortal.id)
            assert await session.get(IdempotencyKey, (mortal.id, "of-the-dead")) is None
    assert made[0] != made[1]


async def test_no_secret_is_told_again(world: World) -> None:
    for route in guarded():
        if not route.is_safe or route.is_operated or route.path in ENDLESS:
            continue
        async with from_anywhere(world.app, headers=world.victim.bearer) as client:
            answer = await asked(client, route, world.victim.values)
        assert answer.status_code == 200, f"{route}: {answer.text[:300]}"
        for secret in world.victim.secrets:
            assert secret not in answer.text, str(route)


async def test_what_all_spend_is_told_to_operators_alone(world: World) -> None:
    """What the others spend is what all spend without one's own."""
    operates = await _operator(world)
    reads = bearer_of(await world.token("chief", [AccessScope.READ]))
    for bearer, is_told in ((operates, True), (reads, False), (world.attacker.bearer, False)):
        async with from_anywhere(world.app, headers=bearer) as client:
            told = (await client.get("/costs")).json()
        assert (told["allowance"] is not None) is is_told


async def test_whose_it_is_may(world: World) -> None:
    """Or the attacks would be refused for another reason than the one that they are to be refused for."""
    doer = await person(world.database, world.app, "doer")
    async with from_anywhere(world.app, headers=doer.bearer) as client:
        for route in sorted(UNSAFE, key=_destruction):
            answer = await asked(client, route, doer.values)
            expected = AS_THINGS_STAND.get((route.method, route.path))
            is_so = answer.is_success if expected is None else answer.status_code == expected
            assert is_so, f"{route}: {answer.status_code} {answer.text[:300]}"


def assert_tells_nothing(answer: httpx.Response, of: Person, but: str = "") -> None:
    """Besides what was asked with, which a refusal may repeat."""
    told = unquote(answer.text)
    for private in of.private:
        assert private in but or private not in told.replace(but or "\0", "")


def bearer_of(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def _operator(world: World) -> dict[str, str]:
    async with world.database.transaction() as session:
        await credentials.ensure_owner(session, "chief")
    return bearer_of(await world.token("chief", tuple(AccessScope)))


def _destruction(route: Route) -> tuple[bool, bool, bool, int]:
    """What the others need goes last: an agent after its things, the token that is shown at the very end."""
    is_delete = route.method == "DELETE"
    return (
        route.path.endswith("{token_id}"),
        is_delete and route.path.endswith("{agent}"),
        is_delete,
        -len(route.parameters),
    )
