"""Requests that are no proper requests: bodies, paths, headers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.api.asking import assert_problem
from tests.support.attacks.raw import answered, get, listening
from tests.support.attacks.routes import BODIES, Route, guarded
from tests.support.attacks.world import World, from_anywhere

WITH_BODY = [route for route in guarded() if route.body is not None]
BODIES_OF_NO_USE: dict[str, bytes] = {
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
PATHS = [
    "/health/live/../../api/v1/agents",
    "/health/live/%2e%2e/%2e%2e/api/v1/agents",
    "/api/v1/about/../agents",
    "/api/v1/about/%2e%2e/agents",
    "/api/v1/about/..%2fagents",
    "/api/v1/about;/../agents",
    "/api/v1/about%00/agents",
    "/api/v1/sign-in/../agents",
    "/api/v1/sign-in/link/..;/../agents",
    "//api/v1/agents",
    "/api//v1/agents",
    "/api/v1//agents",
    "/api/v1/agents/",
    "/./api/v1/agents",
    "/API/V1/AGENTS",
    "/api/v1/agents%2f",
    "/api/v1/%61gents",
    "/api/v1/agents?x=/api/v1/about",
    "/api/v1/agents#/api/v1/about",
    "/api/v1/about/",
    "/api/v1/openapi.json/",
    "\\api\\v1\\agents",
    "http://127.0.0.1/api/v1/agents",
    "*",
]
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
async def port(world: World) -> AsyncIterator[int]:
    async with listening(world.app) as at:
        yield at


@pytest.mark.parametrize("kind", BODIES_OF_NO_USE)
async def test_a_body_of_no_use_is_refused_and_changes_nothing(world: World, kind: str) -> None:
    before = await world.state()
    for route in WITH_BODY:
        answer = await _sent(world, route, BODIES_OF_NO_USE[kind], **world.attacker.bearer)
        assert 400 <= answer.status_code < 500, f"{route}: {answer.text[:300]}"
        assert len(answer.text) < 5_000
    assert await world.state() == before


@pytest.mark.parametrize("kind", BODIES_OF_NO_USE)
async def test_a_strangers_body_is_not_even_read(world: World, kind: str) -> None:
    for route in WITH_BODY:
        assert_problem(await _sent(world, route, BODIES_OF_NO_USE[kind]), 401)


@pytest.mark.parametrize("kind", BODIES_OF_NO_USE)
async def test_nor_does_it_hurt_where_strangers_are_heard(world: World, kind: str) -> None:
    with capture_logs() as lines:
        async with from_anywhere(world.app) as client:
            answer = await client.post("/sign-in", content=BODIES_OF_NO_USE[kind])
    assert 400 <= answer.status_code < 500
    assert [line for line in lines if line["log_level"] == "error"] == []


@pytest.mark.parametrize(
    "name", ["%00", "a%00b", "%ff", "%f0%9f", "%2e%2e", "%2e%2e%2f", "'--", "x" * 8000, "%u0000"]
)
async def test_a_name_of_no_use_is_not_there(world: World, name: str) -> None:
    before = await world.state()
    for route in guarded():
        for parameter in route.parameters:
            async with from_anywhere(world.app, headers=world.attacker.bearer) as client:
                url = route.url({**world.attacker.values, parameter: name})
                answer = await client.request(
                    route.method, f"http://127.0.0.1{url}", json=route.body
                )
            assert 400 <= answer.status_code < 500, f"{route}: {answer.text[:300]}"
    assert await world.state() == before


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_leads_around_the_door(world: World, port: int, path: str) -> None:
    status, said = await answered(port, get(path))
    assert status in (400, 401, 403, 404), said
    assert world.victim.name not in said


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[:30])
async def test_no_header_opens_the_door(port: int, header: str) -> None:
    status, said = await answered(port, get("/api/v1/agents", header))
    assert status == 401, said


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "[::1",
        "",
        "localhost.",
        "a b",
    ],
)
async def test_no_host_of_others_is_answered_to(world: World, port: int, host: str) -> None:
    bearer = f"Authorization: {world.victim.bearer['authorization']}"
    status, said = await answered(port, get("/api/v1/agents", bearer, host=host))
    assert status in (400, 403), said
    assert world.victim.values["agent"] not in said


@pytest.mark.parametrize("bearers", [2, 100])
async def test_one_authorization_is_enough(world: World, port: int, bearers: int) -> None:
    header = f"Authorization: {world.victim.bearer['authorization']}"
    status, said = await answered(port, get("/api/v1/agents", *[header] * bearers))
    assert (status, "several Authorization headers" in said) == (401, True)


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
async def test_what_is_no_request_gets_no_answer_of_use(
    world: World, port: int, request_bytes: bytes
) -> None:
    status, said = await answered(port, request_bytes)
    assert status in (0, 400, 401, 403, 431), said[:300]
    assert (await answered(port, get("/health/live")))[0] == 200


async def test_a_websocket_is_closed_to_everybody(world: World, port: int) -> None:
    wanted = (
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: {world.victim.bearer['authorization']}",
    )
    request = get("/api/v1/agents", *wanted).replace(
        b"Connection: close", b"Connection: Upgrade, close"
    )
    status, said = await answered(port, request)
    assert status in (200, 400, 403, 404), said
    assert "101" not in said.split("\r\n")[0]


async def _sent(world: World, route: Route, body: bytes, **headers: Any) -> Any:
    json = {"content-type": "application/json", **headers}
    async with from_anywhere(world.app, headers=json) as client:
        url = f"http://127.0.0.1{route.url(world.attacker.values)}"
        return await client.request(route.method, url, content=body)


def test_there_are_bodies_to_spoil() -> None:
    assert {(route.method, route.path) for route in WITH_BODY} >= set(BODIES)
