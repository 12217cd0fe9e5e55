"""The sandbox's controls: meter, scripts and faults; and its command line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from tavily import AsyncTavilyClient
from tavily.errors import UsageLimitExceededError

from sandbox.settings import SandboxSettings
from tests.support.sandbox.server import (
    MESSAGES,
    MODEL,
    SCHEMA,
    SEARCH,
    post_control,
    read_meter,
    running_sandbox,
)
from tests.support.waiting import wait_until


async def test_the_meter_counts_answered_calls(
    url: str, model: AsyncOpenAI, tavily: AsyncTavilyClient
) -> None:
    for _ in range(2):
        await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    await tavily.search("gold")
    await post_control(url, "faults", {"kind": "status", "status": 500})
    with pytest.raises(openai.InternalServerError):
        await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    counts = await read_meter(url)
    assert counts["billed"] == {"llm": 2, "embedding": 0, "search": 1, "extract": 0, "research": 0}
    assert counts["repeated"]["llm"] == 1
    assert counts["total"] == 3
    assert [call["status"] for call in counts["calls"]] == [200, 200, 200, 500]
    assert len({call["request_hash"] for call in counts["calls"]}) == 2


async def test_scripted_answers_precede_the_rule_based_model(url: str, model: AsyncOpenAI) -> None:
    await post_control(
        url,
        "script",
        {"phase": "observer", "content": {"queries": []}},
        {"contains": "gold", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
        {"contains": "silver", "status": 400, "error": "no silver"},
    )
    first = await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    second = await model.chat.completions.create(
        model=MODEL, messages=MESSAGES, response_format=SCHEMA
    )
    third = await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    calls = first.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert (calls[0].function.name, calls[0].function.arguments) == ("f", '{"a":1}')
    assert second.choices[0].message.content == '{"queries": []}'
    assert third.choices[0].message.tool_calls is None
    with pytest.raises(openai.BadRequestError, match="no silver"):
        await model.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "silver"}]
        )


async def test_faults_apply_as_configured(url: str, model: AsyncOpenAI) -> None:
    rule = {
        "kind": "status",
        "status": 429,
        "retry_after_seconds": 7,
        "nth": 2,
        "phase": "conversation",
    }
    await post_control(url, "faults", rule)
    await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    with pytest.raises(openai.RateLimitError) as error:
        await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert error.value.response.headers["retry-after"] == "7"
    await model.chat.completions.create(model=MODEL, messages=MESSAGES)


async def test_a_search_can_be_rate_limited(url: str, tavily: AsyncTavilyClient) -> None:
    await post_control(
        url, "faults", {"kind": "status", "status": 429, "path": "/search", "count": 2}
    )
    for _ in range(2):
        with pytest.raises(UsageLimitExceededError):
            await tavily.search("gold")
    assert (await tavily.search("gold"))["results"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_interrupted_answer_is_billed_and_not_delivered(
    url: str, model: AsyncOpenAI, stream: bool
) -> None:
    await post_control(url, "faults", {"kind": "cut", "always": True})

    async def read_response() -> None:
        response = await model.chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=stream
        )
        if isinstance(response, openai.AsyncStream):
            async for _ in response:
                continue

    with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
        await read_response()
    (call,) = (await read_meter(url))["calls"]
    assert (call["billed"], call["delivered"]) == (True, False)


async def test_a_hang_lasts_until_the_client_disconnects(url: str, model: AsyncOpenAI) -> None:
    await post_control(url, "faults", {"kind": "hang"})
    with pytest.raises(openai.APITimeoutError):
        await model.with_options(timeout=0.2).chat.completions.create(
            model=MODEL, messages=MESSAGES
        )

    async def list_calls() -> Any:
        return (await read_meter(url))["calls"]

    (call,) = await wait_until(list_calls, what="the hanging call to end", seconds=5)
    assert (call["status"], call["billed"]) == (504, False)


async def test_latency_delays_the_answer(url: str, model: AsyncOpenAI) -> None:
    await post_control(url, "faults", {"kind": "latency", "latency_seconds": 5})
    with pytest.raises(openai.APITimeoutError):
        await model.with_options(timeout=0.2).chat.completions.create(
            model=MODEL, messages=MESSAGES
        )
    await model.chat.completions.create(model=MODEL, messages=MESSAGES)


async def test_the_model_can_return_invalid_tool_calls(url: str, model: AsyncOpenAI) -> None:
    for kind in ("malformed_json", "unknown_tool", "wrong_arguments"):
        await post_control(url, "faults", {"kind": kind})
        completion = await model.chat.completions.create(
            model=MODEL, messages=MESSAGES, tools=SEARCH
        )
        (call,) = completion.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, call.function.arguments) == {
            "malformed_json": ("tavilySearch", '{"broken'),
            "unknown_tool": ("noSuchTool", "{}"),
            "wrong_arguments": ("tavilySearch", '{"noSuchArgument":true}'),
        }[kind]


@pytest.mark.parametrize(
    "rule", [{"kind": "quake"}, {"kind": "cut", "nth": 1, "count": 2}, {"typo": 1}]
)
async def test_an_invalid_rule_is_rejected(url: str, rule: dict[str, Any]) -> None:
    async with httpx.AsyncClient() as client:
        response = await client.post(f"{url}/control/faults", json=[{"kind": "cut"}, rule])
        state = (await client.get(f"{url}/control")).json()
    assert response.status_code == 400
    assert state == {"faults": [], "scripts": 0}


async def test_the_sandbox_itself_has_no_controls(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Text.")
    async with (
        running_sandbox(SandboxSettings(port=0, corpus=str(tmp_path))) as url,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(f"{url}/control/meter")).status_code == 404
        assert (await client.post(f"{url}/control/reset")).status_code == 404


def test_an_unusable_corpus_ends_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--corpus", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert process.returncode == 2
    assert f"sandbox: The corpus folder {tmp_path} is empty." in process.stderr
