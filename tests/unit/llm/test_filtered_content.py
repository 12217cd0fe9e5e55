"""Refusals because of what a text of the request says, told apart from other refusals of a request."""

import json
from typing import Any

import pytest

from shared.errors import PermanentError
from shared.llm.model_server import REFUSED_CONTENT
from tests.support.model_server import (
    REQUEST,
    fixed_response,
    make_resumable_call,
    model_server,
    provider_for,
)

AZURE = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your"
    " prompt and retry."
)
FILTERED: list[tuple[int, Any]] = [
    (400, {"error": {"message": AZURE, "code": "content_filter", "param": "prompt"}}),
    (400, {"error": {"message": "no", "code": "content_filter"}}),
    (400, {"error": {"message": "no", "code": "ResponsibleAIPolicyViolation"}}),
    (400, {"error": {"message": "Input data may contain inappropriate content.", "code": "x"}}),
    (400, {"error": {"message": "no", "code": "data_inspection_failed"}}),
    (
        400,
        {"error": {"message": "Your prompt was flagged as potentially violating our usage policy"}},
    ),
    (400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
    (403, {"error": {"message": "Input was flagged by moderation", "code": 403}}),
    (422, {"detail": "the request was blocked by the safety filter"}),
    (400, [{"error": {"code": 400, "message": "The prompt was blocked: PROHIBITED_CONTENT"}}]),
]
OTHERS: list[tuple[int, Any, str]] = [
    (400, {"error": {"message": "Unsupported value: 'temperature'"}}, "llm_request"),
    (400, {"error": {"message": "messages[1].content must be a string"}}, "llm_request"),
    (400, {"error": {"message": "maximum context length is 8192 tokens"}}, "llm_request"),
    (403, {"error": {"message": "Your key has no access to this model"}}, "llm_key"),
    (401, {"error": {"message": "Incorrect API key provided"}}, "llm_key"),
    (404, {"error": {"message": "The model does not exist"}}, "llm_model"),
]


async def error_of(status: int, body: Any) -> PermanentError:
    async with (
        model_server(fixed_response(json.dumps(body).encode(), status)) as stand_in,
        provider_for(stand_in) as provider,
    ):
        with pytest.raises(PermanentError) as caught:
            await provider.complete(REQUEST, make_resumable_call())
    return caught.value


@pytest.mark.parametrize(("status", "body"), FILTERED)
async def test_a_filter_of_the_provider_is_recognized(status: int, body: Any) -> None:
    error = await error_of(status, body)
    assert error.code == REFUSED_CONTENT
    assert error.unbilled


@pytest.mark.parametrize(("status", "body", "code"), OTHERS)
async def test_other_refusals_are_none_of_a_filter(status: int, body: Any, code: str) -> None:
    assert (await error_of(status, body)).code == code
