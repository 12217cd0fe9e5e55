"""Refusals because of what a text of the request says, distinguished from other refusals of a request."""

import json
from typing import Any

import pytest

from shared.errors import PermanentError
from shared.llm.answer_errors import AnswerError
from shared.llm.model_server import REFUSED_CONTENT, Stream
from tests.support.case_files import read_cases
from tests.support.model_server import (
    REQUEST,
    events,
    fixed_response,
    make_resumable_call,
    model_server,
    provider_for,
)

CASES = read_cases(__file__)

AZURE = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your"
    " prompt and retry."
)
FILTERED: list[tuple[int, Any]] = [
    (400, {"error": {"message": AZURE, "code": "content_filter", "param": "prompt"}}),
    (400, {"error": {"message": "no", "code": "content_filter"}}),
    (400, {"error": {"message": "It was considered high risk", "type": "content_filter"}}),
    (400, {"error": {"message": "no", "code": 400, "inner": {"reason": "content_filter"}}}),
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
    (400, {"error": {"message": "no", "code": "invalid_prompt"}}),
    (400, {"error": {"message": "no", "code": "1301"}}),
    (
        403,
        {
            "code": "The caller does not have permission to execute the specified operation",
            "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
        },
    ),
    (424, {"error": [{"code": 2016, "message": "Prompt blocked due to security configurations"}]}),
    (406, {"message": "This request violates our acceptable use policy"}),
    (400, {"error": {"message": "Blocked by Model Armor"}}),
    (400, {"error": {"message": "系统检测到输入或生成内容可能包含敏感内容", "code": "x"}}),
    (400, {"contentFilter": [{"level": 1, "role": "user"}], "error": {"message": "no"}}),
]
WITHHELD: list[Any] = [
    *(
        {"choices": [{"index": 0, "message": {"content": "Sorry."}, "finish_reason": reason}]}
        for reason in (
            "content_filter",
            "guardrail_intervened",
            "sensitive",
            "SAFETY",
            "PROHIBITED_CONTENT",
            "content_filter: RECITATION",
        )
    ),
    {"choices": [{"index": 0, "message": {"role": "assistant"}, "finish_reason": "SAFETY"}]},
    {"choices": [{"index": 0, "finish_reason": "content_filter"}]},
    {"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
    {"prompt_feedback": {"block_reason": "OTHER"}},
    {"error": {"code": 403, "message": "Your input was flagged by moderation"}},
]
NOT_WITHHELD: list[Any] = [
    {"choices": [{"index": 0, "message": {"content": "Half a"}, "finish_reason": "abort"}]},
    {"choices": []},
    {"choices": [], "promptFeedback": {}},
    {"error": {"code": 500, "message": "CUDA out of memory"}},
]
OTHERS: list[tuple[int, Any, str]] = CASES["others"]


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
    assert error.is_unbilled


@pytest.mark.parametrize(("status", "body", "code"), OTHERS)
async def test_other_refusals_are_none_of_a_filter(status: int, body: Any, code: str) -> None:
    assert (await error_of(status, body)).code == code


async def answer_error(body: Any, stream: Stream) -> AnswerError:
    content = events(body) if stream == "auto" else json.dumps(body).encode()
    async with (
        model_server(fixed_response(content)) as stand_in,
        provider_for(stand_in, stream=stream) as provider,
    ):
        with pytest.raises(AnswerError) as caught:
            await provider.complete(REQUEST, make_resumable_call())
    return caught.value


@pytest.mark.parametrize("stream", ["never", "auto"])
@pytest.mark.parametrize("body", WITHHELD)
async def test_a_filter_that_withholds_an_answer_is_recognized(body: Any, stream: Stream) -> None:
    assert (await answer_error(body, stream)).is_filtered


@pytest.mark.usefixtures("no_quick_retries")
@pytest.mark.parametrize("stream", ["never", "auto"])
@pytest.mark.parametrize("body", NOT_WITHHELD)
async def test_another_broken_answer_is_none_of_a_filter(body: Any, stream: Stream) -> None:
    assert not (await answer_error(body, stream)).is_filtered


@pytest.fixture
def no_quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable immediate retries."""
    monkeypatch.setattr("shared.llm.model_server.QUICK_TRIES", 1)
