"""The way out for webhooks: a name is looked up once, and what it means is checked, and connected to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx

from shared.errors import VigilError
from shared.webhooks.addresses import Address, parsed, refusal

ADDRESSES_TRIED: Final = 3
"""Of a name that means several, where the first cannot be reached."""

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class RefusedAddressError(VigilError):
    """A webhook's name means an address that nothing is sent to."""


def resolver(slots: int) -> Resolve:
    """By the system. In threads of its own, twice as many as look-ups at the same time: a name server that does not
    answer keeps a thread for longer than an attempt lasts, and must hold up nobody else."""
    threads = ThreadPoolExecutor(2 * slots, thread_name_prefix="look-up")

    async def resolve(host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        addresses = [parsed(str(each[4][0])) for each in found]
        return [address for address in addresses if address is not None]

    return resolve


class CheckedTransport(httpx.AsyncBaseTransport):
    """Connects to the very addresses that were checked, by number: a name server that answers otherwise a moment later
    changes nothing. The certificate is checked against the name, as always."""

    def __init__(self, resolve: Resolve, *, private: bool) -> None:
        self._resolve = resolve
        self._private = private
        # A connection for each delivery: one that is kept would be closed by the other side just when it is needed.
        self._transport = httpx.AsyncHTTPTransport(
            verify=httpx.create_ssl_context(),  # heeds SSL_CERT_FILE
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises RefusedAddressError where the name means none that may be connected to."""
        addresses = await self._allowed(request.url)
        *others, last = addresses[:ADDRESSES_TRIED]
        for address in others:
            try:
                return await self._transport.handle_async_request(_sent_to(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._transport.handle_async_request(_sent_to(request, last))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _allowed(self, url: httpx.URL) -> Sequence[Address]:
        host = url.host
        port = url.port or {"https": 443, "http": 80}[url.scheme]
        try:
            found = await self._resolve(host, port)
        except (
            OSError,
            UnicodeError,
        ) as error:  # UnicodeError: no host name, as a label of 64 characters
            raise httpx.ConnectError(f"{host} cannot be looked up: {error}") from error
        refusals = {address: refusal(address, private=self._private) for address in found}
        allowed = [address for address, why in refusals.items() if why is None]
        if not allowed:
            told = ", ".join(f"{address} {why}" for address, why in refusals.items())
            raise RefusedAddressError(
                f"{host} may not be sent to: {told or 'it has no address'}. Where that is meant, the installation's"
                " setting VIGIL_WEBHOOK_PRIVATE allows private networks"
            )
        return allowed


def _sent_to(request: httpx.Request, address: Address) -> httpx.Request:
    """`request`, whose Host header names the receiver already, with its connection made to `address`."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
    )
