"""A client of a search service that a test scripts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shared.errors import VigilError
from shared.provider_limits.gate import ProviderGate
from shared.web_search.client import SearchClient
from tests.support.model_server import ModelStandIn, Respond, model_server


@asynccontextmanager
async def search_client(
    stand_in: ModelStandIn, gate: ProviderGate | None = None
) -> AsyncIterator[SearchClient]:
    client = SearchClient(api_key="k", base_url=stand_in.url, timeout_seconds=5, gate=gate)
    try:
        yield client
    finally:
        await client.close()


async def search(client: SearchClient) -> object:
    return await client.search("lithium", max_results=1, topic=None, time_range=None)


async def search_error(respond: Respond) -> VigilError:
    async with model_server(respond) as stand_in, search_client(stand_in) as client:
        with pytest.raises(VigilError) as error:
            await search(client)
    return error.value
