"""Every route, requested without a credential, by another user, and with insufficient credentials."""

import asyncio
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import delete, update

from shared.accounts import credentials
from shared.accounts.secrets import hash_secret, new_token
from shared.database.tables import ApiToken, User
from shared.enums import AccessScope
from tests.support.api.clients import assert_problem
from tests.support.attack_mode import in_full
from tests.support.attacks.attack_setup import READ_WRITE, AttackSetup, client_from_new_address
from tests.support.attacks.routes import (
    OPEN,
    OPERATOR_ONLY,
    SHARED_PARAMETERS,
    STREAMS,
    Route,
    all_routes,
    guarded_routes,
    openapi_document,
)

ALL = "all of them"
UNKNOWN_VALUES = {"number": str(2**31 - 1), "phase": "observer"}
"""Unknown values of the parameters that are not ids."""
SHORT_STEP = 10
"""The short form tries one in this many combinations of a bad token and a route; it is prime to the number of tokens."""
RESPONSE_SECONDS = 20.0
"""If a stream is open by mistake, the test must fail instead of waiting forever."""


def with_ids() -> list[tuple[Route, str]]:
    return [
        (route, parameter)
        for route in guarded_routes()
        for parameter in (*route.parameters, *([ALL] if len(route.parameters) > 1 else []))
        if parameter not in SHARED_PARAMETERS
    ]


def readable() -> list[Route]:
    return [
        route
        for route in guarded_routes()
        if route.is_safe and not route.is_operator_only and route.path not in STREAMS
    ]


async def send(
    attack_setup: AttackSetup, route: Route, values: dict[str, str], **headers: Any
) -> httpx.Response:
    async with (
        asyncio.timeout(RESPONSE_SECONDS),
        client_from_new_address(attack_setup.app, headers=headers) as client,
    ):
        url = f"http://127.0.0.1{route.url(values)}"
        return await client.request(route.method, url, json=route.body_with(values))


def test_exactly_the_listed_routes_are_open() -> None:
    existing = {(route.method, route.path) for route in all_routes()}
    assert set(OPEN) <= existing
    unauthenticated = {
        (method.upper(), path)
        for path, operations in openapi_document()["paths"].items()
        for method, operation in operations.items()
        if "security" not in operation
    }
    assert unauthenticated == set(OPEN)
    paths = {path for _, path in existing}
    assert set(STREAMS) <= paths
    for prefix in OPERATOR_ONLY:
        assert any(path.startswith(prefix) for path in paths)


async def test_guarded_routes_refuse_requests_without_a_credential(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    before = await attack_setup.state()
    for route in guarded_routes():
        for values in (
            attack_setup.victim.values,
            dict.fromkeys(attack_setup.victim.values, str(uuid4())),
        ):
            with subtests.test(str(route)):
                answer = await send(attack_setup, route, values)
                assert_problem(answer, 401, "credential")
                assert answer.headers["www-authenticate"] == 'Bearer realm="vigil"'
    assert await attack_setup.state() == before


async def test_unknown_routes_also_require_a_credential(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X")
    paths = ("/", "/api/v1", "/api/v1/nothing", "/metrics", "/docs", "/api/v2/agents")
    for method, path in product(methods, paths):
        with subtests.test(f"{method} {path}"):
            async with client_from_new_address(attack_setup.app) as client:
                answer = await client.request(method, f"http://127.0.0.1{path}")
            assert answer.status_code == 401


async def test_open_routes_disclose_nothing(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    for method, path in OPEN:
        with subtests.test(f"{method} {path}"):
            async with client_from_new_address(attack_setup.app) as client:
                url = f"http://127.0.0.1{path}?secret={'x' * 43}"
                answer = await client.request(method, url, json={"user": attack_setup.victim.name})
            assert answer.status_code < 500
            for private in ("Lithium", "postgres", *attack_setup.victim.private):
                assert private not in answer.text
            assert len(answer.text) < 600


def altered_tokens(token: str) -> dict[str, str]:
    """Return authorization headers that are almost right."""
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


async def test_an_altered_token_is_refused(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    """In the short form each token is tried at some of the routes, and each route with some of the tokens."""
    headers = altered_tokens(attack_setup.victim.token)
    for number, (route, kind) in enumerate(product(guarded_routes(), headers)):
        if in_full() or number % SHORT_STEP == 0:
            with subtests.test(f"{route}: {kind}"):
                header = headers[kind].encode("latin-1")
                answer = await send(
                    attack_setup, route, attack_setup.victim.values, authorization=header
                )
                assert_problem(answer, 401)
                assert 'error="invalid_token"' in answer.headers["www-authenticate"]
                assert attack_setup.victim.token[4:] not in answer.text


@pytest.mark.parametrize("kind", ["revoked", "expired", "disabled", "removed", "session"])
async def test_an_invalidated_token_is_refused(attack_setup: AttackSetup, kind: str) -> None:
    user = f"dying-{kind}"
    token = await attack_setup.token(user, READ_WRITE)
    bearer = {"authorization": f"Bearer {token}"}
    async with client_from_new_address(attack_setup.app, headers=bearer) as client:
        assert (await client.get("/me")).status_code == 200
        await _invalidate(attack_setup, kind, user)
        if kind == "session":
            bearer = {"authorization": f"Bearer vgl_{attack_setup.victim.session}"}
        for route in guarded_routes()[:: 1 if in_full() else SHORT_STEP]:
            answer = await send(attack_setup, route, attack_setup.victim.values, **bearer)
            assert_problem(answer, 401)
        if kind != "session":
            assert (await client.get("/me")).status_code == 401


async def test_a_token_is_accepted_only_in_its_header(attack_setup: AttackSetup) -> None:
    token = attack_setup.victim.token
    places: list[dict[str, Any]] = [
        {"params": {"token": token, "access_token": token, "authorization": f"Bearer {token}"}},
        {
            "headers": {
                "cookie": f"{attack_setup.victim.cookie_name}={token}; vigil_session={token}; token={token}"
            }
        },
        {
            "headers": {
                "cookie": f"__Host-{attack_setup.victim.cookie_name}={attack_setup.victim.session}"
            }
        },
        {"headers": {"x-api-key": token, "proxy-authorization": f"Bearer {token}"}},
        {"headers": [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")]},
        {"headers": [("authorization", "Bearer x"), ("authorization", f"Bearer {token}")]},
    ]
    for place in places:
        async with client_from_new_address(attack_setup.app) as client:
            answer = await client.get("/me", **place)
        assert_problem(answer, 401)


async def test_ids_of_other_users_are_not_found(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    """All ids are the attacker's own except one, or all are the victim's."""
    attacker = attack_setup.attacker
    before = await attack_setup.state()
    for route, parameter in with_ids():
        changed = route.parameters if parameter == ALL else [parameter]
        others = {name: attack_setup.victim.values[name] for name in changed}
        with subtests.test(f"{route}: {parameter}"):
            answer = await send(
                attack_setup, route, {**attacker.values, **others}, **attacker.bearer
            )
            if route.is_operator_only:
                assert_problem(answer, 403, "operator")
                continue
            assert_problem(answer, 404)
            unknown = {name: UNKNOWN_VALUES.get(name, str(uuid4())) for name in changed}
            missing = await send(
                attack_setup, route, {**attacker.values, **unknown}, **attacker.bearer
            )
            assert missing.status_code == 404
            assert without(missing.text, unknown) == without(answer.text, others)
    assert await attack_setup.state() == before


async def test_responses_contain_nothing_of_other_users(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    for route in readable():
        with subtests.test(str(route)):
            answer = await send(
                attack_setup, route, attack_setup.attacker.values, **attack_setup.attacker.bearer
            )
            assert answer.status_code == 200, answer.text
            for private in (*attack_setup.victim.private, *attack_setup.attacker.secrets):
                assert private not in answer.text


async def test_a_missing_scope_is_refused(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    tokens = {
        scope: await attack_setup.token(attack_setup.victim.name, [scope]) for scope in READ_WRITE
    }
    before = await attack_setup.state()
    for route in guarded_routes():
        granted = AccessScope.WRITE if route.is_safe else AccessScope.READ
        missing = AccessScope.READ if route.is_safe else AccessScope.WRITE
        with subtests.test(str(route)):
            bearer = f"Bearer {tokens[granted]}"
            answer = await send(
                attack_setup, route, attack_setup.victim.values, authorization=bearer
            )
            assert_problem(answer, 403, missing)
            assert f'scope="{missing}"' in answer.headers["www-authenticate"]
    assert await attack_setup.state() == before


async def test_operator_routes_need_an_operators_credential_with_the_scope(
    attack_setup: AttackSetup,
) -> None:
    operators = [route for route in guarded_routes() if route.is_operator_only]
    assert len(operators) >= 5
    async with attack_setup.database.transaction() as session:
        await credentials.ensure_owner(session, "chief")
    for user, scopes in (("victim", tuple(AccessScope)), ("chief", READ_WRITE)):
        token = await attack_setup.token(user, scopes)
        before = await attack_setup.state()
        for route in operators:
            answer = await send(
                attack_setup, route, attack_setup.victim.values, authorization=f"Bearer {token}"
            )
            assert_problem(answer, 403, "operator")
        assert await attack_setup.state() == before


async def test_a_former_operators_token_loses_the_operator_scope(attack_setup: AttackSetup) -> None:
    async with attack_setup.database.transaction() as session:
        await credentials.ensure_owner(session, "once")
    token = await attack_setup.token("once", tuple(AccessScope))
    async with client_from_new_address(
        attack_setup.app, headers={"authorization": f"Bearer {token}"}
    ) as client:
        assert (await client.get("/users")).status_code == 200
        async with attack_setup.database.transaction() as session:
            await session.execute(update(User).where(User.name == "once").values(operator=False))
        assert_problem(await client.get("/users"), 403, "operator")
        dead_letters = (await client.get("/dead-letters")).text
    assert attack_setup.victim.values["dead_letter"] not in dead_letters


async def test_a_token_cannot_create_one_with_more_scopes(attack_setup: AttackSetup) -> None:
    async with attack_setup.database.transaction() as session:
        await credentials.ensure_owner(session, "chief")
    write_token = await attack_setup.token("chief", [AccessScope.WRITE])
    async with client_from_new_address(
        attack_setup.app, headers={"authorization": f"Bearer {write_token}"}
    ) as client:
        for scopes in (["read"], ["operator"], ["write", "operator"]):
            answer = await client.post("/tokens", json={"name": "more", "scopes": scopes})
            assert_problem(answer, 403, scopes[-1])
        assert_problem(await client.post("/me/sign-in-links"), 403, "operator")
        response = await client.post("/tokens", json={"name": "same", "scopes": ["write"]})
        assert (response.status_code, response.json()["scopes"]) == (201, ["write"])
    operator_token = await attack_setup.token("chief", [AccessScope.WRITE, AccessScope.OPERATOR])
    async with client_from_new_address(
        attack_setup.app, headers={"authorization": f"Bearer {operator_token}"}
    ) as client:
        assert_problem(await client.post("/users/victim/sign-in-links"), 403, "read")


def without(text: str, values: dict[str, str]) -> str:
    for value in values.values():
        text = text.replace(value, "")
    return text


async def _invalidate(attack_setup: AttackSetup, kind: str, user: str) -> None:
    async with attack_setup.database.transaction() as session:
        owner = await credentials.find_user(session, user)
        assert owner is not None
        own = ApiToken.user_id == owner.id
        match kind:
            case "revoked":
                await session.execute(delete(ApiToken).where(own))
            case "expired":
                past = ApiToken.created_at - timedelta(days=1)
                await session.execute(update(ApiToken).where(own).values(expires_at=past))
            case "disabled":
                await credentials.set_disabled(session, owner.id, disabled=True)
            case "removed":
                await credentials.delete_user(session, owner.id)
