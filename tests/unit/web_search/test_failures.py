"""A search service that is away or limits its callers uses up no attempt of a step."""

import json

import pytest

from shared.errors import PermanentError, TransientError, VigilError
from shared.web_search.client import SearchClient
from tests.support.model_server import Connection, Respond, canned, model_server


async def failing(respond: Respond) -> VigilError:
    async with model_server(respond) as stand_in:
        client = SearchClient(api_key="k", base_url=stand_in.url, timeout_seconds=5)
        try:
            with pytest.raises(VigilError) as error:
                await client.search("lithium", max_results=1, topic=None, time_range=None)
        finally:
            await client.close()
    return error.value


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_who_is_away_or_limits_uses_up_no_attempt(status: int) -> None:
    body = json.dumps({"detail": {"error": "later"}}).encode()
    error = await failing(canned(body, status))
    assert isinstance(error, TransientError)
    assert not error.counts


async def test_a_connection_that_is_reset_uses_up_no_attempt() -> None:
    async def respond(connection: Connection) -> None:
        connection.reset()

    error = await failing(respond)
    assert isinstance(error, TransientError)
    assert not error.counts


async def test_a_service_that_cannot_be_reached_uses_up_no_attempt_and_costs_nothing() -> None:
    async with model_server(canned(b"")) as stand_in:
        pass
    client = SearchClient(api_key="k", base_url=stand_in.url, timeout_seconds=5)
    with pytest.raises(TransientError, match="cannot be reached") as error:
        await client.search("lithium", max_results=1, topic=None, time_range=None)
    await client.close()
    assert (error.value.counts, error.value.unbilled) == (False, True)


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"[1]", b"null"])
async def test_an_answer_that_is_none_counts(body: bytes) -> None:
    error = await failing(canned(body))
    assert isinstance(error, TransientError)
    assert error.counts


async def test_a_wrong_key_is_permanent() -> None:
    assert isinstance(await failing(canned(b'{"detail": {"error": "no"}}', 401)), PermanentError)
