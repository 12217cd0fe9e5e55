"""An HTTP transport that connects to allowed addresses only (protection against SSRF)."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx

from shared.errors import VigilError
from shared.fetch.addresses import Address, parse, refusal

MAX_ADDRESSES: Final = 3
"""How many addresses of a name are tried if the first cannot be reached."""

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class RefusedAddressError(VigilError):
    """The host name resolves only to addresses that must not be reached."""


def resolver(concurrency: int) -> Resolve:
    """Resolves names with getaddrinfo, in its own thread pool.

    The pool has twice as many threads as lookups: an unresponsive name server blocks a thread for longer than an
    attempt lasts, and must not delay others.
    """
    threads = ThreadPoolExecutor(2 * concurrency, thread_name_prefix="look-up")

    async def resolve(host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        entries = await loop.run_in_executor(
            threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        addresses = [parse(str(entry[4][0])) for entry in entries]
        return [address for address in addresses if address is not None]

    return resolve


class CheckedTransport(httpx.AsyncBaseTransport):
    """Connects to the addresses that were checked, not to the name, which prevents DNS rebinding. The certificate is
    verified against the name, as usual.
    """

    def __init__(self, resolve: Resolve, *, private: bool, setting: str) -> None:
        """`private` allows private networks; `setting` is the variable that an error names for it."""
        self._resolve = resolve
        self._private = private
        self._setting = setting
        # One connection per request: the server might close a kept one just when it is needed.
        self._transport = httpx.AsyncHTTPTransport(
            verify=httpx.create_ssl_context(),  # uses SSL_CERT_FILE
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises RefusedAddressError if no address of the host is allowed."""
        addresses = await self._allowed_addresses(request.url)
        *first_addresses, last_address = addresses[:MAX_ADDRESSES]
        for address in first_addresses:
            try:
                return await self._transport.handle_async_request(_request_to(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._transport.handle_async_request(_request_to(request, last_address))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _allowed_addresses(self, url: httpx.URL) -> Sequence[Address]:
        host = url.host
        port = url.port or {"https": 443, "http": 80}[url.scheme]
        try:
            addresses = await self._resolve(host, port)
        except (
            OSError,
            UnicodeError,
        ) as error:  # UnicodeError: invalid host name, such as a label of 64 characters
            raise httpx.ConnectError(f"{host} cannot be resolved: {error}") from error
        refusals = {address: refusal(address, private=self._private) for address in addresses}
        usable = [address for address, why in refusals.items() if why is None]
        if not usable:
            reasons = ", ".join(f"{address} {why}" for address, why in refusals.items())
            raise RefusedAddressError(
                f"{host} is not allowed: {reasons or 'it has no address'}. If it is intended, the"
                f" setting {self._setting} of the installation allows private networks"
            )
        return usable


def _request_to(request: httpx.Request, address: Address) -> httpx.Request:
    """`request` with its connection made to `address`; its Host header already names the receiver."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
    )
