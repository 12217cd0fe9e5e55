"""A used-up quota of the search service: distinguished from a wrong key and from a limit of requests."""

import json
from typing import Any

import pytest

from shared.errors import PermanentError, QuotaUsedUpError, UnavailableError, VigilError
from shared.tools import ToolRefusalError
from shared.web_search.tools import conversation_search
from tests.support.case_files import read_cases
from tests.support.model_server import fixed_response, make_resumable_call, model_server
from tests.support.search import search_client, search_error

CASES = read_cases(__file__)

USED_UP = CASES["used_up"]
OTHERS: list[tuple[int, Any, type[VigilError]]] = [
    (401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}, PermanentError),
    (403, {"detail": {"error": "This key may not use this endpoint"}}, PermanentError),
    (429, {"detail": {"error": "Too many requests"}}, UnavailableError),
    (429, {"error": "Quota exceeded: 100 requests per minute"}, UnavailableError),
    (429, {"error": "rate limit of your plan exceeded"}, UnavailableError),
    (400, {"detail": {"error": "Query is too long. Max query length is 400."}}, ToolRefusalError),
    (503, {"detail": {"error": "quota service unavailable"}}, UnavailableError),
]


def encoded(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


@pytest.mark.parametrize(("status", "body"), USED_UP)
async def test_a_used_up_quota_waits_and_blames_no_key(status: int, body: Any) -> None:
    error = await search_error(fixed_response(encoded(body), status))
    assert isinstance(error, QuotaUsedUpError)
    assert error.is_quota
    assert not error.counts
    assert error.is_unbilled
    assert "TAVILY_API_KEY" not in str(error)
    assert f"answered {status}" in str(error)


SENTENCE = "This request exceeds your plan's set usage limit"


@pytest.mark.parametrize("end", ["", ".", ".\n"])
@pytest.mark.parametrize(
    "body",
    [
        lambda text: {"detail": {"error": text}},
        lambda text: {"detail": text},
        lambda text: {"error": text},
        lambda text: {"error": {"message": text}},
        lambda text: {"message": text},
    ],
)
async def test_the_sentence_of_a_refusal_is_shown_without_its_json(body: Any, end: str) -> None:
    error = await search_error(fixed_response(encoded(body(SENTENCE + end)), 432))
    assert str(error).startswith(f"the search service answered 432: {SENTENCE}. Raise the limit")


@pytest.mark.parametrize(("status", "body", "kind"), OTHERS)
async def test_other_refusals_are_no_used_up_quota(
    status: int, body: Any, kind: type[VigilError]
) -> None:
    error = await search_error(fixed_response(encoded(body), status))
    assert isinstance(error, kind)
    assert not isinstance(error, QuotaUsedUpError)


async def test_a_conversation_goes_on_without_a_search() -> None:
    async with model_server(fixed_response(b"{}", 432)) as stand_in, search_client(stand_in) as it:
        tool = conversation_search(it)
        assert tool.operation == "search", "its price"
        arguments = tool.arguments(query="lithium")
        with pytest.raises(ToolRefusalError, match="no search is possible now") as caught:
            await tool.call(arguments, make_resumable_call())
    assert caught.value.is_unbilled
