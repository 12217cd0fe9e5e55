"""The sandbox answers as OpenAI does: chat completions, responses and embeddings."""

from pathlib import Path

import httpx
import openai
import pytest
from openai import AsyncOpenAI
from tavily import AsyncTavilyClient
from tavily.errors import BadRequestError, InvalidAPIKeyError

from sandbox.settings import SandboxSettings
from tests.support.sandbox.server import (
    MESSAGES,
    MODEL,
    SCHEMA,
    SEARCH,
    running_sandbox,
)


async def test_the_root_describes_the_sandbox(url: str) -> None:
    async with httpx.AsyncClient() as client:
        response = await client.get(url)
    assert "not a language model" in response.json()["what"]
    assert response.json()["corpus"]["documents"] == 2
    assert response.headers["x-vigil-sandbox"] == "1"


async def test_a_plan_follows_its_schema(model: AsyncOpenAI) -> None:
    completion = await model.chat.completions.create(
        model=MODEL, messages=MESSAGES, response_format=SCHEMA
    )
    choice = completion.choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content is not None
    assert '"queries"' in choice.message.content
    assert completion.usage is not None
    assert (
        completion.usage.total_tokens
        == completion.usage.prompt_tokens + completion.usage.completion_tokens
        > 0
    )


async def test_the_same_request_gets_the_same_bytes(url: str) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "tools": SEARCH}
    async with httpx.AsyncClient(headers={"authorization": "Bearer any"}) as client:
        first, second = [
            await client.post(f"{url}/v1/chat/completions", json=body) for _ in range(2)
        ]
    assert first.content == second.content
    assert first.status_code == 200


async def test_tools_are_called(model: AsyncOpenAI) -> None:
    completion = await model.chat.completions.create(model=MODEL, messages=MESSAGES, tools=SEARCH)
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    call = choice.message.tool_calls[0]
    assert call.type == "function"
    assert call.function.name == "tavilySearch"


async def test_a_stream_adds_up_to_the_complete_answer(model: AsyncOpenAI) -> None:
    completion = await model.chat.completions.create(model=MODEL, messages=MESSAGES)
    stream = await model.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == completion.choices[0].message.content
    assert len(chunks) > 3
    assert chunks[-1].usage == completion.usage
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"


async def test_a_streamed_tool_call_adds_up_to_the_complete_call(model: AsyncOpenAI) -> None:
    completion = await model.chat.completions.create(model=MODEL, messages=MESSAGES, tools=SEARCH)
    expected = (completion.choices[0].message.tool_calls or [])[0]
    assert expected.type == "function"
    stream = await model.chat.completions.create(
        model=MODEL, messages=MESSAGES, tools=SEARCH, stream=True
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
async def test_invalid_keys_are_rejected(url: str, key: str) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as error:
            await client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert error.value.code == "invalid_api_key"
    tavily = AsyncTavilyClient(api_key=key, api_base_url=url)
    with pytest.raises(InvalidAPIKeyError):
        await tavily.search("gold")
    with pytest.raises(InvalidAPIKeyError):
        await tavily.get_research("x")
    await tavily.close()


async def test_requests_that_openai_rejects_are_rejected(model: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        await model.chat.completions.create(model="gpt-5", messages=MESSAGES)
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="messages"):
        await model.chat.completions.create(model=MODEL, messages=[])
    assert [entry.id async for entry in model.models.list()] == [MODEL]


async def test_search_responds_as_tavily_does(tavily: AsyncTavilyClient) -> None:
    response = await tavily.search("Who exports gold?", max_results=2, include_raw_content=True)
    best = response["results"][0]
    assert (best["title"], best["url"], best["published_date"]) == (
        "Gold",
        "https://press.example/gold",
        "2026-05-01",
    )
    assert "Ghana exports gold." in best["content"]
    assert "Togo has none." in best["raw_content"]
    assert 0 < best["score"] < 1
    recent_response = await tavily.search("gold", start_date="2025-01-01")
    assert [result["title"] for result in recent_response["results"]] == ["Gold"]
    assert len((await tavily.search("gold", max_results=1))["results"]) == 1
    others = await tavily.search("gold", exclude_domains=["press.example"])
    assert all("press.example" not in result["url"] for result in others["results"])
    with pytest.raises(BadRequestError, match="time_range"):
        await tavily.search("gold", time_range="decade")


async def test_extract_and_research_respond_as_tavily_does(tavily: AsyncTavilyClient) -> None:
    pages = await tavily.extract(["https://press.example/gold", "https://press.example/none"])
    assert "Ghana exports gold." in pages["results"][0]["raw_content"]
    assert pages["failed_results"][0]["url"] == "https://press.example/none"
    task = await tavily.research("Who exports gold?")
    assert task["status"] == "pending"
    result = await tavily.get_research(task["request_id"])
    assert result["status"] == "completed"
    assert "Ghana exports gold." in result["content"]
    assert {"title": "Gold", "url": "https://press.example/gold"} in result["sources"]


async def test_a_configured_key_rejects_all_other_keys(tmp_path: Path) -> None:
    (tmp_path / "private.md").write_text("# Private\n\nNobody else may read this.")
    async with (
        running_sandbox(SandboxSettings(port=0, corpus=str(tmp_path), key="its own")) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        invalid_headers: list[dict[str, str]] = [
            {},
            {"authorization": "Bearer sandbox"},
            {"authorization": "its own"},
        ]
        for headers in invalid_headers:
            response = await client.post("/search", json={"query": "private"}, headers=headers)
            assert (response.status_code, "Private" in response.text) == (401, False)
            assert (await client.get("/", headers=headers)).status_code == 401
        valid_headers = {"authorization": "Bearer its own"}
        response = await client.post("/search", json={"query": "private"}, headers=valid_headers)
        assert "Nobody else" in response.text
        assert (await client.get("/health")).status_code == 200
