"""A connection to a provider that a test can cut: then its port refuses connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from cli.local.ports import free_port


class ProviderLink:
    """Forwards connections to `url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._port = free_port()
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self.url = f"http://127.0.0.1:{self._port}"

    async def restore(self) -> None:
        self._is_cut = False
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self._port)

    async def cut(self) -> None:
        """Refuses new connections, and passes on no request of earlier ones. What was requested before is still answered."""
        assert self._server is not None
        self._is_cut = True
        self._server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        await asyncio.gather(
            self._copy(reader, back, refuses=True), self._copy(there, writer, refuses=False)
        )

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, refuses: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if refuses and self._is_cut:
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort() if refuses and self._is_cut else writer.close()


@asynccontextmanager
async def provider_link(url: str) -> AsyncIterator[ProviderLink]:
    link = ProviderLink(url)
    await link.restore()
    try:
        yield link
    finally:
        await link.cut()
