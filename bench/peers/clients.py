"""Clients of the model and the search: by httpx, or by the libraries of their providers."""

from typing import Protocol

import httpx
from openai import AsyncOpenAI
from tavily import AsyncTavilyClient

from bench.peers.reference import Json


class Clients(Protocol):
    async def ask(self, request: Json, key: str) -> Json:
        """The message of the model's answer. `key` is the idempotency key."""

    async def search(self, query: str) -> Json: ...


class HttpxClients:
    """The least that makes the calls."""

    def __init__(self, url: str) -> None:
        headers = {"Authorization": "Bearer bench"}
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
        self._client = httpx.AsyncClient(base_url=url, headers=headers, limits=limits)

    async def ask(self, request: Json, key: str) -> Json:
        response = await self._client.post(
            "/v1/chat/completions", json=request, headers={"Idempotency-Key": key}
        )
        message: Json = response.raise_for_status().json()["choices"][0]["message"]
        return message

    async def search(self, query: str) -> Json:
        response = await self._client.post("/search", json={"query": query, "max_results": 5})
        found: Json = response.raise_for_status().json()
        return found


class LibraryClients:
    """OpenAI's and Tavily's Python libraries."""

    def __init__(self, url: str) -> None:
        self._model = AsyncOpenAI(api_key="bench", base_url=f"{url}/v1")
        self._search = AsyncTavilyClient("bench", api_base_url=url)

    async def ask(self, request: Json, key: str) -> Json:
        completion = await self._model.chat.completions.create(
            **request, extra_headers={"Idempotency-Key": key}
        )
        return completion.choices[0].message.model_dump(mode="json", exclude_none=True)

    async def search(self, query: str) -> Json:
        found: Json = await self._search.search(query, max_results=5)
        return found
