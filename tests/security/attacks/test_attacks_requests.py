"""Invalid requests: bodies, paths and headers."""

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.api.clients import assert_problem
from tests.support.attack_mode import in_full
from tests.support.attacks.attack_setup import AttackSetup, client_from_new_address
from tests.support.attacks.raw import get, listening_port, send
from tests.support.attacks.routes import BODIES, Route, guarded_routes
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


def with_body() -> list[Route]:
    return [route for route in guarded_routes() if route.body is not None]


INVALID_BODIES: dict[str, bytes] = {
    "cut": b'{"mission": "Watch',
    "no JSON": b"\x00\xff\xfe",
    "an array": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 50_000,
    "half a character": b'{"mission": "\\ud800 watch the lithium supply", "name": "\\ud800"}',
    "NUL": b'{"mission": "Watch \\u0000 the lithium supply", "name": "a\\u0000b", "user": "\\u0000"}',
    "another key": b'{"mission": "Watch the lithium supply", "owner_id": "x", "operator": true}',
    "a huge number": b'{"interval_seconds": ' + b"9" * 5000 + b"}",
    "large": b'{"mission": "' + b"x" * 2_000_000 + b'"}',
}
INVALID_NAMES = [
    *("%00", "a%00b", "%ff", "%f0%9f", "%2e%2e", "%2e%2e%2f", "'--", "x" * 8000, "%u0000")
]
PATHS = CASES["paths"]
HEADERS = [
    "X-Original-URL: /api/v1/about",
    "X-Rewrite-URL: /api/v1/about",
    "X-Forwarded-Prefix: /api/v1/about",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-User: owner",
    "X-Remote-User: owner",
    "X-HTTP-Method-Override: OPTIONS",
    "X-User-Id: 00000000-0000-0000-0000-000000000000",
    "Authorization: Bearer undefined",
    "Authorization: Negotiate TlRMTVNTUAABAAAA",
    "Cookie: vigil_session=" + "A" * 43,
    "Cookie: vigil_session=; vigil_session=",
    "Cookie: " + "=;" * 1000,
]


@pytest.fixture(scope="module")
async def port(attack_setup: AttackSetup) -> AsyncIterator[int]:
    async with listening_port(attack_setup.app) as server_port:
        yield server_port


async def test_an_invalid_body_is_refused_and_changes_nothing(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    """Without a credential it is not even read."""
    before = await attack_setup.state()
    for route, kind in product(with_body(), INVALID_BODIES):
        with subtests.test(f"{route}: {kind}"):
            body, bearer = INVALID_BODIES[kind], attack_setup.attacker.bearer
            answer = await _send_body(attack_setup, route, body, **bearer)
            assert 400 <= answer.status_code < 500, answer.text[:300]
            assert len(answer.text) < 5_000
            assert_problem(await _send_body(attack_setup, route, body), 401)
    assert await attack_setup.state() == before


@pytest.mark.parametrize("kind", INVALID_BODIES)
async def test_an_invalid_body_of_a_sign_in_is_refused_without_an_error(
    attack_setup: AttackSetup, kind: str
) -> None:
    with capture_logs() as lines:
        async with client_from_new_address(attack_setup.app) as client:
            answer = await client.post("/sign-in", content=INVALID_BODIES[kind])
    assert 400 <= answer.status_code < 500
    assert [line for line in lines if line["log_level"] == "error"] == []


async def test_an_invalid_name_in_the_path_is_refused(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    """The short form tries two of the names at each parameter, in turn."""
    before = await attack_setup.state()
    parameters = [
        (route, parameter) for route in guarded_routes() for parameter in route.parameters
    ]
    for number, (route, parameter) in enumerate(parameters):
        names = INVALID_NAMES if in_full() else INVALID_NAMES[number % 5 :: 5]
        for name in names:
            url = route.url({**attack_setup.attacker.values, parameter: name})
            with subtests.test(f"{route.method} {url[:200]}"):
                async with client_from_new_address(
                    attack_setup.app, headers=attack_setup.attacker.bearer
                ) as client:
                    answer = await client.request(
                        route.method, f"http://127.0.0.1{url}", json=route.body
                    )
                assert 400 <= answer.status_code < 500, answer.text[:300]
    assert await attack_setup.state() == before


async def test_no_path_bypasses_authentication(
    attack_setup: AttackSetup, port: int, subtests: pytest.Subtests
) -> None:
    for path in PATHS:
        with subtests.test(path):
            status, text = await send(port, get(path))
            assert status in (400, 401, 403, 404), text
            assert attack_setup.victim.name not in text


async def test_no_header_bypasses_authentication(port: int, subtests: pytest.Subtests) -> None:
    for header in HEADERS:
        with subtests.test(header[:30]):
            status, text = await send(port, get("/api/v1/agents", header))
            assert status == 401, text


@pytest.mark.parametrize("host", CASES["requests_to_foreign_hosts_are_refused"])
async def test_requests_to_foreign_hosts_are_refused(
    attack_setup: AttackSetup, port: int, host: str
) -> None:
    bearer = f"Authorization: {attack_setup.victim.bearer['authorization']}"
    status, text = await send(port, get("/api/v1/agents", bearer, host=host))
    assert status in (400, 403), text
    assert attack_setup.victim.values["agent"] not in text


@pytest.mark.parametrize("bearers", [2, 100])
async def test_several_authorization_headers_are_refused(
    attack_setup: AttackSetup, port: int, bearers: int
) -> None:
    header = f"Authorization: {attack_setup.victim.bearer['authorization']}"
    status, text = await send(port, get("/api/v1/agents", *[header] * bearers))
    assert (status, "several Authorization headers" in text) == (401, True)


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/api/v1/agents", "Authorization: Bearer vgl_" + "A" * 200_000),
        get("/api/v1/agents", *[f"X-{number}: {'x' * 100}" for number in range(2_000)]),
        get("/" + "a" * 200_000),
        get("/api/v1/agents\x00"),
        get("/api/v1/agents", "Authorization: Bearer vgl_\x00"),
        get("/api/v1/agents", "Content-Length: 5", "Content-Length: 6"),
        get("/api/v1/agents", "Content-Length: 5", "Transfer-Encoding: chunked"),
        get("/api/v1/agents", "Content-Length: -1"),
        b"GET /api/v1/agents HTTP/1.1\nHost: 127.0.0.1\n\n",
        b"GET /api/v1/agents\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda request_bytes: repr(request_bytes[:40]),
)
async def test_a_malformed_request_is_refused(
    attack_setup: AttackSetup, port: int, request_bytes: bytes
) -> None:
    status, text = await send(port, request_bytes)
    assert status in (0, 400, 401, 403, 431), text[:300]
    assert (await send(port, get("/health/live")))[0] == 200


async def test_websockets_are_refused(attack_setup: AttackSetup, port: int) -> None:
    headers = (
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: {attack_setup.victim.bearer['authorization']}",
    )
    request = get("/api/v1/agents", *headers).replace(
        b"Connection: close", b"Connection: Upgrade, close"
    )
    status, text = await send(port, request)
    assert status in (200, 400, 403, 404), text
    assert "101" not in text.split("\r\n")[0]


async def _send_body(attack_setup: AttackSetup, route: Route, body: bytes, **headers: Any) -> Any:
    json = {"content-type": "application/json", **headers}
    async with client_from_new_address(attack_setup.app, headers=json) as client:
        url = f"http://127.0.0.1{route.url(attack_setup.attacker.values)}"
        return await client.request(route.method, url, content=body)


def test_the_routes_with_bodies_include_the_listed_ones() -> None:
    assert {(route.method, route.path) for route in with_body()} >= set(BODIES)
