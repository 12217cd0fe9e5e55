"""Requests as bytes, for requests that no client library would send."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI

from shared.runtime.connection_limits import ConnectionLimits, protocol_of

ANSWER_SECONDS: Final = 10.0


@asynccontextmanager
async def listening_port(app: FastAPI) -> AsyncIterator[int]:
    """Serve the application with its production server and yield the port."""
    open_socket = socket.create_server(("127.0.0.1", 0))
    limits = ConnectionLimits(total=1000, per_address=500)
    config = uvicorn.Config(
        app,
        http=protocol_of(limits),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=1,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[open_socket]))
    try:
        yield open_socket.getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def send(port: int, request: bytes) -> tuple[int, str]:
    """Return the status and the whole response; status 0 if the connection was closed without one."""
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            await writer.drain()
            text = (await reader.read()).decode("latin-1")
        except ConnectionResetError:
            return 0, ""
        finally:
            writer.close()
    return (int(text.split()[1]) if text else 0), text


def get(target: str, *headers: str, host: str = "127.0.0.1") -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
