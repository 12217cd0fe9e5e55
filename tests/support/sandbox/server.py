"""The real sandbox in this process, and requests to it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from openai.types.chat import ChatCompletionToolParam
from starlette.applications import Starlette

from sandbox.app import build_app
from sandbox.http.endpoint import CallHandler
from sandbox.settings import SandboxSettings
from tests.support.waiting import wait_until

MODEL = "sandbox-reader"
MESSAGES: list[Any] = [
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
async def running_sandbox(
    settings: SandboxSettings, handler_type: type[CallHandler] = CallHandler
) -> AsyncIterator[str]:
    """Run the sandbox in this process; yields its URL once the corpus is loaded."""
    async with running_app(build_app(settings, handler_type=handler_type)) as url:
        yield url


@asynccontextmanager
async def running_app(app: Starlette, port: int = 0) -> AsyncIterator[str]:
    """Run an application; yields its URL once /health answers 200. `port` 0: any free port."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        await wait_until(lambda: _is_ready(url), what="the server to be up")
        yield url
    finally:
        server.should_exit = True
        await task


async def _is_ready(url: str) -> bool:
    async with httpx.AsyncClient(verify=False) as client:
        return (await client.get(f"{url}/health")).status_code == 200
