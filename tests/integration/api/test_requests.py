"""Requests of any kind: rejected, repeated, conditional and compressed."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, text

from cli.local.postgres import EmbeddedPostgres
from shared.database.engine import Database
from shared.database.tables import IdempotencyKey
from shared.runtime.settings import Settings
from tests.support.api.clients import MISSION, assert_problem, create_agent, create_client
from tests.support.api.full_agent import AGENT, FullAgent
from tests.support.api.rows import start_iteration
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


JSON = {"content-type": "application/json"}
LIMIT = 4096


@pytest.fixture
async def small(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with create_client(Settings(database_url=database_url, max_body_bytes=LIMIT)) as client:
        yield client


async def test_a_long_body_is_rejected_with_and_without_content_length(
    small: httpx.AsyncClient,
) -> None:
    body = json.dumps({"mission": MISSION, "name": "x" * LIMIT}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    assert_problem(await small.post("/agents", content=body, headers=JSON), 413, "longer")
    assert_problem(await small.post("/agents", content=chunks(), headers=JSON), 413, "longer")
    fits = json.dumps({"mission": MISSION}).encode().ljust(LIMIT)
    assert (await small.post("/agents", content=fits, headers=JSON)).status_code == 201


INVALID_BODIES = [
    (b"{", "application/json", 422, "not valid JSON"),
    (b"\xff\xfe{}", "application/json", 422, "not valid JSON"),
    (b'{"a": "\xc3\x28"}', "application/json", 400, ""),
    (b"[" * 100_000, "application/json", 400, ""),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "application/json", 422, "64 levels deep"),
    (b'{"mission": "long enough \\u0000 indeed"}', "application/json", 422, "NUL"),
    (b'{"mission": "long enough \\ud800 indeed"}', "application/json", 422, "surrogate"),
    (b'{"\\u0000": 1}', "application/json", 422, "NUL"),
    (b"mission=x", "application/x-www-form-urlencoded", 415, "send JSON"),
    (b"{}", "text/plain", 415, "send JSON"),
    (b"{}", "application/problem+json", 422, "mission"),
    (b"", "application/json", 422, ""),
]


async def test_an_invalid_body_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for body, media_type, status, word in INVALID_BODIES:
        with subtests.test(str(body[:60])):
            response = await api.post("/agents", content=body, headers={"content-type": media_type})
            assert_problem(response, status, word)


MALFORMED_URLS = [
    "/agents/a%00b",
    "/agents?search=a%00",
    "/agents/%ff",
    "/agents/a/nodes?type=%00",
]


async def test_a_malformed_url_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for path in MALFORMED_URLS:
        with subtests.test(path):
            response = await api.get(path)
            assert_problem(response, 404 if "%ff" in path else 400)


async def test_the_request_rate_is_limited_and_the_response_says_when_to_retry(
    database_url: str,
) -> None:
    limits: dict[str, Any] = {"requests_burst": 3, "requests_per_second": 0.01}
    async with create_client(Settings(database_url=database_url, **limits)) as client:
        responses = [await client.get("/agents") for _ in range(5)]
        assert [response.status_code for response in responses] == [200, 200, 200, 429, 429]
        remaining = [response.headers["ratelimit-remaining"] for response in responses]
        assert remaining == ["2", "1", "0", "0", "0"]
        assert_problem(responses[3], 429, "Try again in")
        assert 90 <= int(responses[3].headers["retry-after"]) <= 100
        assert responses[0].headers["ratelimit-limit"] == "3"
        assert (await client.get("http://127.0.0.1/health/live")).status_code == 200


async def test_resources_have_etags_and_are_not_sent_again(
    api: httpx.AsyncClient, full: FullAgent
) -> None:
    for path in (
        f"/agents/{AGENT}",
        f"/agents/{AGENT}/nodes/{full.node_id}",
        f"/agents/{AGENT}/edges/{full.edge_id}",
        f"/agents/{AGENT}/node-types",
        f"/agents/{AGENT}/node-types/Thing",
        f"/agents/{AGENT}/edge-types",
        f"/agents/{AGENT}/edge-types/buys",
        f"/agents/{AGENT}/analyses/{full.analysis_id}",
        f"/agents/{AGENT}/advice/{full.advice_id}",
        f"/agents/{AGENT}/iterations/1",
        f"/iterations/{full.ended_iteration_id}",
    ):
        first = await api.get(path)
        assert first.status_code == 200, first.text
        etag = first.headers["etag"]
        assert etag.startswith('"'), "a strong validator"
        for if_none_match in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            response = await api.get(path, headers={"if-none-match": if_none_match})
            assert (response.status_code, response.content, response.headers["etag"]) == (
                304,
                b"",
                etag,
            )
        other_response = await api.get(path, headers={"if-none-match": '"other"'})
        assert (other_response.status_code, other_response.json()) == (200, first.json())


async def test_an_update_changes_the_etag(api: httpx.AsyncClient, full: FullAgent) -> None:
    path = f"/agents/{AGENT}"
    before = (await api.get(path)).headers["etag"]
    changed = await api.patch(path, json={"interval_seconds": 60})
    assert changed.headers["etag"] != before
    response = await api.get(path, headers={"if-none-match": before})
    assert (response.status_code, response.json()) == (200, changed.json())
    assert response.headers["etag"] == changed.headers["etag"]


async def test_an_update_with_an_outdated_etag_is_rejected(
    api: httpx.AsyncClient, database: Database
) -> None:
    agent = await create_agent(api, name="Lithium")
    etag = (await api.get("/agents/lithium")).headers["etag"]
    await start_iteration(database, "Lithium")
    etag_after_run = (await api.get("/agents/lithium")).headers["etag"]
    assert etag_after_run != etag
    renamed = await api.patch(
        "/agents/lithium", json={"name": "Cobalt"}, headers={"if-match": etag}
    )
    assert renamed.status_code == 200, "a run of the agent does not conflict with the update"
    for late in (etag, etag_after_run, '"other"', "nonsense", ""):
        response = await api.patch(
            f"/agents/{agent['id']}", json={"name": "Nickel"}, headers={"if-match": late}
        )
        assert_problem(response, 412, "read it again")
    assert (await api.get(f"/agents/{agent['id']}")).json()["name"] == "Cobalt"
    for fresh in (renamed.headers["etag"], "*"):
        response = await api.patch("/agents/cobalt", json={}, headers={"if-match": fresh})
        assert response.status_code == 200


async def test_only_the_fields_of_a_patch_are_changed(api: httpx.AsyncClient) -> None:
    before = await create_agent(api, name="Lithium", interval_seconds=86_400)
    changes = {"name": " New  name ", "models": {"observer": "m"}, "active": False}
    after = (await api.patch("/agents/lithium", json=changes)).json()
    assert (after["name"], after["models"], after["active"]) == (
        "New name",
        {"observer": "m"},
        False,
    )
    assert (after["interval_seconds"], after["mission"]) == (86_400, before["mission"])
    assert after["next_run_at"] == before["next_run_at"]
    await create_agent(api, name="Taken")
    assert_problem(await api.patch("/agents/new name", json={"name": "taken"}), 409, "another name")
    for invalid in CASES["only_the_fields_of_a_patch_are_changed"]:
        assert_problem(await api.patch("/agents/new name", json=invalid), 422, next(iter(invalid)))


async def test_a_shorter_interval_applies_now_and_a_longer_one_after_the_next_run(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, name="Lithium")
    async with database.transaction() as session:
        await session.execute(text("update agents set next_run_at = now() + interval '1 day'"))
    scheduled = (await api.get("/agents/lithium")).json()["next_run_at"]
    rescheduled = (await api.patch("/agents/lithium", json={"interval_seconds": 60})).json()[
        "next_run_at"
    ]
    assert rescheduled < scheduled
    response = await api.patch("/agents/lithium", json={"interval_seconds": 86_400})
    assert response.json()["next_run_at"] == rescheduled


async def create_with_key(
    api: httpx.AsyncClient, key: str = "a1b2", **params: Any
) -> httpx.Response:
    return await api.post(
        "/agents", json={"mission": MISSION, **params}, headers={"idempotency-key": key}
    )


async def count_agents(api: httpx.AsyncClient) -> int:
    return len((await api.get("/agents")).json()["items"])


async def count_stored_keys(database: Database) -> int:
    async with database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(IdempotencyKey)) or 0


async def test_a_repeated_request_gets_the_stored_response(api: httpx.AsyncClient) -> None:
    first = await create_with_key(api)
    await api.patch(f"/agents/{first.json()['id']}", json={"name": "Renamed"})
    second = await create_with_key(api)
    assert (second.status_code, second.content) == (201, first.content)
    assert second.headers["content-type"] == first.headers["content-type"]
    assert ("idempotency-replayed" in first.headers, second.headers["idempotency-replayed"]) == (
        False,
        "true",
    )
    assert await count_agents(api) == 1
    assert (await create_with_key(api, key="other")).json()["id"] != first.json()["id"]


async def test_another_request_with_the_same_key_is_rejected(api: httpx.AsyncClient) -> None:
    await create_with_key(api)
    assert_problem(
        await create_with_key(api, name="Other"), 422, "a different request", "a new key"
    )
    assert await count_agents(api) == 1


async def test_a_rejected_request_may_be_repeated(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_with_key(api, key="first", name="Lithium")
    assert_problem(await create_with_key(api, name="lithium"), 409, "another name")
    assert await count_stored_keys(database) == 1
    await api.delete("/agents/lithium")
    assert (await create_with_key(api, name="lithium")).status_code == 201


async def test_concurrent_requests_create_one_agent(api: httpx.AsyncClient) -> None:
    """Each response has the created agent or says that another request is in progress."""
    await count_agents(api)
    responses = await asyncio.gather(*(create_with_key(api) for _ in range(20)))
    created = {response.content for response in responses if response.status_code == 201}
    assert len(created) == 1
    for response in responses:
        if response.status_code != 201:
            assert_problem(response, 409, "in progress", "again")
    assert await count_agents(api) == 1
    assert (await create_with_key(api)).content in created


async def test_a_request_is_rejected_while_the_first_is_in_progress(
    api: httpx.AsyncClient, database: Database
) -> None:
    await count_agents(api)
    async with database.transaction() as session:
        await session.execute(
            text(
                "select pg_advisory_xact_lock(hashtextextended('idempotency ' || id || ' a1b2', 0))"
                " from users"
            )
        )
        assert_problem(await create_with_key(api), 409, "in progress")
    assert (await create_with_key(api)).status_code == 201


async def test_a_key_expires_after_a_day_and_expired_keys_are_deleted(
    api: httpx.AsyncClient, database: Database
) -> None:
    first = await create_with_key(api)
    await create_with_key(api, key="other")
    async with database.transaction() as session:
        await session.execute(
            text("update idempotency_keys set created_at = now() - interval '25 hours'")
        )
    second = await create_with_key(api)
    assert second.json()["id"] != first.json()["id"]
    assert await count_stored_keys(database) == 1


async def test_keys_are_separate_for_each_owner(api: httpx.AsyncClient, database_url: str) -> None:
    first = await create_with_key(api)
    async with create_client(Settings(database_url=database_url, owner="stranger")) as other:
        foreign = await create_with_key(other)
    assert foreign.status_code == 201
    assert foreign.json()["id"] != first.json()["id"]


INVALID_KEYS = ["", " ", "a b", "x" * 256]


async def test_an_invalid_key_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for key in INVALID_KEYS:
        with subtests.test(key):
            assert_problem(await create_with_key(api, key=key), 422, "Idempotency-Key")
            assert await count_agents(api) == 0


async def post_twice(api: httpx.AsyncClient, path: str, **body: Any) -> list[httpx.Response]:
    headers = {"idempotency-key": "a1b2"}
    return [await api.post(path, json=body, headers=headers) for _ in range(2)]


@pytest.mark.parametrize(("path", "body"), CASES["a_repeated_create_returns_the_first_response"])
async def test_a_repeated_create_returns_the_first_response(
    api: httpx.AsyncClient, path: str, body: dict[str, str]
) -> None:
    await create_with_key(api, key="agent", name="Lithium")
    first, second = await post_twice(api, path, **body)
    assert (first.status_code, second.status_code, second.content) == (201, 201, first.content)
    assert second.headers["idempotency-replayed"] == "true"
    if path != "/users":
        items = (await api.get(path)).json()["items"]
        assert len(items) == (2 if path.endswith("messages") else 1), "the question and its answer"


@pytest.mark.parametrize(
    ("path", "body", "secret"), CASES["a_secret_is_returned_once_and_not_stored"]
)
async def test_a_secret_is_returned_once_and_not_stored(
    api: httpx.AsyncClient,
    database: Database,
    path: str,
    body: dict[str, str],
    secret: str,
) -> None:
    before = len((await api.get(path)).json()["items"])
    first, second = await post_twice(api, path, **body)
    assert (first.status_code, first.headers["cache-control"]) == (201, "no-store")
    assert first.json()[secret]
    assert_problem(second, 409, "already created", "delete it")
    assert len((await api.get(path)).json()["items"]) == before + 1
    async with database.transaction() as session:
        assert (await session.scalars(select(IdempotencyKey.body))).all() == [None]


async def test_a_mail_address_has_no_secret(database_url: str) -> None:
    settings = Settings(
        database_url=database_url, smtp_url="smtp://127.0.0.1:1", mail_from="vigil@example.org"
    )
    async with create_client(settings) as api:
        body = {"kind": "mail", "address": "you@example.org"}
        first, second = await post_twice(api, "/destinations", **body)
    assert (first.status_code, second.content) == (201, first.content)


ROOT = "http://127.0.0.1"


@pytest.mark.parametrize("path", ["/agents", "/settings", "/nowhere"])
async def test_a_page_is_compressed_for_clients_that_accept_gzip(
    api: httpx.AsyncClient, path: str
) -> None:
    accept = {"Accept": "text/html"}
    compressed = await api.get(ROOT + path, headers={**accept, "Accept-Encoding": "gzip"})
    plain = await api.get(ROOT + path, headers={**accept, "Accept-Encoding": "identity"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in compressed.headers["vary"]
    assert "content-encoding" not in plain.headers
    assert compressed.text == plain.text


async def test_form_responses_and_the_sign_in_page_are_not_compressed(
    api: httpx.AsyncClient,
) -> None:
    form_response = await api.post(
        f"{ROOT}/settings/tokens",
        data={"name": "one", "scopes": "read"},
        headers={"Accept": "text/html", "Origin": ROOT},
    )
    sign_in_page = await api.get(f"{ROOT}/sign-in", headers={"Accept": "text/html"})
    for response in (form_response, sign_in_page):
        assert len(response.content) >= 1_000
        assert "content-encoding" not in response.headers


async def test_responses_to_programs_are_not_compressed(api: httpx.AsyncClient) -> None:
    response = await api.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert len(response.content) >= 1_000
    assert "content-encoding" not in response.headers


async def test_without_postgres_the_api_is_alive_but_not_ready_and_says_why(
    unreachable_database_url: str,
) -> None:
    async with create_client(Settings(database_url=unreachable_database_url)) as api:
        assert (await api.get("http://127.0.0.1/health/live")).status_code == 200
        readiness = await api.get("http://127.0.0.1/health/ready")
        assert (readiness.status_code, "PostgreSQL" in readiness.json()["reason"]) == (503, True)
        response = await api.get("/agents")
        assert_problem(response, 503, "PostgreSQL")
        assert response.headers["retry-after"]


async def test_without_tables_the_api_says_how_to_create_them(postgres: EmbeddedPostgres) -> None:
    async with create_client(Settings(database_url=postgres.dsn)) as api:
        assert_problem(await api.get("/agents"), 503, "vigil migrate")


async def test_every_error_is_a_problem_response(api: httpx.AsyncClient) -> None:
    assert_problem(await api.get("/nothing"), 404)
    assert_problem(await api.put("/agents"), 405)
    assert_problem(await api.get("/iterations/seven"), 422, "iteration_id")
    as_json = {"content-type": "application/json"}
    assert_problem(await api.post("/agents", content=b"{", headers=as_json), 422)
