"""Keeps web pages of others away, before anybody is asked who he is: a browser must not be their way in."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.auth.middleware import is_own
from services.api.http.problem_details import problem

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Guard:
    """Refuses names of this machine that a foreign page has invented, and requests that come from such a page."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        """`hosts` are the names, without ports, that are answered to besides loopback's.

        Addresses always are: a page can have its own name mean this machine, but no address.
        """
        self._app = app
        self._hosts = LOOPBACK | {host.lower().strip("[]") for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        name = _name_in(host)
        if name not in self._hosts and not _is_address(name):
            told = f"This api does not answer to {host!r}."
            if name:
                told += f" If that is a name of its own, start it with VIGIL_ALLOWED_HOSTS={name}."
            return problem(403, "foreign-host", told)
        origin = headers.get("origin")
        if origin is not None and not is_own(origin, headers):
            return problem(403, "foreign-page", f"Pages of {origin} may not use this api.")
        return None


def _name_in(host: str) -> str | None:
    """Without the port; None where it is no host at all."""
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
