"""An unavailable or rate-limited search service does not count as an attempt of a step."""

import json

import pytest

from shared.errors import PermanentError, TransientError
from shared.telemetry.metrics import ProviderHealth
from shared.web_search import client as search_client
from shared.web_search.client import SearchClient
from tests.support.model_server import Connection, fixed_response, model_server
from tests.support.search import search_error


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_an_unavailable_or_rate_limited_service_does_not_count_as_an_attempt(
    status: int,
) -> None:
    body = json.dumps({"detail": {"error": "later"}}).encode()
    error = await search_error(fixed_response(body, status))
    assert isinstance(error, TransientError)
    assert not error.counts


@pytest.mark.parametrize(
    ("status", "is_unavailable"), [(408, True), (425, False), (429, False), (503, True)]
)
async def test_a_service_that_answers_a_single_request_so_is_available(
    monkeypatch: pytest.MonkeyPatch, status: int, *, is_unavailable: bool
) -> None:
    health = ProviderHealth()
    monkeypatch.setattr(search_client, "PROVIDER_HEALTH", health)
    await search_error(fixed_response(b"{}", status))
    assert health.is_unavailable("search") == is_unavailable


async def test_a_connection_reset_does_not_count_as_an_attempt() -> None:
    async def respond(connection: Connection) -> None:
        connection.reset()

    error = await search_error(respond)
    assert isinstance(error, TransientError)
    assert not error.counts


async def test_an_unreachable_service_is_unbilled_and_does_not_count_as_an_attempt() -> None:
    async with model_server(fixed_response(b"")) as stand_in:
        pass
    client = SearchClient(api_key="k", base_url=stand_in.url, timeout_seconds=5)
    with pytest.raises(TransientError, match="cannot be reached") as error:
        await client.search("lithium", max_results=1, topic=None, time_range=None)
    await client.close()
    assert (error.value.counts, error.value.is_unbilled) == (False, True)


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"[1]", b"null"])
async def test_an_invalid_response_counts_as_an_attempt(body: bytes) -> None:
    error = await search_error(fixed_response(body))
    assert isinstance(error, TransientError)
    assert error.counts


async def test_a_wrong_key_is_permanent() -> None:
    assert isinstance(
        await search_error(fixed_response(b'{"detail": {"error": "no"}}', 401)), PermanentError
    )


PAGE = (
    b"""<!DOCTYPE html><html><head><title>Denied</title><style>p {}</style></head>
<body><script>alert(1)</script><p>The firewall of &quot;example&quot; blocks this.</p>"""
    + b"<p>More.</p>" * 500
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"detail": {"error": "No such engine."}}', "No such engine"),
        (b'{"status": 404, "error": "Not Found", "message": "No such engine."}', "No such engine"),
        (b'{"error": "No such engine"}', "No such engine"),
        (PAGE, 'Denied The firewall of "example" blocks this. More.'),
        (b"", ""),
    ],
)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 429, 500])
async def test_an_error_has_a_sentence_of_the_service_without_markup(
    status: int, body: bytes, words: str
) -> None:
    message = str(await search_error(fixed_response(body, status)))
    assert words in message
    assert "<" not in message
    assert "alert" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("[403] URL is not supported", None),
        ("This domain is blocked by robots.txt", None),
        ("The URL is not allowed for this API key", "search_key"),
        ("Forbidden", "search_key"),
    ],
)
async def test_a_refused_address_is_not_taken_for_a_refused_key(
    words: str, code: str | None
) -> None:
    error = await search_error(fixed_response(json.dumps({"detail": words}).encode(), 403))
    assert getattr(error, "code", None) == code
