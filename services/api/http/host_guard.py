"""Host and origin check: rejects requests that pages of other sites make through a user's browser."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.auth.middleware import is_same_origin, origin_of
from services.api.http.problem_details import problem_response

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class HostGuard:
    """Rejects unknown host names (DNS rebinding) and requests from pages of other origins."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], public_url: str) -> None:
        """`hosts` are accepted names without ports, in addition to loopback's. Pages of `public_url` are accepted
        whatever the host is, since a proxy may replace it.

        IP addresses are always accepted: a page can make its own name resolve to this machine, but
        not an address.
        """
        self._app = app
        self._public_url = public_url
        self._hosts = LOOPBACK | {host.lower().strip("[]") for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self._hosts and not _is_address(name):
            detail = f"The API does not accept the host name {host!r}."
            if name:
                detail += f" If this is its name, start it with VIGIL_ALLOWED_HOSTS={name}."
            return problem_response(403, "foreign-host", detail)
        origin = headers.get("origin")
        if origin is not None and not is_same_origin(origin, headers, self._public_url):
            return problem_response(
                403,
                "foreign-page",
                f"Pages from {origin} may not use this API, which was called as {host} and has the public URL "
                f"{origin_of(self._public_url)}. If {origin} is its address behind a proxy, start Vigil with "
                f"VIGIL_PUBLIC_URL={origin}, or let the proxy pass on the header Host.",
            )
        return None


def _host_name(host: str) -> str | None:
    """Returns the host without its port; None where it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(name: str | None) -> bool:
    try:
        ip_address(name or "")
    except ValueError:
        return False
    return True
