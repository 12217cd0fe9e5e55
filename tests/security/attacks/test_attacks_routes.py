"""Every route, asked by a stranger, by another user, and by credentials that are not good enough."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import delete, update

from shared.accounts import credentials
from shared.accounts.secrets import hash_secret, new_token
from shared.database.tables import ApiToken, User
from shared.enums import AccessScope
from tests.support.api.asking import assert_problem
from tests.support.attacks.routes import (
    ENDLESS,
    OPEN,
    OPERATED,
    WORDS,
    Route,
    document,
    guarded,
    routes,
)
from tests.support.attacks.world import READ_WRITE, World, from_anywhere

EVERY_ROUTE = pytest.mark.parametrize("route", guarded(), ids=str)
ALL = "all of them"
WITH_IDS = [
    (route, parameter)
    for route in guarded()
    for parameter in (*route.parameters, *([ALL] if len(route.parameters) > 1 else []))
    if parameter not in WORDS
]
READ = [
    route
    for route in guarded()
    if route.is_safe and not route.is_operated and route.path not in ENDLESS
]
NOTHING = {"number": str(2**31 - 1), "phase": "observer"}
"""What names nothing where that is no id."""
BEGUN_WITHIN_SECONDS = 20.0
"""Who is let into a stream by mistake is told so by a test that fails, and not by one that never ends."""


async def asked(
    world: World, route: Route, values: dict[str, str], **headers: Any
) -> httpx.Response:
    async with (
        asyncio.timeout(BEGUN_WITHIN_SECONDS),
        from_anywhere(world.app, headers=headers) as client,
    ):
        url = f"http://127.0.0.1{route.url(values)}"
        return await client.request(route.method, url, json=route.says(values))


def test_what_is_open_is_there_and_nothing_else_calls_itself_so() -> None:
    there = {(route.method, route.path) for route in routes()}
    assert set(OPEN) <= there
    unasked = {
        (method.upper(), path)
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        if "security" not in operation
    }
    assert unasked == set(OPEN)
    paths = {path for _, path in there}
    assert set(ENDLESS) <= paths
    for operated in OPERATED:
        assert any(path.startswith(operated) for path in paths)


@EVERY_ROUTE
async def test_a_stranger_is_let_in_nowhere(world: World, route: Route) -> None:
    before = await world.state()
    for values in (world.victim.values, dict.fromkeys(world.victim.values, str(uuid4()))):
        answer = await asked(world, route, values)
        assert_problem(answer, 401, "credential")
        assert answer.headers["www-authenticate"] == 'Bearer realm="vigil"'
    assert await world.state() == before


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"]
)
@pytest.mark.parametrize(
    "path", ["/", "/api/v1", "/api/v1/nothing", "/metrics", "/docs", "/api/v2/agents"]
)
async def test_a_stranger_learns_of_no_route(world: World, method: str, path: str) -> None:
    async with from_anywhere(world.app) as client:
        answer = await client.request(method, f"http://127.0.0.1{path}")
    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "path"), OPEN)
async def test_what_is_open_tells_nothing(world: World, method: str, path: str) -> None:
    async with from_anywhere(world.app) as client:
        url = f"http://127.0.0.1{path}?secret={'x' * 43}"
        answer = await client.request(method, url, json={"user": world.victim.name})
    assert answer.status_code < 500
    for private in ("Lithium", "postgres", *world.victim.private):
        assert private not in answer.text
    assert len(answer.text) < 600


def altered(token: str) -> dict[str, str]:
    """Authorization headers that are almost right."""
    return {
        "cut": f"Bearer {token[:-1]}",
        "longer": f"Bearer {token}A",
        "last letter": f"Bearer {token[:-1]}{'A' if token[-1] != 'A' else 'B'}",
        "other case": f"Bearer {token.swapcase()}",
        "wrong prefix": f"Bearer vgx_{token[4:]}",
        "no prefix": f"Bearer {token[4:]}",
        "prefix alone": "Bearer vgl_",
        "nothing": "Bearer ",
        "no scheme": token,
        "other scheme": f"Basic {token}",
        "its digest": f"Bearer {hash_secret(token).hex()}",
        "two": f"Bearer {token}, Bearer {token}",
        "another": f"Bearer {new_token()}",
        "quoted": f'Bearer "{token}"',
        "sql": "Bearer vgl_' or '1'='1",
        "unicode": "Bearer vgl_" + "\u00e9" * 43,
        "long": "Bearer vgl_" + "A" * 100_000,
    }


@pytest.mark.parametrize("kind", altered("vgl_"))
async def test_an_altered_token_lets_nobody_in(world: World, kind: str) -> None:
    header = altered(world.victim.token)[kind].encode("latin-1")
    for route in guarded():
        answer = await asked(world, route, world.victim.values, authorization=header)
        assert_problem(answer, 401)
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert world.victim.token[4:] not in answer.text


@pytest.mark.parametrize("kind", ["revoked", "expired", "disabled", "removed", "session"])
async def test_a_dead_token_lets_nobody_in(world: World, kind: str) -> None:
    user = f"dying-{kind}"
    token = await world.token(user, READ_WRITE)
    bearer = {"authorization": f"Bearer {token}"}
    async with from_anywhere(world.app, headers=bearer) as client:
        assert (await client.get("/me")).status_code == 200
        await _kill(world, kind, user)
        if kind == "session":
            bearer = {"authorization": f"Bearer vgl_{world.victim.session}"}
        for route in guarded():
            answer = await asked(world, route, world.victim.values, **bearer)
            assert_problem(answer, 401)
        if kind != "session":
            assert (await client.get("/me")).status_code == 401


async def test_a_token_is_taken_from_nowhere_but_its_header(world: World) -> None:
    token = world.victim.token
    places: list[dict[str, Any]] = [
        {"params": {"token": token, "access_token": token, "authorization": f"Bearer {token}"}},
        {
            "headers": {
                "cookie": f"{world.victim.cookie_name}={token}; vigil_session={token}; token={token}"
            }
        },
        {"headers": {"cookie": f"__Host-{world.victim.cookie_name}={world.victim.session}"}},
        {"headers": {"x-api-key": token, "proxy-authorization": f"Bearer {token}"}},
        {"headers": [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")]},
        {"headers": [("authorization", "Bearer x"), ("authorization", f"Bearer {token}")]},
    ]
    for place in places:
        async with from_anywhere(world.app) as client:
            answer = await client.get("/me", **place)
        assert_problem(answer, 401)


@pytest.mark.parametrize(("route", "parameter"), WITH_IDS, ids=str)
async def test_what_is_anothers_is_not_there(world: World, route: Route, parameter: str) -> None:
    """All ids are the attacker's own but one, or none is; for users and their things in every form that they have."""
    changed = route.parameters if parameter == ALL else [parameter]
    own, others = world.attacker.values, {name: world.victim.values[name] for name in changed}
    before = await world.state()
    answer = await asked(world, route, {**own, **others}, **world.attacker.bearer)
    if route.is_operated:
        assert_problem(answer, 403, "operator")
    else:
        assert_problem(answer, 404)
        nothing = {name: NOTHING.get(name, str(uuid4())) for name in changed}
        missing = await asked(world, route, {**own, **nothing}, **world.attacker.bearer)
        assert missing.status_code == 404
        assert without(missing.text, nothing) == without(answer.text, others)
    assert await world.state() == before


@pytest.mark.parametrize("route", READ, ids=str)
async def test_its_own_answers_tell_nothing_of_others(world: World, route: Route) -> None:
    answer = await asked(world, route, world.attacker.values, **world.attacker.bearer)
    assert answer.status_code == 200, answer.text
    for private in (*world.victim.private, *world.attacker.secrets):
        assert private not in answer.text


@EVERY_ROUTE
async def test_a_scope_that_was_not_given_is_not_had(world: World, route: Route) -> None:
    given = AccessScope.WRITE if route.is_safe else AccessScope.READ
    lacking = AccessScope.READ if route.is_safe else AccessScope.WRITE
    token = await world.token(world.victim.name, [given])
    before = await world.state()
    answer = await asked(world, route, world.victim.values, authorization=f"Bearer {token}")
    assert_problem(answer, 403, lacking)
    assert f'scope="{lacking}"' in answer.headers["www-authenticate"]
    assert await world.state() == before


async def test_only_an_operators_own_credential_operates(world: World) -> None:
    operators = [route for route in guarded() if route.is_operated]
    assert len(operators) >= 5
    async with world.database.transaction() as session:
        await credentials.ensure_owner(session, "chief")
    for user, scopes in (("victim", tuple(AccessScope)), ("chief", READ_WRITE)):
        token = await world.token(user, scopes)
        before = await world.state()
        for route in operators:
            answer = await asked(world, route, world.victim.values, authorization=f"Bearer {token}")
            assert_problem(answer, 403, "operator")
        assert await world.state() == before


async def test_who_is_no_operator_any_more_has_no_operators_token(world: World) -> None:
    async with world.database.transaction() as session:
        await credentials.ensure_owner(session, "once")
    token = await world.token("once", tuple(AccessScope))
    async with from_anywhere(world.app, headers={"authorization": f"Bearer {token}"}) as client:
        assert (await client.get("/users")).status_code == 200
        async with world.database.transaction() as session:
            await session.execute(update(User).where(User.name == "once").values(operator=False))
        assert_problem(await client.get("/users"), 403, "operator")
        letters = (await client.get("/dead-letters")).text
    assert world.victim.values["letter"] not in letters


async def test_a_token_makes_none_that_may_more(world: World) -> None:
    async with world.database.transaction() as session:
        await credentials.ensure_owner(session, "chief")
    writes = await world.token("chief", [AccessScope.WRITE])
    async with from_anywhere(world.app, headers={"authorization": f"Bearer {writes}"}) as client:
        for scopes in (["read"], ["operator"], ["write", "operator"]):
            answer = await client.post("/tokens", json={"name": "more", "scopes": scopes})
            assert_problem(answer, 403, scopes[-1])
        assert_problem(await client.post("/me/sign-in-links"), 403, "operator")
        made = await client.post("/tokens", json={"name": "same", "scopes": ["write"]})
        assert (made.status_code, made.json()["scopes"]) == (201, ["write"])
    operates = await world.token("chief", [AccessScope.WRITE, AccessScope.OPERATOR])
    async with from_anywhere(world.app, headers={"authorization": f"Bearer {operates}"}) as client:
        assert_problem(await client.post("/users/victim/sign-in-links"), 403, "read")


def without(text: str, values: dict[str, str]) -> str:
    for value in values.values():
        text = text.replace(value, "")
    return text


async def _kill(world: World, kind: str, user: str) -> None:
    async with world.database.transaction() as session:
        found = await credentials.find_user(session, user)
        assert found is not None
        own = ApiToken.user_id == found.id
        match kind:
            case "revoked":
                await session.execute(delete(ApiToken).where(own))
            case "expired":
                long_ago = ApiToken.created_at - timedelta(days=1)
                await session.execute(update(ApiToken).where(own).values(expires_at=long_ago))
            case "disabled":
                await credentials.set_disabled(session, found.id, disabled=True)
            case "removed":
                await credentials.delete_user(session, found.id)
