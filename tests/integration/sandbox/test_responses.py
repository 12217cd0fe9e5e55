"""The sandbox's Responses API, and its idempotency keys."""

from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.support.sandbox.server import MESSAGES, MODEL, SCHEMA, SEARCH, post_control, read_meter
from tests.support.waiting import wait_until

TOOLS: Any = [{"type": "function", "strict": False, **tool["function"]} for tool in SEARCH]
TEXT: Any = {"format": {"type": "json_schema", **SCHEMA["json_schema"]}}


async def create_response(model: AsyncOpenAI, key: str | None = None, **params: Any) -> Response:
    response: Response = await model.responses.create(
        model=MODEL,
        input=MESSAGES,
        background=True,
        store=True,
        extra_headers={"Idempotency-Key": key} if key else {},
        **params,
    )
    return response


async def wait_for_result(model: AsyncOpenAI, response: Response) -> Response:
    async def retrieve() -> Response | None:
        current = await model.responses.retrieve(response.id)
        return None if current.status in ("queued", "in_progress") else current

    result = await wait_until(retrieve, what="the response to be completed")
    assert result is not None
    return result


async def test_a_background_response_is_created_and_retrieved(model: AsyncOpenAI) -> None:
    response = await create_response(model, text=TEXT)
    assert (response.status, response.output) == ("queued", [])
    result = await wait_for_result(model, response)
    completion = await model.chat.completions.create(
        model=MODEL, messages=MESSAGES, response_format=SCHEMA
    )
    assert result.output_text == completion.choices[0].message.content
    assert result.usage is not None
    assert completion.usage is not None
    assert result.usage.total_tokens == completion.usage.total_tokens


async def test_tools_are_called(model: AsyncOpenAI) -> None:
    result = await wait_for_result(model, await create_response(model, tools=TOOLS))
    call = result.output[-1]
    assert call.type == "function_call"
    assert call.name == "tavilySearch"


async def test_a_response_is_not_billed_before_it_is_completed(
    url: str, model: AsyncOpenAI
) -> None:
    await post_control(
        url, "faults", {"kind": "latency", "latency_seconds": 3600, "path": "/responses"}
    )
    response = await create_response(model)
    assert (await model.responses.retrieve(response.id)).status == "in_progress"
    assert (await read_meter(url))["billed"]["llm"] == 0


async def test_a_response_is_billed_once_however_often_it_is_retrieved(
    url: str, model: AsyncOpenAI
) -> None:
    response = await create_response(model, tools=TOOLS)
    for _ in range(2):
        await wait_for_result(model, response)
    (call,) = (await read_meter(url))["calls"]
    assert (call["phase"], call["billed"]) == ("knowledge_acquisition", True)


async def test_scripts_and_faults_work_as_they_do_for_chat(url: str, model: AsyncOpenAI) -> None:
    await post_control(
        url,
        "script",
        {"phase": "observer", "content": "scripted"},
        {"status": 500, "error": "broken"},
        {"status": 400, "error": "not this"},
    )
    assert (
        await wait_for_result(model, await create_response(model, text=TEXT))
    ).output_text == "scripted"
    failures = [
        (await wait_for_result(model, await create_response(model))).error for _ in range(2)
    ]
    assert [error and (error.code, error.message) for error in failures] == [
        ("server_error", "broken"),
        ("invalid_prompt", "not this"),
    ]
    await post_control(url, "faults", {"kind": "status", "status": 429, "retry_after_seconds": 7})
    with pytest.raises(openai.RateLimitError) as error_info:
        await create_response(model)
    assert error_info.value.response.headers["retry-after"] == "7"
    await post_control(url, "faults", {"kind": "unknown_tool"})
    (call,) = (await wait_for_result(model, await create_response(model, tools=TOOLS))).output
    assert call.type == "function_call"
    assert call.name == "noSuchTool"
    assert (await read_meter(url))["billed"]["llm"] == 2


async def test_an_interrupted_request_is_still_completed_and_billed(
    url: str, model: AsyncOpenAI
) -> None:
    await post_control(url, "faults", {"kind": "cut"})
    with pytest.raises(openai.APIConnectionError):
        await create_response(model)

    async def is_billed() -> bool:
        return bool((await read_meter(url))["billed"]["llm"] == 1)

    await wait_until(is_billed, what="the response to be completed")


async def test_requests_that_openai_rejects_are_rejected(url: str, model: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="resp_none"):
        await model.responses.retrieve("resp_none")
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await model.responses.create(model="gpt-5", input=MESSAGES, background=True)
    with pytest.raises(openai.BadRequestError, match="background"):
        await model.responses.create(model=MODEL, input=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="input"):
        await model.responses.create(model=MODEL, input=[], background=True)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.responses.retrieve("resp_none")


async def post_chat(url: str, key: str, content: str = "gold") -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
    headers = {"authorization": "Bearer any", "idempotency-key": key}
    async with httpx.AsyncClient(headers=headers) as client:
        return await client.post(f"{url}/v1/chat/completions", json=body)


async def test_idempotency_keys_are_ignored_by_default(url: str, model: AsyncOpenAI) -> None:
    for _ in range(2):
        await post_chat(url, "k")
    first, second = [await create_response(model, "k2") for _ in range(2)]
    assert first.id != second.id
    meter = await read_meter(url)
    assert (meter["repeated"]["llm"], meter["replayed"]) == (2, 0)


async def test_an_idempotency_key_returns_the_same_answer_at_no_cost(
    url: str, model: AsyncOpenAI
) -> None:
    await post_control(url, "keys", {"heeded": True})
    await post_control(url, "faults", {"kind": "status", "status": 500})
    await post_control(url, "script", {"content": "first"}, {"content": "second"})
    responses = [await post_chat(url, "k") for _ in range(3)]
    assert [response.status_code for response in responses] == [500, 200, 200]
    assert responses[1].content == responses[2].content
    assert (await post_chat(url, "another")).json()["choices"][0]["message"]["content"] == "second"
    first, second = [await create_response(model, "k2") for _ in range(2)]
    assert first.id == second.id
    await wait_for_result(model, first)
    meter = await read_meter(url)
    assert (meter["billed"]["llm"], meter["replayed"]) == (3, 2)
    assert (await post_chat(url, "k", "silver")).status_code == 422
