"""Nobody comes in who is not known: every path but a few asks for a credential, before anything else is looked at.

It stands before the routes, so that a route cannot forget to ask, and a body is not read for a stranger.
"""

from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.attempts import Attempts, Find, Known, ValidityCheck
from services.api.credential import Shown, cookie_name, shown
from services.api.origin import demand_own_page
from services.api.owner import Owner
from services.api.problems import (
    ForbiddenError,
    ProblemError,
    TooManyError,
    UnknownCallerError,
    answer_to,
)
from shared.errors import TransientError
from shared.runtime.connections import counted_as
from shared.runtime.logs import logger
from shared.runtime.settings import Settings
from shared.store import callers
from shared.store.callers import Caller
from shared.store.database import Database
from shared.store.secrets import digest_of
from shared.store.words import AccessScope, CredentialKind

MOST_BAD_ATTEMPTS: Final = 60
"""Of one address, in a minute, before the answer is to wait."""
MOST_OF_CREDENTIAL: Final = 300
"""The same of one bad credential, from wherever it is shown."""
CALLER: Final = "vigil.caller"
"""Under which a request's ASGI scope holds the Caller."""
OPENED: Final = "vigil.opened"
"""And an Opened, where there is one."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY_VIOLATION: Final = 1008

log = logger(__name__)


@dataclass(frozen=True)
class Opened:
    """A transaction that a route may take over, by `pop_all`; else it ends with the request."""

    session: AsyncSession
    ends: AsyncExitStack


class Door:
    def __init__(
        self,
        app: ASGIApp,
        *,
        owner: Owner,
        database: Database,
        settings: Settings,
        places: Known,
        is_open: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._owner = owner
        self._database = database
        self._settings = settings
        self._places = places
        self._is_open = is_open
        self._bad = Attempts(MOST_BAD_ATTEMPTS)
        self._bad_of_credential = Attempts(MOST_OF_CREDENTIAL)
        self._known = Known()
        self._checks = {kind: ValidityCheck(database, _finder(kind)) for kind in CredentialKind}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as opened:
            answer = self._app
            try:
                _demand_storable(scope)
                if not self._is_open(scope["path"]):
                    await self._let_in(scope, opened)
            except (ProblemError, TransientError) as error:
                await opened.aclose()
                answer = answer_to(error)
            await answer(scope, receive, send)

    async def _let_in(self, scope: Scope, opened: AsyncExitStack) -> None:
        """Puts the Caller into `scope`, and for safe methods the transaction in which that was found out, for the route
        to go on in: to begin another would take as long again. Others read a body first, for as long as whoever sends it
        likes, and keep nothing open; nor does one in which the use was noted, whose row others would wait for.
        """
        cookie = cookie_name(self._settings, await self._owner.id())
        connection = HTTPConnection(scope)
        credential = await self._checked(connection, cookie)
        async with AsyncExitStack() as looking:
            session = await looking.enter_async_context(self._database.transaction())
            caller = await self._caller(session, credential, connection, scope["method"])
            scope[CALLER] = caller
            if caller.is_unnoted:
                await callers.note_use(session, caller)
            elif scope["method"] in SAFE:
                opened.push_async_exit(looking.pop_all())
                scope[OPENED] = Opened(session, opened)

    async def _checked(self, connection: HTTPConnection, cookie: str) -> Shown:
        """What was shown, where it is or was valid; only then it is given a transaction of its own."""
        credential = shown(connection, cookie)
        if credential is None:
            raise UnknownCallerError(
                "This asks for a credential: a token (`Authorization: Bearer vgl_…`) or a browser that is signed in.",
                is_shown=False,
            )
        known = credential.digest in self._known
        if not known and not await self._checks[credential.kind].is_valid(credential.digest):
            raise self._refusal(credential, address_of(connection))
        return credential

    async def _caller(
        self,
        session: AsyncSession,
        credential: Shown,
        connection: HTTPConnection,
        method: str,
    ) -> Caller:
        caller = await callers.recognise(session, credential.kind, credential.digest)
        if caller is None:
            self._known.discard(credential.digest)
            raise self._refusal(credential, address_of(connection))
        self._known.add(credential.digest)
        self._places.add(place_of(caller.user_id, address_of(connection)))
        if caller.kind is CredentialKind.SESSION and method not in SAFE:
            demand_own_page(connection.headers)
        demand(caller, AccessScope.READ if method in SAFE else AccessScope.WRITE)
        return caller

    def _refusal(self, credential: Shown, address: str) -> ProblemError:
        """Counts the attempt."""
        wait_seconds = 0.0
        for counted, key in (
            (self._bad, address),
            (self._bad_of_credential, credential.digest.hex()),
        ):
            wait_seconds = max(wait_seconds, counted.wait_seconds(key))
            if counted.add(key) and counted is self._bad:
                log.warning("too many bad credentials from one address", address=address)
        if wait_seconds > 0:
            return TooManyError(
                "This credential is not known, and too many such attempts were made.", wait_seconds
            )
        return UnknownCallerError(
            "This credential is not known: it was revoked, has expired, or never was. "
            "Make another with `vigil token create`, or sign in again."
        )


def _finder(kind: CredentialKind) -> Find[bytes]:
    async def find(session: AsyncSession, digests: Collection[bytes]) -> set[bytes]:
        return await callers.find_valid(session, kind, digests)

    return find


def address_of(connection: HTTPConnection) -> str:
    """What the attempts of a request are counted by."""
    return counted_as(connection.client.host if connection.client else "")


def place_of(user_id: UUID, address: str) -> bytes:
    """What is remembered of an address that a user has come in from."""
    return digest_of(f"{user_id} {address}")


def demand(caller: Caller, scope: AccessScope) -> None:
    """Raises ForbiddenError where the caller's credential does not allow that."""
    if scope not in caller.scopes:
        allowed = ", ".join(sorted(caller.scopes)) or "nothing"
        raise ForbiddenError(
            "insufficient-scope",
            f"This needs the scope {scope.value!r}, and the credential that was shown allows {allowed}.",
            headers={
                "WWW-Authenticate": f'Bearer realm="vigil", error="insufficient_scope", scope="{scope.value}"'
            },
        )


def _demand_storable(scope: Scope) -> None:
    """PostgreSQL holds no NUL: what asks for one cannot be there, and need not be looked for."""
    if "\x00" in scope["path"] or "\x00" in unquote(scope["query_string"].decode("latin-1")):
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "nul", "The address holds the character NUL: leave it out."
        )
