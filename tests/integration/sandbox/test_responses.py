"""The sandbox's Responses API, and its idempotency keys."""

from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.support.sandbox.serving import MODEL, SAID, SCHEMA, SEARCH, post_control, read_meter
from tests.support.waiting import until

TOOLS: Any = [{"type": "function", "strict": False, **tool["function"]} for tool in SEARCH]
TEXT: Any = {"format": {"type": "json_schema", **SCHEMA["json_schema"]}}


async def ordered(model: AsyncOpenAI, key: str | None = None, **more: Any) -> Response:
    queued: Response = await model.responses.create(
        model=MODEL,
        input=SAID,
        background=True,
        store=True,
        extra_headers={"Idempotency-Key": key} if key else {},
        **more,
    )
    return queued


async def ended(model: AsyncOpenAI, response: Response) -> Response:
    async def look() -> Response | None:
        found = await model.responses.retrieve(response.id)
        return None if found.status in ("queued", "in_progress") else found

    found = await until(look, what="the answer to be made")
    assert found is not None
    return found


async def test_an_answer_is_ordered_made_and_found(model: AsyncOpenAI) -> None:
    queued = await ordered(model, text=TEXT)
    assert (queued.status, queued.output) == ("queued", [])
    done = await ended(model, queued)
    plan = await model.chat.completions.create(model=MODEL, messages=SAID, response_format=SCHEMA)
    assert done.output_text == plan.choices[0].message.content
    assert done.usage is not None
    assert plan.usage is not None
    assert done.usage.total_tokens == plan.usage.total_tokens


async def test_tools_are_called(model: AsyncOpenAI) -> None:
    done = await ended(model, await ordered(model, tools=TOOLS))
    call = done.output[-1]
    assert call.type == "function_call"
    assert call.name == "tavilySearch"


async def test_it_is_not_billed_before_it_is_made(url: str, model: AsyncOpenAI) -> None:
    await post_control(
        url, "faults", {"kind": "latency", "latency_seconds": 3600, "path": "/responses"}
    )
    queued = await ordered(model)
    assert (await model.responses.retrieve(queued.id)).status == "in_progress"
    assert (await read_meter(url))["billed"]["llm"] == 0


async def test_it_is_billed_once_however_often_it_is_looked_at(
    url: str, model: AsyncOpenAI
) -> None:
    queued = await ordered(model, tools=TOOLS)
    for _ in range(2):
        await ended(model, queued)
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
    assert (await ended(model, await ordered(model, text=TEXT))).output_text == "scripted"
    failures = [(await ended(model, await ordered(model))).error for _ in range(2)]
    assert [error and (error.code, error.message) for error in failures] == [
        ("server_error", "broken"),
        ("invalid_prompt", "not this"),
    ]
    await post_control(url, "faults", {"kind": "status", "status": 429, "retry_after_seconds": 7})
    with pytest.raises(openai.RateLimitError) as limited:
        await ordered(model)
    assert limited.value.response.headers["retry-after"] == "7"
    await post_control(url, "faults", {"kind": "unknown_tool"})
    (call,) = (await ended(model, await ordered(model, tools=TOOLS))).output
    assert call.type == "function_call"
    assert call.name == "noSuchTool"
    assert (await read_meter(url))["billed"]["llm"] == 2


async def test_a_cut_order_is_made_and_billed_all_the_same(url: str, model: AsyncOpenAI) -> None:
    await post_control(url, "faults", {"kind": "cut"})
    with pytest.raises(openai.APIConnectionError):
        await ordered(model)

    async def billed() -> bool:
        return bool((await read_meter(url))["billed"]["llm"] == 1)

    await until(billed, what="the answer to be made")


async def test_what_openai_would_refuse_is_refused(url: str, model: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="resp_none"):
        await model.responses.retrieve("resp_none")
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await model.responses.create(model="gpt-5", input=SAID, background=True)
    with pytest.raises(openai.BadRequestError, match="background"):
        await model.responses.create(model=MODEL, input=SAID)
    with pytest.raises(openai.BadRequestError, match="input"):
        await model.responses.create(model=MODEL, input=[], background=True)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.responses.retrieve("resp_none")


async def asked(url: str, key: str, said: str = "gold") -> httpx.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": said}]}
    headers = {"authorization": "Bearer any", "idempotency-key": key}
    async with httpx.AsyncClient(headers=headers) as client:
        return await client.post(f"{url}/v1/chat/completions", json=body)


async def test_keys_mean_nothing_unless_the_sandbox_is_told_to_heed_them(
    url: str, model: AsyncOpenAI
) -> None:
    for _ in range(2):
        await asked(url, "k")
    first, second = [await ordered(model, "k2") for _ in range(2)]
    assert first.id != second.id
    counted = await read_meter(url)
    assert (counted["repeated"]["llm"], counted["replayed"]) == (2, 0)


async def test_a_key_that_is_heeded_gives_the_same_answer_for_nothing(
    url: str, model: AsyncOpenAI
) -> None:
    await post_control(url, "keys", {"heeded": True})
    await post_control(url, "faults", {"kind": "status", "status": 500})
    await post_control(url, "script", {"content": "first"}, {"content": "second"})
    answers = [await asked(url, "k") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [500, 200, 200]
    assert answers[1].content == answers[2].content
    assert (await asked(url, "another")).json()["choices"][0]["message"]["content"] == "second"
    first, again = [await ordered(model, "k2") for _ in range(2)]
    assert first.id == again.id
    await ended(model, first)
    counted = await read_meter(url)
    assert (counted["billed"]["llm"], counted["replayed"]) == (3, 2)
    assert (await asked(url, "k", "silver")).status_code == 422
