"""Other ways to refer to rows of other users: query, cursor, body, name and idempotency key."""

import re
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import httpx
import pytest

from shared.accounts import credentials
from shared.database.tables import IdempotencyKey
from shared.enums import AccessScope
from tests.support.api.clients import MISSION, assert_problem
from tests.support.attack_mode import in_full
from tests.support.attacks.attack_setup import (
    AttackSetup,
    Person,
    client_from_new_address,
    make_person,
)
from tests.support.attacks.routes import STREAMS, Route, guarded_routes

EXPECTED_STATUS: dict[tuple[str, str], int] = {
    ("POST", "/api/v1/sign-out"): 409,
    ("POST", "/api/v1/dead-letters/{dead_letter}/retry"): 409,
}
IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SINGLE_PAGE_LISTS = (
    "/api/v1/costs",
    "/api/v1/agents/{agent}/costs",
    "/api/v1/agents/{agent}/checks",
    "/api/v1/dead-letters",
)
"""Lists of which the victim has only one page: its costs are of today, and one of its dead letters has no step and is
shown only to operators.
"""
NAME_PARAMETERS = (
    "agent",
    "node_id",
    "edge_id",
    "node_type",
    "edge_type",
    "item_id",
    "dead_letter",
    "user",
)


def queries() -> list[tuple[Route, str]]:
    """Routes with each of their query parameters."""
    return [
        (route, query_parameter)
        for route in guarded_routes()
        if route.is_safe and not route.is_operator_only
        for query_parameter in route.query_parameters
    ]


def paginated() -> list[Route]:
    return [route for route, query_parameter in queries() if query_parameter == "cursor"]


def idempotent() -> list[Route]:
    return [route for route in guarded_routes() if "Idempotency-Key" in route.headers]


async def send(
    client: httpx.AsyncClient, route: Route, values: dict[str, str], **more: Any
) -> httpx.Response:
    url = f"http://127.0.0.1{route.url(values)}"
    return await client.request(route.method, url, json=route.body_with(values), **more)


def test_there_are_query_parameters_to_attack() -> None:
    assert len(queries()) > len(paginated()) > 15
    assert ("/api/v1/events", "agent") in [
        (route.path, query_parameter) for route, query_parameter in queries()
    ]
    assert ("POST", "/api/v1/agents") in [(route.method, route.path) for route in idempotent()]


async def test_query_values_of_others_are_answered_like_unknown_values(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    """The short form tries the name and every third id at each parameter, in turn."""
    for number, (route, parameter) in enumerate(queries()):
        is_stream = route.path in STREAMS
        if is_stream and parameter != "agent":
            continue
        names = NAME_PARAMETERS if in_full() else NAME_PARAMETERS[number % 3 :: 3]
        for name in (*(("agent",) if is_stream else names), None):
            with subtests.test(f"{route}: {parameter} of {name}"):
                await _request_value_of_another(attack_setup, route, parameter, name)


async def _request_value_of_another(
    attack_setup: AttackSetup, route: Route, parameter: str, name: str | None
) -> None:
    """Without a name, the value is the name of the victim's agent."""
    own, victim = attack_setup.attacker, attack_setup.victim
    value = "Of victim" if name is None else victim.values[name]
    async with client_from_new_address(attack_setup.app, headers=own.bearer) as client:
        answer = await send(client, route, own.values, params={parameter: value})
        if route.path in STREAMS:
            assert_problem(answer, 404, value)
        assert answer.status_code in (200, 404, 422), answer.text
        assert_discloses_nothing(answer, victim, allowed=value)
        if answer.status_code == 200 and parameter != "cursor":
            unknown = str(uuid4()) if IDS.fullmatch(value) else "Of nobody"
            unknown_answer = await send(client, route, own.values, params={parameter: unknown})
            assert unknown_answer.text == answer.text


async def test_a_cursor_of_another_user_discloses_nothing(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    own, victim = attack_setup.attacker, attack_setup.victim
    async with client_from_new_address(attack_setup.app) as client:
        for route in paginated():
            with subtests.test(str(route)):
                page = await send(
                    client, route, victim.values, params={"limit": 1}, headers=victim.bearer
                )
                cursor = page.json()["next"]
                assert cursor or route.path in SINGLE_PAGE_LISTS
                for limit in (1, 100) if cursor else ():
                    params = {"limit": limit, "cursor": cursor}
                    answer = await send(
                        client, route, own.values, params=params, headers=own.bearer
                    )
                    assert answer.status_code in (200, 422), answer.text
                    assert_discloses_nothing(answer, victim)


async def test_names_of_other_users_rows_are_not_found(attack_setup: AttackSetup) -> None:
    """Agents can be referred to by name, and dead letters by a prefix of their id."""
    forms = {"agent": "Of victim", "dead_letter": attack_setup.victim.values["dead_letter"][:8]}
    before = await attack_setup.state()
    async with client_from_new_address(
        attack_setup.app, headers=attack_setup.attacker.bearer
    ) as client:
        for route in guarded_routes():
            for parameter in set(route.parameters) & set(forms):
                values = {**attack_setup.attacker.values, parameter: forms[parameter]}
                assert_problem(await send(client, route, values), 404)
        destination = {"kind": "webhook", "address": "https://hooks.example.org/mine"}
        for agent in ("Of victim", attack_setup.victim.values["agent"]):
            body = {**destination, "agent": agent}
            assert_problem(await client.post("/destinations", json=body), 404, agent)
    assert await attack_setup.state() == before


async def test_a_name_used_by_two_users_refers_to_ones_own_agent(attack_setup: AttackSetup) -> None:
    async with client_from_new_address(
        attack_setup.app, headers=attack_setup.attacker.bearer
    ) as client:
        created = await client.post("/agents", json={"mission": MISSION, "name": "Of victim"})
        assert created.status_code == 201
        fetched = await client.get("/agents/Of victim")
        assert fetched.json()["id"] == created.json()["id"]
        before = await attack_setup.state()
        for parameter in ("node_id", "message_id", "memory_id", "edge_type", "number"):
            values = {
                **attack_setup.attacker.values,
                "agent": "Of victim",
                parameter: attack_setup.victim.values[parameter],
            }
            for route in guarded_routes():
                if {"agent", parameter} <= set(route.parameters):
                    assert_problem(await send(client, route, values), 404)
        assert await attack_setup.state() == before
        await client.delete("/agents/Of victim")


async def test_an_idempotency_key_replays_only_to_its_user(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    for route in idempotent():
        with subtests.test(str(route)):
            await _replay_to_its_user_only(attack_setup, route)


async def _replay_to_its_user_only(attack_setup: AttackSetup, route: Route) -> None:
    key = {"idempotency-key": f"of-{uuid4()}"}
    creator, creator_name = attack_setup.victim.bearer, "victim"
    if route.is_operator_only:
        creator, creator_name = await _operator(attack_setup), "chief"
    read_only = bearer_of(await attack_setup.token(creator_name, [AccessScope.READ]))
    async with client_from_new_address(attack_setup.app, headers=key) as client:
        created = await send(client, route, attack_setup.victim.values, headers=creator)
        assert created.status_code == 201, created.text
        repeated = await send(client, route, attack_setup.victim.values, headers=creator)
        assert "idempotency-replayed" in repeated.headers or "made-already" in repeated.text
        before = await attack_setup.state()
        for bearer, status in (({}, 401), (read_only, 403)):
            answer = await send(client, route, attack_setup.victim.values, headers=bearer)
            assert_problem(answer, status)
        assert await attack_setup.state() == before
        other_response = await send(
            client, route, attack_setup.attacker.values, headers=attack_setup.attacker.bearer
        )
        assert other_response.status_code == (403 if route.is_operator_only else 201), (
            other_response.text
        )
        assert "idempotency-replayed" not in other_response.headers
        assert created.text != other_response.text
        assert not set(IDS.findall(created.text)) & set(IDS.findall(other_response.text))


async def test_idempotency_keys_of_a_removed_user_are_not_replayed(
    attack_setup: AttackSetup,
) -> None:
    key = {"idempotency-key": "of-the-dead"}
    agent_ids = []
    for _ in range(2):
        token = await attack_setup.token("mortal", [AccessScope.READ, AccessScope.WRITE])
        bearer = {"authorization": f"Bearer {token}", **key}
        async with client_from_new_address(attack_setup.app, headers=bearer) as client:
            answer = await client.post("/agents", json={"mission": MISSION})
        assert answer.status_code == 201
        assert "idempotency-replayed" not in answer.headers
        agent_ids.append(answer.json()["id"])
        async with attack_setup.database.transaction() as session:
            mortal = await credentials.find_user(session, "mortal")
            assert mortal is not None
            await credentials.delete_user(session, mortal.id)
            assert await session.get(IdempotencyKey, (mortal.id, "of-the-dead")) is None
    assert agent_ids[0] != agent_ids[1]


async def test_no_secret_is_shown_again(attack_setup: AttackSetup) -> None:
    for route in guarded_routes():
        if not route.is_safe or route.is_operator_only or route.path in STREAMS:
            continue
        async with client_from_new_address(
            attack_setup.app, headers=attack_setup.victim.bearer
        ) as client:
            answer = await send(client, route, attack_setup.victim.values)
        assert answer.status_code == 200, f"{route}: {answer.text[:300]}"
        for secret in attack_setup.victim.secrets:
            assert secret not in answer.text, str(route)


async def test_the_total_budget_is_shown_only_to_operators(attack_setup: AttackSetup) -> None:
    """From the total, a user could derive what the others spend."""
    operator = await _operator(attack_setup)
    read_only = bearer_of(await attack_setup.token("chief", [AccessScope.READ]))
    for bearer, is_included in (
        (operator, True),
        (read_only, False),
        (attack_setup.attacker.bearer, False),
    ):
        async with client_from_new_address(attack_setup.app, headers=bearer) as client:
            costs = (await client.get("/costs")).json()
        assert (costs["usage"] is not None) is is_included


async def test_the_owner_may_use_every_route(attack_setup: AttackSetup) -> None:
    """Otherwise the attacks would be refused for another reason than missing permission."""
    owner = await make_person(attack_setup.database, attack_setup.app, "doer")
    unsafe = [each for each in guarded_routes() if not each.is_safe and not each.is_operator_only]
    async with client_from_new_address(attack_setup.app, headers=owner.bearer) as client:
        for route in sorted(unsafe, key=_destruction_order):
            answer = await send(client, route, owner.values)
            expected = EXPECTED_STATUS.get((route.method, route.path))
            is_expected = answer.is_success if expected is None else answer.status_code == expected
            assert is_expected, f"{route}: {answer.status_code} {answer.text[:300]}"


def assert_discloses_nothing(answer: httpx.Response, person: Person, allowed: str = "") -> None:
    """Check that the answer has no private value except the requested one, which a refusal may repeat."""
    text = unquote(answer.text)
    for private in person.private:
        assert private in allowed or private not in text.replace(allowed or "\0", "")


def bearer_of(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def _operator(attack_setup: AttackSetup) -> dict[str, str]:
    async with attack_setup.database.transaction() as session:
        await credentials.ensure_owner(session, "chief")
    return bearer_of(await attack_setup.token("chief", tuple(AccessScope)))


def _destruction_order(route: Route) -> tuple[bool, bool, bool, int]:
    """Sort key that puts destructive routes last: an agent after its rows, the used token at the very end."""
    is_delete = route.method == "DELETE"
    return (
        route.path.endswith("{token_id}"),
        is_delete and route.path.endswith("{agent}"),
        is_delete,
        -len(route.parameters),
    )
