"""A sandbox with a corpus of two pages, and the official OpenAI and Tavily clients."""

from collections.abc import AsyncIterator

import httpx
import pytest
from openai import AsyncOpenAI
from tavily import AsyncTavilyClient

from sandbox.settings import SandboxSettings
from tests.support.sandbox.controls import ControlledHandler
from tests.support.sandbox.server import running_sandbox


@pytest.fixture(scope="module")
async def server_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "gold.md").write_text(
        "---\ndate: 2026-05-01\nurl: https://press.example/gold\n---\n# Gold\n\nGhana exports gold. Togo has none."
    )
    (folder / "old.md").write_text(
        "---\ndate: 2019-01-01\n---\n# Old gold\n\nGold was dear in 2019."
    )
    settings = SandboxSettings(port=0, corpus=str(folder))
    async with running_sandbox(settings, ControlledHandler) as url:
        yield url


@pytest.fixture
async def url(server_url: str) -> str:
    async with httpx.AsyncClient() as client:
        (await client.post(f"{server_url}/control/reset")).raise_for_status()
    return server_url


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
