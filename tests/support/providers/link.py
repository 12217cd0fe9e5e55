"""A connection to a provider that a test can cut: then its port refuses connections."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class ProviderLink:
    """Forwards connections to `url`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        # Bound and not listening: connections are refused, and no other process gets the port while the link is cut.
        self._place = _bound(0)
        self._port = int(self._place.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self.url = f"http://127.0.0.1:{self._port}"

    def close(self) -> None:
        self._place.close()

    async def restore(self) -> None:
        self._is_cut = False
        self._server = await asyncio.start_server(self._forward, sock=_bound(self._port))

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


def _bound(port: int) -> socket.socket:
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    place.bind(("127.0.0.1", port))
    return place


@asynccontextmanager
async def provider_link(url: str) -> AsyncIterator[ProviderLink]:
    link = ProviderLink(url)
    await link.restore()
    try:
        yield link
    finally:
        await link.cut()
        link.close()
