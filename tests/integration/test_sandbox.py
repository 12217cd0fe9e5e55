"""The sandbox over HTTP, asked with the real clients of OpenAI and Tavily."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import uvicorn
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionToolParam
from tavily import AsyncTavilyClient
from tavily.errors import BadRequestError, InvalidAPIKeyError, UsageLimitExceededError

from sandbox.app import build_app
from sandbox.settings import SandboxSettings
from tests.waiting import until

MODEL = "sandbox-reader"
SAID: list[Any] = [
    {"role": "user", "content": "<mission>\nWatch gold exports of Ghana\n</mission>"}
]
SEARCH: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "tavilySearch", "parameters": {"type": "object"}}}
]
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "observer_plan",
        "strict": True,
        "schema": {"type": "object", "properties": {"queries": {"type": "array"}}},
    },
}


@asynccontextmanager
async def serving(settings: SandboxSettings) -> AsyncIterator[str]:
    """The real server, in this process; gives its address once the corpus is loaded."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(build_app(settings), log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        await until(lambda: _is_ready(url), what="the corpus to be loaded")
        yield url
    finally:
        server.should_exit = True
        await task


async def _is_ready(url: str) -> bool:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{url}/health")).status_code == 200


@pytest.fixture(scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "gold.md").write_text(
        "---\ndate: 2026-05-01\nurl: https://press.example/gold\n---\n# Gold\n\nGhana exports gold. Togo has none."
    )
    (folder / "old.md").write_text(
        "---\ndate: 2019-01-01\n---\n# Old gold\n\nGold was dear in 2019."
    )
    settings = SandboxSettings(port=0, corpus=str(folder), control=True)
    async with serving(settings) as url:
        yield url


@pytest.fixture
async def url(served: str) -> str:
    async with httpx.AsyncClient() as client:
        (await client.post(f"{served}/control/reset")).raise_for_status()
    return served


@pytest.fixture
async def model(url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=10
    ) as client:
        yield client


@pytest.fixture
async def tavily(url: str) -> AsyncIterator[AsyncTavilyClient]:
    client = AsyncTavilyClient(api_key="any", api_base_url=url)
    yield client
    await client.close()


async def order(url: str, lever: str, *rules: dict[str, Any]) -> None:
    async with httpx.AsyncClient() as client:
        (await client.post(f"{url}/control/{lever}", json=list(rules))).raise_for_status()


async def meter(url: str) -> Any:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{url}/control/meter?detail=1")).raise_for_status().json()


async def test_says_what_it_is(url: str) -> None:
    async with httpx.AsyncClient() as client:
        about = await client.get(url)
    assert "no language model" in about.json()["what"]
    assert about.json()["corpus"]["documents"] == 2
    assert about.headers["x-vigil-sandbox"] == "1"


async def test_a_plan_by_schema(model: AsyncOpenAI) -> None:
    made = await model.chat.completions.create(model=MODEL, messages=SAID, response_format=SCHEMA)
    choice = made.choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content is not None
    assert '"queries"' in choice.message.content
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens > 0


async def test_the_same_request_gets_the_same_bytes(url: str) -> None:
    body = {"model": MODEL, "messages": SAID, "tools": SEARCH}
    async with httpx.AsyncClient(headers={"authorization": "Bearer any"}) as client:
        first, second = [
            await client.post(f"{url}/v1/chat/completions", json=body) for _ in range(2)
        ]
    assert first.content == second.content
    assert first.status_code == 200


async def test_tools_are_called(model: AsyncOpenAI) -> None:
    made = await model.chat.completions.create(model=MODEL, messages=SAID, tools=SEARCH)
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    call = choice.message.tool_calls[0]
    assert call.type == "function"
    assert call.function.name == "tavilySearch"


async def test_a_stream_adds_up_to_the_whole(model: AsyncOpenAI) -> None:
    whole = await model.chat.completions.create(model=MODEL, messages=SAID)
    stream = await model.chat.completions.create(
        model=MODEL, messages=SAID, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert len(chunks) > 3
    assert chunks[-1].usage == whole.usage
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"


async def test_a_streamed_tool_call_adds_up_too(model: AsyncOpenAI) -> None:
    whole = await model.chat.completions.create(model=MODEL, messages=SAID, tools=SEARCH)
    expected = (whole.choices[0].message.tool_calls or [])[0]
    assert expected.type == "function"
    stream = await model.chat.completions.create(
        model=MODEL, messages=SAID, tools=SEARCH, stream=True
    )
    deltas = [
        call
        async for chunk in stream
        for choice in chunk.choices
        for call in choice.delta.tool_calls or []
        if call.index == 0
    ]
    assert deltas[0].id is not None
    assert (
        "".join(call.function.arguments or "" for call in deltas if call.function)
        == expected.function.arguments
    )


@pytest.mark.parametrize("key", ["wrong", "invalid-key"])
async def test_wrong_keys_are_refused(url: str, key: str) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.chat.completions.create(model=MODEL, messages=SAID)
    assert refused.value.code == "invalid_api_key"
    tavily = AsyncTavilyClient(api_key=key, api_base_url=url)
    with pytest.raises(InvalidAPIKeyError):
        await tavily.search("gold")
    with pytest.raises(InvalidAPIKeyError):
        await tavily.get_research("x")
    await tavily.close()


async def test_what_openai_would_refuse_is_refused(model: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await model.chat.completions.create(model="gpt-5", messages=SAID)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="messages"):
        await model.chat.completions.create(model=MODEL, messages=[])
    assert [listed.id async for listed in model.models.list()] == [MODEL]


async def test_search_as_tavily_answers_it(tavily: AsyncTavilyClient) -> None:
    found = await tavily.search("Who exports gold?", max_results=2, include_raw_content=True)
    best = found["results"][0]
    assert (best["title"], best["url"], best["published_date"]) == (
        "Gold",
        "https://press.example/gold",
        "2026-05-01",
    )
    assert "Ghana exports gold." in best["content"]
    assert "Togo has none." in best["raw_content"]
    assert 0 < best["score"] < 1
    recent = await tavily.search("gold", start_date="2025-01-01")
    assert [result["title"] for result in recent["results"]] == ["Gold"]
    assert len((await tavily.search("gold", max_results=1))["results"]) == 1
    with pytest.raises(BadRequestError, match="time_range"):
        await tavily.search("gold", time_range="decade")


async def test_extract_and_research_as_tavily_answers_them(tavily: AsyncTavilyClient) -> None:
    pages = await tavily.extract(["https://press.example/gold", "https://press.example/none"])
    assert "Ghana exports gold." in pages["results"][0]["raw_content"]
    assert pages["failed_results"][0]["url"] == "https://press.example/none"
    task = await tavily.research("Who exports gold?")
    assert task["status"] == "pending"
    done = await tavily.get_research(task["request_id"])
    assert done["status"] == "completed"
    assert "Ghana exports gold." in done["content"]
    assert {"title": "Gold", "url": "https://press.example/gold"} in done["sources"]


async def test_the_meter_counts_what_was_answered(
    url: str, model: AsyncOpenAI, tavily: AsyncTavilyClient
) -> None:
    for _ in range(2):
        await model.chat.completions.create(model=MODEL, messages=SAID)
    await tavily.search("gold")
    await order(url, "faults", {"kind": "status", "status": 500})
    with pytest.raises(openai.InternalServerError):
        await model.chat.completions.create(model=MODEL, messages=SAID)
    counted = await meter(url)
    assert counted["billed"] == {"llm": 2, "search": 1, "extract": 0, "research": 0}
    assert counted["repeated"]["llm"] == 1
    assert counted["total"] == 3
    assert [call["status"] for call in counted["calls"]] == [200, 200, 200, 500]
    assert len({call["request_hash"] for call in counted["calls"]}) == 2


async def test_scripted_answers_come_before_the_reader(url: str, model: AsyncOpenAI) -> None:
    await order(
        url,
        "script",
        {"phase": "observer", "content": {"queries": []}},
        {"contains": "gold", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
        {"contains": "silver", "status": 400, "error": "no silver"},
    )
    first = await model.chat.completions.create(model=MODEL, messages=SAID)
    second = await model.chat.completions.create(model=MODEL, messages=SAID, response_format=SCHEMA)
    third = await model.chat.completions.create(model=MODEL, messages=SAID)
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


async def test_faults_strike_as_ordered(url: str, model: AsyncOpenAI) -> None:
    rate = {
        "kind": "status",
        "status": 429,
        "retry_after_seconds": 7,
        "nth": 2,
        "phase": "conversation",
    }
    await order(url, "faults", rate)
    await model.chat.completions.create(model=MODEL, messages=SAID)
    with pytest.raises(openai.RateLimitError) as limited:
        await model.chat.completions.create(model=MODEL, messages=SAID)
    assert limited.value.response.headers["retry-after"] == "7"
    await model.chat.completions.create(model=MODEL, messages=SAID)


async def test_a_search_can_be_limited_too(url: str, tavily: AsyncTavilyClient) -> None:
    await order(url, "faults", {"kind": "status", "status": 429, "path": "/search", "count": 2})
    for _ in range(2):
        with pytest.raises(UsageLimitExceededError):
            await tavily.search("gold")
    assert (await tavily.search("gold"))["results"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_answer_is_billed_and_not_delivered(
    url: str, model: AsyncOpenAI, stream: bool
) -> None:
    await order(url, "faults", {"kind": "cut", "always": True})

    async def read() -> None:
        answered = await model.chat.completions.create(model=MODEL, messages=SAID, stream=stream)
        if isinstance(answered, openai.AsyncStream):
            async for _ in answered:
                continue

    with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
        await read()
    (call,) = (await meter(url))["calls"]
    assert (call["billed"], call["delivered"]) == (True, False)


async def test_a_hang_lasts_until_the_client_goes(url: str, model: AsyncOpenAI) -> None:
    await order(url, "faults", {"kind": "hang"})
    with pytest.raises(openai.APITimeoutError):
        await model.with_options(timeout=0.2).chat.completions.create(model=MODEL, messages=SAID)

    async def ended() -> Any:
        return (await meter(url))["calls"]

    (call,) = await until(ended, what="the hanging call to end", seconds=5)
    assert (call["status"], call["billed"]) == (504, False)


async def test_latency_is_waited(url: str, model: AsyncOpenAI) -> None:
    await order(url, "faults", {"kind": "latency", "latency_seconds": 5})
    with pytest.raises(openai.APITimeoutError):
        await model.with_options(timeout=0.2).chat.completions.create(model=MODEL, messages=SAID)
    await model.chat.completions.create(model=MODEL, messages=SAID)


async def test_the_model_can_be_made_to_err(url: str, model: AsyncOpenAI) -> None:
    for kind in ("malformed_json", "unknown_tool", "wrong_arguments"):
        await order(url, "faults", {"kind": kind})
        made = await model.chat.completions.create(model=MODEL, messages=SAID, tools=SEARCH)
        (call,) = made.choices[0].message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, call.function.arguments) == {
            "malformed_json": ("tavilySearch", '{"broken'),
            "unknown_tool": ("noSuchTool", "{}"),
            "wrong_arguments": ("tavilySearch", '{"noSuchArgument":true}'),
        }[kind]


@pytest.mark.parametrize(
    "rule", [{"kind": "quake"}, {"kind": "cut", "nth": 1, "count": 2}, {"typo": 1}]
)
async def test_a_rule_that_makes_no_sense_is_refused(url: str, rule: dict[str, Any]) -> None:
    async with httpx.AsyncClient() as client:
        refused = await client.post(f"{url}/control/faults", json=[{"kind": "cut"}, rule])
        standing = (await client.get(f"{url}/control")).json()
    assert refused.status_code == 400
    assert standing == {"faults": [], "scripts": 0}


async def test_control_is_off_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Text.")
    async with (
        serving(SandboxSettings(port=0, corpus=str(tmp_path))) as url,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(f"{url}/control/meter")).status_code == 404
        assert (await client.post(f"{url}/control/reset")).status_code == 404


def test_a_corpus_that_cannot_be_used_ends_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--corpus", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 2
    assert f"sandbox: The corpus folder {tmp_path} is empty." in ended.stderr
