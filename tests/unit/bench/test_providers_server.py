"""The benchmark's server of model and search, asked by the shipped clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from bench.loop import scripted_model
from bench.loop.providers_server import ProvidersProtocol
from bench.loop.scripted_model import OUTPUT_TOKENS, Query, Reference
from shared.llm.messages import ChatRequest
from shared.llm.model_server import Limits, ModelServer, Stream
from shared.llm.provider import ChatProvider
from shared.web_search.client import SearchClient
from tests.support.model_server import make_resumable_call

REFERENCE = Reference(uuid4(), (uuid4(), uuid4()))
QUERY = Query("0123456789abcdef")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ProvidersProtocol(0.0), "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


def request_for(tool: str) -> ChatRequest:
    prompt = f"{REFERENCE.mission} key={QUERY.key}"
    tools = ({"type": "function", "function": {"name": tool, "parameters": {}}},)
    messages = ({"role": "system", "content": ""}, {"role": "user", "content": prompt})
    return ChatRequest("m", messages, tools)


@pytest.mark.parametrize("stream", ["never", "always"])
async def test_the_model_answers_as_scripted_whole_and_streamed(url: str, stream: Stream) -> None:
    server = ModelServer(api_key="k", base_url=f"{url}/v1", limits=Limits(), stream=stream)
    provider = ChatProvider(server)
    try:
        for _ in range(2):
            answer = await provider.complete(request_for("addGraphNode"), make_resumable_call())
            arguments = [json.loads(call.arguments) for call in answer.tool_calls]
            expected = scripted_model.write_calls(REFERENCE, QUERY)
            assert arguments == [*scripted_model.parse_arguments(expected), {}]
            assert answer.tool_calls[-1].name == "finish"
            assert answer.input_tokens
            assert answer.output_tokens == OUTPUT_TOKENS
    finally:
        await provider.close()


async def test_the_search_answers_as_scripted(url: str) -> None:
    client = SearchClient(api_key="k", base_url=url, timeout_seconds=10.0)
    try:
        found = await client.search(f"key={QUERY.key}", max_results=5, topic=None, time_range=None)
        assert found["results"][0]["content"] == QUERY.page["content"]
    finally:
        await client.close()
