"""Model servers of this machine are found by what they list, and offered."""

import asyncio
import io
from typing import Any

import pytest
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cli.config.local_servers import LocalServer, find_local_servers
from cli.render.console import THEME
from cli.render.operations import show_local_servers
from tests.support.sandbox.server import running_app


def server(models: Any, status: int = 200) -> Starlette:
    async def health(_: Request) -> Response:
        return Response()

    async def list_models(_: Request) -> Response:
        return JSONResponse(models, status)

    return Starlette(routes=[Route("/health", health), Route("/v1/models", list_models)])


@pytest.mark.parametrize(
    ("models", "status", "found"),
    [
        (
            {"object": "list", "data": [{"id": "qwen3", "owned_by": "x"}, {"id": "phi"}]},
            200,
            ("qwen3", "phi"),
        ),
        ({"data": []}, 200, None),
        ({"detail": "Not Found"}, 404, None),
        (["x"], 200, None),
        ({"data": [{"name": "x"}]}, 200, None),
        ({"data": [{"id": "x" * 2_000_000}]}, 200, None),
    ],
)
async def test_a_server_is_found_by_its_models(
    models: Any, status: int, found: tuple[str, ...] | None
) -> None:
    async with running_app(server(models, status)) as url:
        port = int(url.rpartition(":")[2])
        ports = {"Ollama": port, "vLLM": 1}
        servers = await asyncio.to_thread(find_local_servers, ports)
    assert servers == ([LocalServer("Ollama", f"{url}/v1", found)] if found else [])


def test_a_server_is_offered_with_the_command_that_uses_it() -> None:
    console = Console(file=io.StringIO(), theme=THEME, width=200)
    servers = [LocalServer("Ollama", "http://127.0.0.1:11434/v1", ("qwen3", "phi"))]
    show_local_servers(console, servers, "vigil up")
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "Ollama runs on this machine and has qwen3 and 1 more." in text
    assert "OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=qwen3 vigil up" in text
