"""A used-up quota of the search service: told apart from a wrong key and from a limit of requests."""

import json
from typing import Any

import pytest

from shared.errors import PermanentError, QuotaUsedUpError, UnavailableError, VigilError
from shared.tools import ToolRefusalError
from shared.web_search.tools import conversation_search
from tests.support.model_server import fixed_response, model_server
from tests.support.search import search_client, search_error

USED_UP: list[tuple[int, Any]] = [
    (432, {"detail": {"error": "This request exceeds your plan's set usage limit."}}),
    (433, {"detail": {"error": "This request exceeds the pay-as-you-go limit."}}),
    (432, "no JSON"),
    (433, [1]),
    (402, {"error": "Payment required"}),
    (402, ""),
    (403, {"error": {"message": "Quota exceeded for this project"}}),
    (403, {"message": "You have exhausted your monthly credits"}),
    (429, {"detail": "Monthly quota exceeded"}),
    (429, {"error": "Your account has run out of credits. Upgrade your plan."}),
    (400, {"message": "Insufficient balance"}),
]
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
    assert error.unbilled
    assert "TAVILY_API_KEY" not in str(error)
    assert f"answered {status}" in str(error)


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
        arguments = tool.arguments(query="lithium")
        with pytest.raises(ToolRefusalError, match="no search is possible now") as caught:
            await tool.call(arguments)
    assert caught.value.unbilled
